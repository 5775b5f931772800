"""Checks in the code of a step while it runs: attributes of values that are not known before.

The functions here take the places of attributes and of some calls in the compiled code (`rewriting`).
"""

import copy
import dataclasses
import functools
import string
import types
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, cast

from msgspec import Struct

from ...errors import ToolBoundaryError

PACKAGE = __name__.partition(".")[0]

MARK = "__nh_cell__"
"""An attribute of classes that the code of a step has defined."""

_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    functools.partial,
)
_FORMATTER = string.Formatter()
_DATA = (Struct, tuple, list, dict, str, bytes, int, Enum)
"""Bases of the library's classes of plain data."""

_ASSIGN = "Keep the value under a name of your own, or call a method."
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
    return (
        attribute[:1] == "_" or attribute in INTERNALS or attribute[:3] in ("co_", "tb_", "gi_", "cr_", "ag_")
    )


INTERNALS = frozenset(
    (
        *("f_back", "f_builtins", "f_code", "f_generator", "f_globals", "f_locals", "f_trace"),
        *("cell_contents", "mro", "func_globals", "get_loop", "get_coro", "get_stack", "get_context"),
        *("parent_task", "child_tasks", "parent_nursery", "child_nurseries", "eventual_parent_nursery"),
    )
)
"""Attributes without underscores by which frames, cells, classes and tasks lead to all other objects."""

SPECIAL = frozenset(
    {"format", "format_map", "obj", "parse_file", "parse_raw", "register", "_asdict", "_fields", "_replace"}
)
"""Attributes about which the value decides."""


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


class ShownModule(types.ModuleType):
    """A module with some members of another one, as code imports it."""


class Members:
    """Stands in compiled code, which reads and sets attributes through it."""

    @staticmethod
    def member(value: object) -> object:
        """Return the value of an attribute, unless it is a module."""
        if issubclass(type(value), types.ModuleType):
            _check_module(value)
        return value

    @staticmethod
    def members(*values: object) -> bool:
        """Check the values that a pattern has found in attributes; True."""
        for value in values:
            Members.member(value)
        return True

    @staticmethod
    def special(owner: object, name: str) -> object:
        """Return an attribute of a name that is harmless on most objects."""
        kind: type[object] = type(owner)
        if name in ("format", "format_map"):
            _check_format(owner, kind, name)
        elif name == "obj" and issubclass(kind, AttributeError | NameError):
            raise refusal("the object of an error is not shown")
        elif name == "register" and isinstance(owner, type):
            raise refusal("classes cannot be changed: register")
        elif name in ("parse_file", "parse_raw") and hasattr(owner, "__pydantic_validator__"):
            raise refusal(f"{name} opens files and runs pickles", "Use model_validate_json.")
        elif name[0] == "_" and not _is_named_tuple(owner if isinstance(owner, type) else kind):
            raise refusal(f"the attribute {name!r} is private")
        return Members.member(getattr(owner, name))

    @staticmethod
    def owner(value: object) -> object:
        """Return an object whose attribute is about to be set or deleted."""
        kind: type[object] = type(value)
        if issubclass(kind, (type, types.ModuleType, *_FUNCTIONS)):
            name = getattr(value, "__name__", None) or "it"
            raise refusal(f"attributes of modules, classes and functions cannot be set: {name}", _ASSIGN)
        if is_of_library(type(value)):
            raise refusal(f"attributes of a {kind.__name__} cannot be set: nighthawk_async made it", _ASSIGN)
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
        """Return a base of a class."""
        if issubclass(type(kind), type) and (issubclass(kind, type) or is_of_library(kind)):
            raise refusal(
                f"a class cannot be derived from {kind.__name__}", "Write a class without this base."
            )
        return kind


def _check_module(module: object) -> None:
    if type(module) is not ShownModule:
        name = str(vars(cast("types.ModuleType", module)).get("__name__"))
        raise refusal(f"the module {name!r} is not shown", "Import what you need from standard modules.")


def _is_named_tuple(kind: type[Any]) -> bool:
    return tuple in kind.__mro__ and "_fields" in vars(kind)


def _check_format(owner: Any, kind: type, name: str) -> None:
    if issubclass(kind, str):
        check_format_text(str.__str__(owner))
    elif isinstance(owner, type) and issubclass(owner, str):
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
        for part in (field or "").replace("[", ".").replace("]", "").split(".")[1:]:
            if is_private(part):
                raise refusal(f"the attribute {part!r} in a format text is private")
        if specification:
            check_format_text(specification)


# --- members of standard modules that are not as they are there ---


def _plain_dataclass(kind: Any = None, /, **options: Any) -> Any:
    """`dataclasses.dataclass` for classes of the step's own code."""
    if kind is None:
        return functools.partial(_plain_dataclass, **options)
    if not isinstance(kind, type) or MARK not in vars(kind):
        raise refusal("dataclass changes its class: only classes of your own", _ASSIGN)
    made: Any = dataclasses.dataclass(**options)
    return made(kind)


def _replace(value: Any, /, **changes: object) -> object:
    _check_copied(value)
    _check_names(changes)
    return dataclasses.replace(value, **changes)


def _asdict(value: Any) -> object:
    _check_copied(value)
    return dataclasses.asdict(value, dict_factory=_public_items)


def _public_items(items: list[tuple[str, object]]) -> dict[str, object]:
    return {name: value for name, value in items if not is_private(name)}


def _astuple(value: Any) -> object:
    _check_copied(value)
    return tuple(getattr(value, each.name) for each in dataclasses.fields(value) if not is_private(each.name))


def _copy(value: Any) -> object:
    _check_copied(value)
    return copy.copy(value)


def _deepcopy(value: Any) -> object:
    _check_copied(value)
    return copy.deepcopy(value)


def _check_copied(value: object) -> None:
    if is_of_library(type(value)):
        raise refusal(f"a {type(value).__name__} cannot be copied: nighthawk_async made it")


def _check_names(names: Mapping[str, object]) -> None:
    for name in names:
        if is_private(name):
            raise refusal(f"the attribute {name!r} is private")


REPLACED: Mapping[str, Mapping[str, Callable[..., object]]] = {
    "copy": {"copy": _copy, "deepcopy": _deepcopy},
    "dataclasses": {
        "asdict": _asdict,
        "astuple": _astuple,
        "dataclass": _plain_dataclass,
        "replace": _replace,
    },
}
"""Members of modules that take the places of Python's own."""
