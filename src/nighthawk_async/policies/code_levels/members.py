"""Checks in the code of a step while it runs: attributes of values that are not known before.

The functions here take the places of attributes and of some calls in the compiled code (`rewriting`).
"""

import contextvars
import copy
import dataclasses
import functools
import re
import string
import sys
import types
from collections import UserString
from enum import Enum
from typing import Any
from weakref import WeakSet

from msgspec import Struct

from ...errors import ToolBoundaryError

PACKAGE = __name__.partition(".")[0]

ENUMS = f"{__package__}.replaced_members"
"""The module of the class of enumerations that code of a step writes."""

MARK = "__nh_cell__"
"""An attribute of classes that the code of a step has defined."""

_PROTOCOLS = WeakSet[type]()
"""Protocols that the code of a step has defined. The mark would be one of their members."""

_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    functools.partial,
    type(functools.cache(abs)),
)
_LEADING = (
    types.ModuleType,
    types.FrameType,
    types.TracebackType,
    types.CodeType,
    types.CellType,
    types.CoroutineType,
    contextvars.Context,
    contextvars.ContextVar,
)
"""Kinds of objects that lead to others which nothing shows, or to the program's own work."""

_DESCRIPTIONS: tuple[type, ...] = (dataclasses.Field,)
"""Kinds of objects that describe classes."""

_CALLED = re.compile(r"[^\w\s\[\].-]")
"""Parts of an expression in a field. A generic model evaluates the texts in brackets, as names of types."""

_FORMATTER = string.Formatter()
_DATA = (Struct, tuple, list, dict, str, bytes, int, Enum)
"""Bases of the library's classes of plain data."""

KEEP = "Keep the value under a name of your own, or call a method."
_SHOWN = "Use the public members of the names shown under LOCALS, GLOBALS and TYPES."
AUTHOR = " (For the author of the block: code='python' allows it.)"


def refusal(message: str, guidance: str = _SHOWN) -> ToolBoundaryError:
    """Make the error for what the level `shown` does not allow.

    Args:
        message: What is not possible.
        guidance: What the model can do.
    """
    return ToolBoundaryError(kind="resolution", message=message, guidance=f"{guidance}{AUTHOR}")


def is_private(attribute: str) -> bool:
    """Whether code cannot use an attribute: it begins with an underscore, or is one of the interpreter's."""
    if type(attribute) is not str:  # a class of the code's own, which may say anything of itself
        return True
    return (
        attribute[:1] == "_" or attribute in INTERNALS or attribute[:3] in ("co_", "tb_", "gi_", "cr_", "ag_")
    )


def is_of_own_class(attribute: str) -> bool:
    """Whether code can use a private attribute where the class is its own, as in `self._total`."""
    return attribute[:1] == "_" and attribute[-2:] != "__" and attribute not in SPECIAL and attribute != "_"


INTERNALS = frozenset(
    (
        *("f_back", "f_builtins", "f_code", "f_generator", "f_globals", "f_locals", "f_trace"),
        *("cell_contents", "mro", "func_globals", "get_loop", "get_coro", "get_stack", "get_context"),
        *("parent_task", "child_tasks", "parent_nursery", "child_nurseries", "eventual_parent_nursery"),
    )
)
"""Attributes without underscores by which frames, cells, classes and tasks lead to all other objects."""

_OF_MODELS = frozenset(
    (
        *("copy", "model_config", "model_copy", "model_fields", "model_json_schema", "model_rebuild"),
        *("parse_file", "parse_raw", "update_forward_refs"),
    )
)
SPECIAL = _OF_MODELS | {
    *("format", "format_map", "obj", "register", "send", "statistics", "throw"),
    *("_asdict", "_fields", "_replace"),
}
"""Attributes about which the value decides."""

SCOPES = frozenset(
    (
        *("CancelScope", "TaskGroup", "create_task_group", "fail_after", "fail_at", "move_on_after"),
        *("move_on_at", "open_nursery", "timeout"),
    )
)
"""Functions of event loops that make scopes. One that stays open would spoil the task of the step."""


def is_of_library(kind: type) -> bool:
    """Whether a class is one of the library's, or derives from one."""
    return any(_is_of_package(each.__module__) for each in kind.__mro__) and not issubclass(
        kind, BaseException
    )


def makes_powers(kind: object) -> bool:
    """Whether a class of the library may make objects that can do more than those that are shown.

    `type(workspace)("/")` would be the workspace of another folder. Classes of plain data make no such thing.
    """
    return isinstance(kind, type) and is_of_library(kind) and not issubclass(kind, _DATA)


def _is_of_package(module: object) -> bool:
    return type(module) is str and (module == PACKAGE or module.startswith(f"{PACKAGE}."))


def scope_refusal(name: str) -> ToolBoundaryError:
    """Make the error for a scope of an event loop that may stay open."""
    return refusal(
        f"a scope that may stay open: {name}",
        "Make it in a `with` statement, outside of generators, as in `with anyio.fail_after(5):`.",
    )


def is_marked(kind: type) -> bool:
    """Whether code of a step has written a class."""
    return MARK in vars(kind) or kind in _PROTOCOLS


class ShownModule(types.ModuleType):
    """A module with some members of another one, as code imports it."""


class Members:
    """Stands in compiled code, which reads and sets attributes through it."""

    @staticmethod
    def member(value: object) -> object:
        """Return the value of an attribute, unless it is a module, or another object that leads elsewhere."""
        if issubclass(type(value), _LEADING):
            _check_leading(value)
        return value

    @staticmethod
    def are_members(*values: object) -> bool:
        """Whether the values that a pattern has found in attributes may be shown."""
        return not any(
            issubclass(type(value), _LEADING) and type(value) is not ShownModule for value in values
        )

    @staticmethod
    def refuse_members(*_: object) -> bool:
        """Refuse what a pattern has found. The arguments take it from the names of the pattern."""
        raise refusal("a module, or a part of the interpreter, in an attribute is not shown")

    @staticmethod
    def special(owner: object, name: str) -> object:
        """Return an attribute of a name that is harmless on most objects."""
        kind: type[object] = type(owner)
        if name in ("format", "format_map"):
            _check_format(owner, kind, name)
        elif name in _OF_MODELS:
            if hasattr(owner if isinstance(owner, type) else kind, "__pydantic_validator__"):
                return _of_model(owner, name)
        elif name[0] == "_":
            if not _is_named_tuple(owner if isinstance(owner, type) else kind):
                raise refusal(f"the attribute {name!r} is private")
        elif name == "obj" and issubclass(kind, AttributeError | NameError):
            raise refusal("the object of an error is not shown")
        elif name == "register" and isinstance(owner, type | types.FunctionType):
            raise refusal("classes and functions cannot be changed: register")
        elif name in ("send", "throw") and issubclass(kind, types.CoroutineType):
            raise refusal("coroutines are awaited, and not driven by hand", "Use await.")
        elif name == "statistics" and kind.__module__.partition(".")[0] in ("anyio", "trio"):
            raise refusal("tasks are not shown: statistics")
        return Members.member(getattr(owner, name))

    @staticmethod
    def scope(owner: object, name: str) -> object:
        """Return an attribute that is no function which makes scopes."""
        if type(owner) is ShownModule:
            raise scope_refusal(name)
        return Members.member(getattr(owner, name))

    @staticmethod
    def protocol(kind: type) -> type:
        """Return a class that code of a step has written, without its mark if it is a protocol."""
        attributes: dict[str, Any] = dict(vars(kind))
        if attributes.get("_is_protocol") and MARK in attributes:
            delattr(kind, MARK)
            attributes.get("__protocol_attrs__", set[str]()).discard(MARK)  # from Python 3.12
            _PROTOCOLS.add(kind)
        return kind

    @staticmethod
    def is_own(value: object) -> bool:
        """Whether a value is a class that code of a step has written, or an object of one."""
        return is_marked(value if isinstance(value, type) else type(value))

    @staticmethod
    def own(value: object) -> object:
        """Return an object whose private attribute is used: one of a class that code of a step has written.

        All of its classes are, besides plain ones of Python, so that the attribute is of that code as well.
        """
        kind: Any = value if isinstance(value, type) else type(value)
        if not is_marked(kind) or not all(map(_is_own, kind.__mro__)):
            raise refusal("the attribute is private: only those of classes of your own are not")
        return value

    @staticmethod
    def augmented(value: Any, name: str) -> object:
        """Return an object with an attribute that is about to be changed by an operator."""
        Members.member(getattr(value, name, None))
        return Members.owner(value, name)

    @staticmethod
    def owner(value: object, name: str) -> object:
        """Return an object whose attribute is about to be set or deleted."""
        kind: type[object] = type(value)
        if issubclass(kind, (type, *_LEADING, *_FUNCTIONS, *_DESCRIPTIONS)):
            name = getattr(value, "__name__", None) or "it"
            raise refusal(f"attributes of modules, classes and functions cannot be set: {name}", KEEP)
        if is_of_library(type(value)):
            raise refusal(f"attributes of a {kind.__name__} cannot be set: nighthawk_async made it", KEEP)
        if issubclass(kind, Enum) and not is_marked(kind):
            raise refusal(f"members of {kind.__name__} cannot be changed: all of the program has them", KEEP)
        if _is_method(kind, name):
            raise refusal(f"methods cannot be replaced: {name} of a {kind.__name__}", KEEP)
        return value

    @staticmethod
    def kind(kind: Any) -> Any:
        """Return what `type(x)` is, unless it is a class of classes, which makes classes."""
        if issubclass(kind, type):
            raise refusal("the class of a class is not shown")
        if makes_powers(kind):
            raise refusal(f"the class {kind.__name__} is not shown: nighthawk_async made its object")
        return kind

    @staticmethod
    def base(kind: Any) -> object:
        """Return a base of a class, unless code of others runs when a class is derived from it."""
        for each in types.resolve_bases((kind,)):
            if isinstance(each, type) and not _is_base(each):
                raise refusal(
                    f"a class cannot be derived from {each.__name__}", "Write a class without this base."
                )
        return kind


def _check_leading(value: object) -> None:
    if type(value) is ShownModule:
        return
    if isinstance(value, types.ModuleType):
        name = str(vars(value).get("__name__"))
        raise refusal(f"the module {name!r} is not shown", "Import what you need from standard modules.")
    raise refusal(f"a {type(value).__name__} in an attribute is not shown")


def _is_own(kind: type) -> bool:
    """Whether code of a step has written a class, or it is a plain one of Python."""
    return is_marked(kind) or kind.__module__ in ("builtins", "abc", "typing")


def _is_base(kind: type[object]) -> bool:
    """Whether no code runs when a class is derived from another one, besides that of standard modules."""
    made_by = type(kind).__module__
    if issubclass(kind, type) or is_of_library(kind) or not (_is_standard(made_by) or made_by == ENUMS):
        return False
    return all(
        _is_standard(each.__module__) or "__init_subclass__" not in vars(each) for each in kind.__mro__
    )


def _is_standard(module: object) -> bool:
    return type(module) is str and module.partition(".")[0] in sys.stdlib_module_names


def _is_method(kind: type, name: str) -> bool:
    """Whether an attribute is a method of a class that the code of a step has not written."""
    for each in kind.__mro__:
        declared = vars(each).get(name)
        if declared is not None:
            is_method = isinstance(declared, (*_FUNCTIONS, classmethod, staticmethod))
            return is_method and not is_marked(each)
    return False


def _of_model(owner: Any, name: str) -> object:
    """Return a member of a pydantic model; what describes its fields as a copy."""
    if name == "model_fields":
        return {each: _copied_field(field) for each, field in getattr(owner, name).items()}
    if name == "model_config":
        return dict(owner.model_config)
    if name in ("copy", "model_copy"):
        return _copying(owner, getattr(owner, name))
    if name == "model_json_schema":
        return lambda by_alias=True, mode="validation": owner.model_json_schema(by_alias=by_alias, mode=mode)
    if name in ("parse_file", "parse_raw"):
        raise refusal(f"{name} opens files and runs pickles", "Use model_validate_json.")
    raise refusal(f"classes cannot be changed: {name}")


def _copied_field(field: Any) -> object:
    """Return a copy of the description of a field, with its own containers."""
    copied = copy.copy(field)
    for each in ("examples", "json_schema_extra", "metadata"):
        value: Any = getattr(field, each, None)
        if type(value) in (list, dict):
            setattr(copied, each, copy.copy(value))
    return copied


def _copying(owner: Any, copy_model: Any) -> Any:
    """Return a method that copies a model, and changes its fields at most."""

    def copy_with(*args: Any, update: Any = None, **options: Any) -> object:
        changes: dict[str, object] = dict(update or {})
        for each in changes:
            if is_private(each) or _is_method(owner if isinstance(owner, type) else type(owner), each):
                raise refusal(f"{each!r} is no field: a copy is changed in its fields alone")
        return copy_model(*args, update=changes or None, **options)

    return copy_with


def _is_named_tuple(kind: type[Any]) -> bool:
    return tuple in kind.__mro__ and "_fields" in vars(kind)


def _check_format(owner: Any, kind: type, name: str) -> None:
    if issubclass(kind, str):
        check_format_text(str.__str__(owner))
    elif issubclass(kind, UserString | string.Formatter):
        raise refusal(
            f"{kind.__name__}.{name} is not available", f"Call the method of a text: text.{name}(…)."
        )
    elif isinstance(owner, type) and issubclass(owner, str | UserString | string.Formatter):
        raise refusal(f"str.{name} is not available", f"Call the method of a text, as in text.{name}(…).")


def check_format_text(text: str) -> None:
    """Refuse a format text whose fields have private attributes.

    Raises:
        ToolBoundaryError: They do.
    """
    if "{" not in text:
        return
    try:
        fields = list(_FORMATTER.parse(text))
    except ValueError:
        return  # formatting will fail
    for _, field, specification, _ in fields:
        if _CALLED.search(field or ""):
            raise refusal(f"the field {field!r} in a format text", "Use names and numbers in brackets.")
        for part in (field or "").replace("[", ".").replace("]", "").split(".")[1:]:
            if is_private(part):
                raise refusal(f"the attribute {part!r} in a format text is private")
        if specification:
            check_format_text(specification)
