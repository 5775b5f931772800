"""The top-level entries of a section, each of the kind that decides its rendering.

Specification 8.2.2.

The classes of the values that a section shows are noted, for the section of types.
"""

import types
import typing
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from types import ModuleType
from typing import Any, TypeAlias, cast

import typing_extensions
from msgspec import Struct

from ..configuration import StepContextLimits
from ..secret_names import HIDDEN, hides_value
from ..types.messages import UserContent
from .annotations import is_type_alias, is_type_expression, written_type
from .callables import CallableDescription, callable_line, describe_callable
from .containers import is_container_type
from .multimodal import as_user_content
from .objects import (
    ObjectMembers,
    find_functions,
    find_members,
    method_lines,
    object_lines,
    readable_fields,
)
from .plain_text import (
    VALUE_SHARE,
    ValueLine,
    class_dictionary,
    find_class_attribute,
    has_base,
    is_one_of,
    type_module,
    type_name,
)
from .scalars import PLAIN_TYPES, EnumerationDescription, describe_enumeration, find_scalar_text, module_name
from .type_names import TypeNames

_UNRESOLVABLE = "<unresolvable>"
_NO_LEAVES: Mapping[tuple[str, ...], object] = {}


class _Text(Struct, frozen=True):
    """A value whose line needs no limits: a type alias."""

    line: str


class _Module(Struct, frozen=True):
    """A module, with the public functions that are shown."""

    line: str
    members: ObjectMembers


class _Inline(Struct, frozen=True):
    """A value that travels as user content."""

    content: tuple[UserContent, ...]


class _Preview(Struct, frozen=True):
    """A scalar or a container."""


_PREVIEW = _Preview()


_Kind: TypeAlias = (
    _Text | _Module | _Inline | _Preview | CallableDescription | EnumerationDescription | ObjectMembers
)


class Entry(Struct, frozen=True, kw_only=True):
    """A name, its value, and the facts found about it."""

    name: str
    value: object
    kind: _Kind


def classify_entry(
    name: str, value: object, *, limits: StepContextLimits, names: TypeNames | None = None
) -> Entry:
    """Classify a value for rendering; callables and objects are described at once.

    Args:
        name: The top-level name.
        value: The value.
        limits: The number of members of an object that count.
        names: The names by which the block writes types; None for their own names.
    """
    return Entry(name=name, value=value, kind=_kind_of(name, value, limits, names))


class EntryRenderer:
    """Renders the entries of one section.

    Args:
        entries: The entries, whose signatures are compared with each other.
        references: Names and dotted paths that the program mentions.
        limits: Token limits of previews.
        show_secrets: Whether to show values with secret names.
    """

    __slots__ = ("_ambiguous", "_limits", "_named", "_references", "_show_secrets")

    def __init__(
        self,
        *,
        entries: Iterable[Entry],
        references: Collection[str],
        limits: StepContextLimits,
        show_secrets: bool = False,
    ) -> None:
        self._limits = limits
        self._show_secrets = show_secrets
        self._references = _by_root(tuple(references))
        described = (entry for entry in entries if entry.kind is not _PREVIEW)
        counts = Counter(signature for entry in described for signature in _signatures(entry))
        self._named = frozenset(references)
        self._ambiguous = frozenset(signature for signature, count in counts.items() if count > 1)

    def render(self, entry: Entry) -> Iterator[UserContent | ValueLine]:
        """Render an entry as lines and inline content, in order; lines have no line break at their end.

        Args:
            entry: The entry.
        """
        kind = entry.kind
        leads_below = entry.name in self._references
        hoisted = self._hoisted_leaves(entry) if leads_below else _NO_LEAVES
        if isinstance(kind, _Text):
            yield kind.line
        elif isinstance(kind, _Module):
            yield kind.line
            yield from method_lines(entry.name, kind.members, self._ambiguous)
        elif isinstance(kind, _Inline):
            yield from _inline(entry.name, entry.value, kind.content)
        elif isinstance(kind, CallableDescription):
            yield callable_line(entry.name, kind, is_ambiguous=kind.signature in self._ambiguous)
        elif isinstance(kind, ObjectMembers):
            yield from object_lines(
                entry.name,
                entry.value,
                kind,
                ambiguous_signatures=self._ambiguous,
                hoisted_fields={path[0] for path in hoisted if len(path) == 1},
                references=self._references.get(entry.name, ()),
                limits=self._limits,
                show_secrets=self._show_secrets,
            )
        elif isinstance(kind, EnumerationDescription):
            yield self._value_line(entry.name, kind.kind, kind.member_names)
        else:
            cls = type(entry.value)
            yield self._value_line(entry.name, PLAIN_TYPES.get(id(cls)) or type_name(cls), entry.value)
        for path, leaf in hoisted.items():
            yield from _inline(".".join((entry.name, *path)), leaf, as_user_content(leaf) or ())

    def _value_line(self, name: str, kind: str, value: object) -> ValueLine:
        is_named = name in self._named
        is_hidden = not self._show_secrets and not is_named and hides_value(name, value)
        return ValueLine(
            name=name,
            start=f"{name}: {kind} = ",
            value=HIDDEN if is_hidden else value,
            share=VALUE_SHARE,
            max_tokens=self._limits.value_max_tokens,
            is_named=is_named,
        )

    def _hoisted_leaves(self, entry: Entry) -> Mapping[tuple[str, ...], object]:
        """Resolve the paths below an entry that lead to inline content."""
        leaves: dict[tuple[str, ...], object] = {}
        for path in self._references.get(entry.name, ()):
            value = entry.value
            for segment in path:
                fields = readable_fields(value)
                if segment not in fields:
                    break
                value = fields[segment]
            else:
                if as_user_content(value) is not None:
                    leaves[path] = value
        return leaves


def _kind_of(name: str, value: object, limits: StepContextLimits, names: TypeNames | None) -> _Kind:
    cls = type(value)
    if id(cls) in PLAIN_TYPES:
        return _PREVIEW
    if is_type_alias(value):
        return _Text(f"{name}: type = {_underlying_type(value, names)}")
    if is_type_expression(value):
        return _Text(f"{name}: type = {written_type(value, names)}")
    if has_base(cls, ModuleType):
        module = cast(ModuleType, value)
        members = find_functions(module, limits=limits, names=names)
        return _Module(f'{name}: module = "{module_name(module)}"', members)
    enumeration = describe_enumeration(value)
    if enumeration is not None:
        return enumeration
    if callable(value):
        return describe_callable(value, names=names)
    if find_scalar_text(cls) is not None:
        return _PREVIEW
    content = as_user_content(value)
    if content is not None:
        return _Inline(content)
    if is_container_type(cls):
        return _PREVIEW
    return find_members(value, limits=limits, names=names)


def _underlying_type(alias: object, names: TypeNames | None) -> str:
    """Return the value of a type alias; this evaluates the right-hand side of its `type` statement."""
    try:
        return written_type(cast(Any, alias).__value__, names)
    except Exception:
        # The expression is the program's own and may fail in any way; the name is still worth showing.
        return _UNRESOLVABLE


def _inline(path: str, value: object, content: tuple[UserContent, ...]) -> Iterator[UserContent]:
    yield f"{path}: {type_name(type(value))} ="
    yield from content


def _signatures(entry: Entry) -> Iterator[str]:
    kind = entry.kind
    if isinstance(kind, CallableDescription):
        descriptions = [kind]
    elif isinstance(kind, ObjectMembers | _Module):
        kind = kind.members if isinstance(kind, _Module) else kind
        descriptions = [description for _, description in kind.methods]
    else:
        return
    yield from (description.signature for description in descriptions if description.signature is not None)


@lru_cache(maxsize=256)
def _by_root(references: tuple[str, ...]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Sort dotted paths by their first segment; the rest of each, in lexicographic order."""
    paths: dict[str, list[tuple[str, ...]]] = {}
    for reference in sorted(set(references)):
        root, *path = reference.split(".")
        if path:
            paths.setdefault(root, []).append(tuple(path))
    return {root: tuple(rest) for root, rest in paths.items()}


_MAX_DEPTH = 3
_ITEMS_READ = 3
"""The number of items of a container whose classes are noted; later items mostly have the same."""

_UNIONS = (typing.Union, types.UnionType)
_SEQUENCES = (list, tuple, set, frozenset)


def note_met_types(entries: Iterable[Entry], names: TypeNames) -> None:
    """Note the classes of values and of their contents.

    Args:
        entries: The entries that are shown.
        names: Gets the notes.
    """
    for entry in entries:
        kind = type(entry.value)
        if id(kind) in PLAIN_TYPES:
            continue
        if isinstance(entry.kind, ObjectMembers):
            names.described[id(kind)] = kind
            for _, value in entry.kind.fields:
                _note(value, names)
        if has_base(kind, type):
            _note_class(cast("type", entry.value), names)
        else:
            _note(entry.value, names)


def note_described(annotation: object, names: TypeNames) -> None:
    """Note the classes of which a parameter may hold an instance, whose methods are shown with the value.

    Args:
        annotation: The type of the parameter, resolved.
        names: Gets the notes.
    """
    origin = typing_extensions.get_origin(annotation)
    if origin is typing_extensions.Annotated:
        note_described(typing_extensions.get_args(annotation)[0], names)
    elif origin in _UNIONS:
        for each in typing_extensions.get_args(annotation):
            note_described(each, names)
    elif (
        has_base(type(annotation), type) and not find_class_attribute(cast("type", annotation), "__call__")[0]
    ):
        names.described[id(annotation)] = annotation


def _note(value: object, names: TypeNames, depth: int = 0) -> None:
    kind = type(value)
    if type_module(kind) != "builtins":
        _note_class(kind, names)
    elif depth < _MAX_DEPTH:
        for item in _items(value, kind):
            _note(item, names, depth + 1)


def _note_class(cls: type, names: TypeNames) -> None:
    """Note a class; for a generic one with arguments, the class without them and the arguments."""
    if type_module(cls) == "builtins" or id(cls) in names.met:
        return
    if "__pydantic_generic_metadata__" not in class_dictionary(cls):
        names.met[id(cls)] = cls
        return
    noted = names.apart()
    written_type(cls, noted)
    names.met.update(noted.mentioned)


def _items(value: object, kind: type) -> Iterator[object]:
    if kind is dict:
        return islice(cast("dict[object, object]", value).values(), _ITEMS_READ)
    if is_one_of(kind, _SEQUENCES):
        return islice(cast("Iterable[object]", value), _ITEMS_READ)
    return iter(())
