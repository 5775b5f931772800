"""Values whose calls or items make classes, or run texts: code at the level `shown` does not use them so.

A class statement defines few special methods. A call that makes a class (`Color("X", {"__reduce_ex__": f})`,
`Meta("X", (), {…})`, `make_dataclass`) takes any, and functions of others call them later. The item of
a generic pydantic model (`Page["open(1)"]`) and the argument of a `TypeAdapter` are evaluated if texts.
"""

import enum
import functools
import itertools
import sys
import types
from collections.abc import Callable
from typing import Any

from ...errors import ToolBoundaryError
from ...prompt.plain_text import class_of, has_base, is_class, resolution_order
from ...values.annotation_texts import evaluates_items, has_texts, without_texts
from .members import Members, refusal

_MAKING: frozenset[tuple[str, str]] = frozenset(
    (
        *(("attr", "make_class"), ("dataclasses", "make_dataclass"), ("msgspec", "defstruct")),
        *(("pydantic", "create_model"), ("pydantic", "dataclass"), ("pydantic", "validate_call")),
        *(("types", "new_class"), ("types", "prepare_class"), ("types", "resolve_bases")),
        *(("typing", "NamedTuple"), ("typing", "TypedDict"), ("typing", "get_type_hints")),
        *(("typing_extensions", "NamedTuple"), ("typing_extensions", "TypedDict")),
        *(("typing_extensions", "get_type_hints"), ("inspect", "get_annotations"), ("inspect", "signature")),
        *(("annotationlib", "get_annotations"), ("annotationlib", "call_annotate_function")),
    )
)
"""Functions, by package and name, that make classes or evaluate texts."""

_CALLING: tuple[object, ...] = (
    map,
    functools.partial,
    functools.reduce,
    functools.cmp_to_key,
    itertools.accumulate,
    itertools.starmap,
)
"""Functions that call what they are given with several arguments."""


_CALLABLE: tuple[type[Any], ...] = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    functools.partial,
)


def _is_of(value: object, kinds: tuple[type[Any], ...]) -> bool:
    """Whether a value is of one of some classes, by its own class: a proxy is not asked."""
    for base in resolution_order(type(value)):
        for kind in kinds:  # loops, because every call of a model's code passes here
            if base is kind:
                return True
    return False


def is_class_maker(value: Any) -> bool:
    """Whether a call of a value makes a class, or runs texts.

    Args:
        value: What would be called.
    """
    if is_class(value):
        if issubclass(value, type):
            return True
        return isinstance(value, enum.EnumType) and not value.__members__
    if type(value) is not types.FunctionType:
        return False
    return (root_of(value.__module__), value.__name__) in _MAKING


def runs_texts(value: Any) -> bool:
    """Whether texts that are given to a class are evaluated: as items, or by its call."""
    return is_class(value) and (evaluates_items(value) or _is_adapter(value))


def _is_adapter(kind: type) -> bool:
    return kind.__name__ == "TypeAdapter" and root_of(kind.__module__) == "pydantic"


def needs_care(value: Any) -> bool:
    """Whether code that uses a value by name needs checks while it runs.

    Args:
        value: The value of the name. Functions and classes of standard modules are of this kind, because they
            may call what they are given.
    """
    if is_class(value):
        return is_class_maker(value) or runs_texts(value) or _is_standard(value)
    if type(value) is types.FunctionType:
        return is_class_maker(value) or _is_standard(value)
    return _is_of(value, (types.BuiltinFunctionType, functools.partial))


def _is_standard(value: type | types.FunctionType) -> bool:
    module = value.__module__
    return module != "builtins" and root_of(module) in sys.stdlib_module_names


def check_called(function: Any) -> Any:
    """Return what is about to be called.

    Raises:
        ToolBoundaryError: It makes a class.
    """
    inner = function
    while has_base(class_of(inner), functools.partial):
        inner = inner.func
    if is_class_maker(inner):
        raise _refusal_of(inner)
    if is_class(inner) and _is_adapter(inner):
        return _checked_adapter(function)
    return function


def check_given(value: Any, function: object = None) -> Any:
    """Return what is about to be given to a function, or to be kept in an attribute.

    Args:
        value: The argument.
        function: The function, if it is called by its name. One of the program may get anything.

    Raises:
        ToolBoundaryError: It makes classes or runs texts, or calls what it is given with several arguments.
    """
    if not _is_of(value, _CALLABLE):
        return value
    if type(function) is types.FunctionType and not _is_standard(function):
        return value
    inner: Any = value
    while has_base(class_of(inner), functools.partial):
        inner = inner.func
    if is_class_maker(inner) or runs_texts(inner):
        raise _refusal_of(inner)
    if any(value is each for each in _CALLING):
        name = getattr(value, "__name__", "it")
        raise refusal(f"{name} as an argument is not available", "Call it, in a lambda for example.")
    return value


def check_all_given(values: Any) -> Any:
    """Return the arguments of `*values`; see `check_given`."""
    return map(check_given, values)


def check_all_named(values: Any) -> dict[str, object]:
    """Return the arguments of `**values`; see `check_given`."""
    given: dict[str, object] = dict(values)
    for each in given.values():
        check_given(each)
    return given


def get_item(owner: Any, key: Any) -> Any:
    """Return an item of an object.

    Raises:
        ToolBoundaryError: It is a generic model, and a text in the item would be evaluated.
    """
    if evaluates_items(owner) and has_texts(key):
        raise refusal(
            f"a text as an item of {owner.__name__}: it is evaluated", "Name the type without quotes."
        )
    return owner[key]


def root_of(module: object) -> str:
    """The package of a module, by its name."""
    return module.partition(".")[0] if type(module) is str else ""


def _checked_adapter(adapter: Callable[..., object]) -> Callable[..., object]:
    def make(kind: Any, **options: Any) -> object:
        if options or has_texts(kind):
            raise refusal("a TypeAdapter of anything else than types by their names")
        return adapter(kind)

    return make


def _refusal_of(value: Any) -> ToolBoundaryError:
    return refusal(
        f"{value.__name__} in such a place: it makes classes or evaluates texts",
        "Write a class statement, or use the classes that are shown.",
    )


class CheckedMembers(Members):
    """Stands in compiled code, also for calls, arguments, items and annotations."""

    called = staticmethod(check_called)
    given = staticmethod(check_given)
    all_given = staticmethod(check_all_given)
    all_named = staticmethod(check_all_named)
    item = staticmethod(get_item)
    part = slice
    annotation = staticmethod(without_texts)
