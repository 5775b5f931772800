"""Type annotations and default values as text, without running the code of either.

For ordinary annotations the text is that of `inspect`; `repr` is called only on objects whose class belongs
to the standard library. Anything that cannot be shown that way is `...`, as in a stub file.
"""

import ast
import collections.abc
import json
import re
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, ForwardRef, cast

import typing_extensions

from .plain_text import (
    class_dictionary,
    clean_text,
    has_base,
    instance_dictionary,
    is_one_of,
    single_line,
    type_module,
    type_name,
)
from .scalars import find_scalar_text
from .type_names import TypeNames, own_name

_UNKNOWN = "..."
_TEXT_CHARACTERS = 2_000
_DEFAULT_CHARACTERS = 60
_DEFAULT_TEXT_CHARACTERS = 200
_MAX_DEPTH = 12
_MAX_PARTS = 32
_MAX_LITERALS = 256

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
    typing.Unpack[tuple[int, ...]],
    typing_extensions.Unpack[tuple[int, ...]],
)
"""One example of each way to write a parameterized type; the older ways give objects of other classes."""

_PARAMETERIZED_TYPES = {id(type(cast(object, example))) for example in _PARAMETERIZED_EXAMPLES}
_BARE_EXAMPLES: tuple[object, ...] = tuple(
    getattr(typing, name) for name in ("ClassVar", "List", "Tuple", "Callable", "Never")
)
_BARE_TYPES = {id(type(example)) for example in _BARE_EXAMPLES}
_NAMED_TYPES = {id(typing.TypeVar), id(typing.ParamSpec), id(typing.TypeVarTuple)}
_ALIAS_TYPES = {id(typing_extensions.TypeAliasType), id(getattr(typing, "TypeAliasType", None))}
_CALLABLE_ORIGIN = typing_extensions.get_origin(typing.Callable[[int], str])
_UNQUALIFIED_MODULES = frozenset({"builtins", "typing", "typing_extensions"})
_DOTTED_NAME = re.compile(r"(?P<text>'[^']*'|\"[^\"]*\")|(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_EMPTY_SHOWN = (list, tuple, dict, set, frozenset)
_LITERAL_TYPES = {id(kind) for kind in (str, bytes, int, float, complex, bool, type(None))}


def is_type_alias(value: object) -> bool:
    """Whether a value was made by a `type` statement (PEP 695)."""
    return id(type(value)) in _ALIAS_TYPES


def is_type_expression(value: object) -> bool:
    """Whether a value is a parameterized type such as `list[int]` or `int | None`."""
    return id(type(value)) in _PARAMETERIZED_TYPES


def written_type(
    annotation: object, names: TypeNames | None = None, namespace: Mapping[str, object] | None = None
) -> str:
    """Write a type on one line, as an annotation in the block would be written.

    Args:
        annotation: The type; metadata of `Annotated` is left out. The names in a text are looked up and
            rewritten; a text in which that is not possible is kept.
        names: The names by which the block writes types; None for the names that they have where they are
            defined.
        namespace: The values of names in texts, those of the module of the annotation.
    """
    return _TypeWriter(names or TypeNames(), namespace or {}).text(annotation)


class _TypeWriter:
    """Writes types; `depth` is the nesting depth of a type."""

    def __init__(self, names: TypeNames, namespace: Mapping[str, object]) -> None:
        self._names = names
        self._namespace = namespace

    def text(self, annotation: object, depth: int = 0) -> str:
        kind = type(annotation)
        if depth > _MAX_DEPTH:
            return _UNKNOWN
        if kind is str:
            return self._of_text(cast(str, annotation))
        if annotation is None or annotation is type(None):
            return "None"
        if has_base(kind, type):
            return self._of_class(cast("type[Any]", annotation), depth)
        if id(kind) in _PARAMETERIZED_TYPES:
            return single_line(self._parameterized(annotation, depth + 1), _TEXT_CHARACTERS)
        return self._special(annotation, kind, depth + 1)

    def _of_class(self, cls: type, depth: int) -> str:
        if type_module(cls) in _UNQUALIFIED_MODULES:
            return single_line(_qualified_name_of_type(cls), _TEXT_CHARACTERS)
        generic = class_dictionary(cls).get("__pydantic_generic_metadata__")
        if type(generic) is dict and (arguments := cast("dict[str, Any]", generic).get("args")):
            if self._names.find(cls) is not None:
                return self._names.written(cls)
            origin = cast("dict[str, object]", generic)["origin"]
            return f"{self.text(origin, depth)}[{self._arguments(arguments, depth + 1)}]"
        return self._names.written(cls)

    def _parameterized(self, annotation: object, depth: int) -> str:
        origin: Any = typing_extensions.get_origin(annotation)
        arguments: tuple[Any, ...] = typing_extensions.get_args(annotation)
        if origin is typing.Union or origin is types.UnionType:
            return " | ".join(self.text(argument, depth) for argument in arguments[:_MAX_PARTS])
        if origin is typing.Annotated or origin is typing_extensions.Annotated:
            return self.text(arguments[0], depth)
        if origin is typing.Literal or origin is typing_extensions.Literal:
            return f"Literal[{', '.join(map(self._literal, arguments[:_MAX_LITERALS]))}]"
        shown = self._arguments(arguments, depth)
        if origin is typing.Unpack or origin is typing_extensions.Unpack:
            return f"*{shown}"
        name = "Callable" if origin is _CALLABLE_ORIGIN else self.text(origin, depth)
        is_unpacked = type(annotation) is types.GenericAlias and annotation.__unpacked__
        return f"{'*' if is_unpacked else ''}{name}[{shown}]"

    def _arguments(self, arguments: tuple[Any, ...], depth: int) -> str:
        return ", ".join(self._argument(argument, depth) for argument in arguments[:_MAX_PARTS]) or "()"

    def _argument(self, argument: object, depth: int) -> str:
        if type(argument) is list:
            return f"[{self._arguments(tuple(cast('list[Any]', argument)), depth).removesuffix('()')}]"
        return self.text(argument, depth)

    def _literal(self, value: object) -> str:
        kind = type(value)
        if has_base(kind, Enum):
            name = instance_dictionary(value).get("_name_")
            return f"{self._names.written(kind)}.{single_line(name, 120) if type(name) is str else '?'}"
        return literal_text(value)

    def _special(self, annotation: object, kind: type, depth: int) -> str:
        if id(kind) in _BARE_TYPES:
            return repr(annotation).removeprefix("typing.").removeprefix("typing_extensions.")
        if id(kind) in _ALIAS_TYPES or kind is typing.NewType:
            return self._names.written(annotation)
        if id(kind) in _NAMED_TYPES:
            return own_name(annotation)
        if kind is ForwardRef:
            return self.text(cast(ForwardRef, annotation).__forward_arg__, depth)
        return _UNKNOWN

    def _of_text(self, text: str) -> str:
        """A text with its names written as the block writes them."""
        shown = single_line(text, _TEXT_CHARACTERS)
        if "Annotated" in shown:
            shown = _without_metadata(shown)
        return _DOTTED_NAME.sub(self._of_name, shown)

    def _of_name(self, match: re.Match[str]) -> str:
        if match["text"]:
            return match[0]
        root, *path = match["name"].split(".")
        named = _member(self._namespace.get(root, self._names.looked_up(root)), path)
        is_written = is_type_alias(named) or type(named) is typing.NewType or has_base(type(named), type)
        if not is_written or named is type(None):
            return match[0]
        return self.text(named)


class _MetadataRemover(ast.NodeTransformer):
    """Replaces `Annotated[…]` by the type in it."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        is_annotated = name == "Annotated" and isinstance(node.slice, ast.Tuple)
        return cast(ast.Tuple, node.slice).elts[0] if is_annotated else node


@lru_cache(maxsize=256)
def _without_metadata(text: str) -> str:
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    return ast.unparse(_MetadataRemover().visit(tree))


def literal_text(value: object) -> str:
    """A value of a `Literal` as text, strings in double quotes.

    Args:
        value: The value.
    """
    if type(value) is str:
        return single_line(json.dumps(clean_text(value), ensure_ascii=False), _TEXT_CHARACTERS)
    return default_text(value)


def _member(value: object, path: list[str]) -> object:
    """Resolve a dotted name below a value, without running an object's attribute access."""
    for name in path:
        if has_base(type(value), type):
            value = class_dictionary(cast("type", value)).get(name)
        else:
            value = instance_dictionary(value).get(name)
    return value


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
    return single_line(f"[{shown}]" if type(value) is list else f"({shown})", _DEFAULT_TEXT_CHARACTERS)


def _literal_text(value: object) -> str:
    if type(value) is int and value.bit_length() > _DEFAULT_CHARACTERS:
        return f"{value:#x}" if value.bit_length() <= _DEFAULT_TEXT_CHARACTERS else _UNKNOWN
    if is_one_of(type(value), (str, bytes)) and len(cast(str, value)) > _DEFAULT_CHARACTERS:
        return f"{cast(str, value)[:_DEFAULT_CHARACTERS]!r}…"
    return single_line(repr(value), _DEFAULT_TEXT_CHARACTERS)
