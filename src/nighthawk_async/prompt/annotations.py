"""Type annotations and default values as text, without running the code of either. Floor 1.

For ordinary annotations the text is the one `inspect` prints; `repr` is called only on objects whose class
belongs to the standard library. What cannot be shown that way is `...`, as in a stub file.
"""

import collections.abc
import types
import typing
from enum import Enum
from typing import Any, ForwardRef, cast

import typing_extensions

from .introspection import has_base, is_one_of, type_name
from .plain_text import single_line
from .scalars import find_scalar_text

__all__ = ["annotation_text", "default_text", "is_type_alias", "is_type_expression"]

_UNKNOWN = "..."
_TEXT_CHARACTERS = 200
_DEFAULT_CHARACTERS = 60
_MAX_DEPTH = 12
_MAX_PARTS = 32

_module_of_type = type.__dict__["__module__"].__get__
_qualified_name_of_type = type.__dict__["__qualname__"].__get__

_PARAMETERIZED_EXAMPLES: tuple[Any, ...] = (
    list[int],
    int | str,
    collections.abc.Callable[[int], str],
    *(getattr(typing, name)[int] for name in ("List", "Optional", "Type", "Literal", "ClassVar")),
    *(getattr(typing, name)[int, str] for name in ("Tuple", "Union", "Annotated")),
    typing.Callable[[int], str],
    typing_extensions.Annotated[int, 1],
    typing_extensions.Literal[1],
)
"""One of each way to write a parameterized type; the older ways are objects of other classes."""

_PARAMETERIZED_TYPES = {id(type(cast(object, example))) for example in _PARAMETERIZED_EXAMPLES}
_BARE_EXAMPLES: tuple[object, ...] = tuple(
    getattr(typing, name) for name in ("ClassVar", "List", "Tuple", "Callable", "Never")
)
_BARE_TYPES = {id(type(example)) for example in _BARE_EXAMPLES}
_NAMED_TYPES = {id(typing.TypeVar), id(typing.ParamSpec), id(typing.NewType)}
_ALIAS_TYPES = {id(typing_extensions.TypeAliasType), id(getattr(typing, "TypeAliasType", None))}
_CALLABLE_ORIGIN = typing_extensions.get_origin(typing.Callable[[int], str])
_EMPTY_SHOWN = (list, tuple, dict, set, frozenset)
_LITERAL_TYPES = {id(kind) for kind in (str, bytes, int, float, complex, bool, type(None))}


def is_type_alias(value: object) -> bool:
    """Tell whether a value is what a `type` statement makes (PEP 695)."""
    return id(type(value)) in _ALIAS_TYPES


def is_type_expression(value: object) -> bool:
    """Tell whether a value is a parameterized type such as `list[int]` or `int | None`."""
    return id(type(value)) in _PARAMETERIZED_TYPES


def annotation_text(annotation: object, depth: int = 0) -> str:
    """Render an annotation on one line.

    Args:
        annotation: The annotation as found; a string stands for itself.
        depth: How deep the annotation stands inside another.
    """
    kind = type(annotation)
    if depth > _MAX_DEPTH:
        return _UNKNOWN
    if kind is str:
        return single_line(cast(str, annotation), _TEXT_CHARACTERS)
    if annotation is None or annotation is type(None):
        return "None"
    if has_base(kind, type):
        return _class_text(cast("type[Any]", annotation))
    if id(kind) in _PARAMETERIZED_TYPES:
        return single_line(_parameterized_text(annotation, depth + 1), _TEXT_CHARACTERS)
    return _special_text(annotation, kind, depth + 1)


def default_text(value: object) -> str:
    """Render the default value of a parameter on one line."""
    kind = type(value)
    if id(kind) in _LITERAL_TYPES:
        return _literal_text(value)
    if has_base(kind, Enum):
        render = find_scalar_text(kind)
        return _UNKNOWN if render is None else str(render(value, _DEFAULT_CHARACTERS))
    if has_base(kind, type):
        return type_name(cast("type[Any]", value))
    if is_one_of(kind, _EMPTY_SHOWN) and not value:
        return repr(value)
    return _flat_sequence_text(cast("list[object]", value)) if kind is list or kind is tuple else _UNKNOWN


def _flat_sequence_text(value: list[object] | tuple[object, ...]) -> str:
    if len(value) > _MAX_PARTS or any(id(type(item)) not in _LITERAL_TYPES for item in value):
        return _UNKNOWN
    shown = ", ".join(map(_literal_text, value))
    return single_line(f"[{shown}]" if type(value) is list else f"({shown})", _TEXT_CHARACTERS)


def _literal_text(value: object) -> str:
    if type(value) is int and value.bit_length() > _DEFAULT_CHARACTERS:
        return f"{value:#x}" if value.bit_length() <= _TEXT_CHARACTERS else _UNKNOWN
    if is_one_of(type(value), (str, bytes)) and len(cast(str, value)) > _DEFAULT_CHARACTERS:
        return f"{cast(str, value)[:_DEFAULT_CHARACTERS]!r}…"
    return single_line(repr(value), _TEXT_CHARACTERS)


def _class_text(cls: type) -> str:
    module, name = _module_of_type(cls), _qualified_name_of_type(cls)
    if type(module) is not str or module in ("builtins", "typing"):
        return single_line(name, _TEXT_CHARACTERS)
    return single_line(f"{module}.{name}", _TEXT_CHARACTERS)


def _parameterized_text(annotation: object, depth: int) -> str:
    origin: Any = typing_extensions.get_origin(annotation)
    arguments: tuple[Any, ...] = typing_extensions.get_args(annotation)[:_MAX_PARTS]
    if origin is typing.Union or origin is types.UnionType:
        return " | ".join(annotation_text(argument, depth) for argument in arguments)
    if origin is typing.Annotated or origin is typing_extensions.Annotated:
        return annotation_text(arguments[0], depth)
    if origin is typing.Literal or origin is typing_extensions.Literal:
        return f"Literal[{', '.join(map(default_text, arguments))}]"
    shown = ", ".join(_argument_text(argument, depth) for argument in arguments) or "()"
    name = "Callable" if origin is _CALLABLE_ORIGIN else annotation_text(origin, depth)
    return f"{name}[{shown}]"


def _argument_text(argument: object, depth: int) -> str:
    if type(argument) is list:
        parameters = cast("list[object]", argument)[:_MAX_PARTS]
        return f"[{', '.join(annotation_text(parameter, depth) for parameter in parameters)}]"
    return annotation_text(argument, depth)


def _special_text(annotation: object, kind: type, depth: int) -> str:
    if id(kind) in _BARE_TYPES:
        return repr(annotation).removeprefix("typing.")
    if id(kind) in _NAMED_TYPES or id(kind) in _ALIAS_TYPES:
        name = cast("typing.TypeVar", annotation).__name__
        return single_line(name, _TEXT_CHARACTERS) if type(name) is str else _UNKNOWN
    if kind is ForwardRef:
        return annotation_text(cast(ForwardRef, annotation).__forward_arg__, depth)
    return _UNKNOWN
