"""Filling prompt templates with sections (specification 8.2.1), and the entries of a section.

Specification 8.2.2.

The classes of the values that a section shows are noted, for the section of types.

Each known placeholder is replaced in one pass; inserted text is never scanned again.

The LOCALS and GLOBALS sections keep within their budgets (specification 8.2.2 and 8.2.3).
"""

import logging
import re
import types
import typing
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from types import ModuleType
from typing import Any, Literal, TypeAlias, cast

import typing_extensions
from msgspec import Struct

from ..configuration import PLACEHOLDER, JsonRendererStyle, StepContextLimits
from ..secret_names import HIDDEN, hides_value
from ..types.messages import UserContent
from .callables import CallableDescription, callable_line, describe_callable
from .containers import is_container_type
from .multimodal import as_user_content
from .objects import ObjectMembers, find_functions, find_members, method_lines, object_lines, readable_fields
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
from .room import SectionRoom
from .scalars import PLAIN_TYPES, EnumerationDescription, describe_enumeration, find_scalar_text, module_name
from .tokens import TokenCounter
from .types import TypeNames, is_type_alias, is_type_expression, written_type

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


def select_locals(step_locals: Mapping[str, object]) -> dict[str, object]:
    """Select the entries of the LOCALS section, in their order: all names but dunder names.

    Args:
        step_locals: The step's locals.
    """
    return {
        name: step_locals[name]
        for name in sorted(step_locals)
        if name.isidentifier() and not name.startswith("__")
    }


Section: TypeAlias = Literal["locals", "globals"]

_logger = logging.getLogger("nighthawk")


class RenderedSection(Struct, frozen=True, kw_only=True):
    """A section as prompt content.

    Args:
        parts: The content in order; adjacent lines are one text. Empty when there are no entries.
        truncation_reason: The limit that kept entries out: `tokens`, `items`, or None when all are shown.
    """

    parts: tuple[UserContent, ...]
    truncation_reason: Literal["tokens", "items"] | None = None


def render_section(
    entries: Mapping[str, object],
    *,
    section: Section,
    limits: StepContextLimits,
    references: Sequence[str],
    style: JsonRendererStyle,
    counter: TokenCounter,
    show_secrets: bool = False,
    names: TypeNames | None = None,
) -> RenderedSection:
    """Render the names and values of a section, values as complete as there is room.

    No code of the values runs. A section that does not fit ends with `<snipped>`, which itself is always
    shown, and the logger `nighthawk` gets a record that begins with `prompt_context_truncated` and names the
    section, the reason and the limit.

    Args:
        entries: The names and their values; dunder names are left out.
        section: The section, which chooses the limits.
        limits: The limits, in tokens and in numbers of items.
        references: Names and dotted paths that the program mentions, in order, each as often as it is
            mentioned. The names mentioned most, and then first, get room first; paths to multimodal values
            get a line of their own.
        style: The style of marks for what previews leave out.
        counter: Counts tokens.
        show_secrets: Whether to show values with secret names that the program does not mention.
        names: The names by which the block writes types; None for their own names.

    Source: specification 8.2.2 and 8.2.3.
    """
    max_tokens, max_items = _section_limits(section, limits)
    selected = select_locals(entries)
    if not selected:
        return RenderedSection(parts=())
    shown = [
        classify_entry(name, selected[name], limits=limits, names=names)
        for name in list(selected)[:max_items]
    ]
    if names is not None:
        note_met_types(shown, names)
    renderer = EntryRenderer(entries=shown, references=references, limits=limits, show_secrets=show_secrets)
    room = SectionRoom(max_tokens, style=style, counter=counter, show_secrets=show_secrets)
    reason: Literal["tokens", "items"] | None = None
    if not all(room.add(piece) for entry in shown for piece in renderer.render(entry)):
        reason = "tokens"
    elif len(selected) > max_items:
        reason = "items"
    if reason is not None:
        room.snip()
        _log_truncation(section, reason, max_tokens=max_tokens, max_items=max_items)
    room.give_away(references)
    return RenderedSection(parts=room.parts(), truncation_reason=reason)


def _section_limits(section: Section, limits: StepContextLimits) -> tuple[int, int]:
    if section == "locals":
        return limits.locals_max_tokens, limits.locals_max_items
    return limits.globals_max_tokens, limits.globals_max_items


def _log_truncation(section: Section, reason: str, *, max_tokens: int, max_items: int) -> None:
    limit = max_tokens if reason == "tokens" else max_items
    _logger.info(
        "prompt_context_truncated: section %s, reason %s, limit %d",
        section,
        reason,
        limit,
        extra={
            "section": section,
            "reason": reason,
            "limit": limit,
            "max_tokens": max_tokens,
            "max_items": max_items,
        },
    )


_PARAGRAPH_END = re.compile(r"\n\n?")


def render_user_prompt(
    template: str,
    *,
    program: str,
    locals_section: RenderedSection,
    globals_section: RenderedSection,
    types: str = "",
    tool_result_max_tokens: int = 0,
) -> tuple[UserContent, ...]:
    """Fill the user prompt template.

    Args:
        template: The template. `$program`, `$locals`, `$globals`, `$types` and `$tool_result_max_tokens`,
            also in braces, are replaced everywhere; `$$` is one dollar sign; any other dollar sign is kept.
        program: The natural program's text.
        locals_section: The rendered LOCALS section.
        globals_section: The rendered GLOBALS section.
        types: The stubs of types.
        tool_result_max_tokens: The limit of a tool result.

    Returns:
        The prompt's content, adjacent texts merged.
    """
    values: dict[str, tuple[UserContent, ...]] = {
        "program": (program,),
        "locals": locals_section.parts,
        "globals": globals_section.parts,
        "types": (types,),
        "tool_result_max_tokens": (str(tool_result_max_tokens),),
    }
    return tuple(_merged(_filled(template, values)))


@lru_cache(maxsize=256)
def render_system_prompt(
    template: str, *, tools: str, outcome: str, types: str = "", tool_result_max_tokens: int = 0
) -> str:
    """Fill the system prompt template.

    Args:
        template: The template, with `$types`, `$tools`, `$outcome` and `$tool_result_max_tokens`.
        tools: The instructions on the step's tools.
        outcome: The instructions on the step's outcome.
        types: The stubs of types.
        tool_result_max_tokens: The limit of a tool result.
    """
    values: dict[str, tuple[UserContent, ...]] = {
        "types": (types,),
        "tools": (tools,),
        "outcome": (outcome,),
        "tool_result_max_tokens": (str(tool_result_max_tokens),),
    }
    return "".join(text for text in _filled(template, values) if type(text) is str)


def _filled(template: str, values: Mapping[str, tuple[UserContent, ...]]) -> Iterator[UserContent]:
    position = 0
    for match in PLACEHOLDER.finditer(template):
        yield template[position : match.start()]
        position = match.end()
        name = match["bare"] or match["braced"]
        if match["escaped"]:
            yield "$"
        elif name not in values:
            yield match[0]
        elif values[name] == ("",) and template[: match.start()].endswith("\n\n"):
            # An empty paragraph goes with the blank line after it.
            end = _PARAGRAPH_END.match(template, position)
            position = end.end() if end else position
        else:
            yield from values[name]
    yield template[position:]


def _merged(content: Iterator[UserContent]) -> Iterator[UserContent]:
    texts: list[str] = []
    for item in content:
        if isinstance(item, str):
            texts.append(item)
            continue
        if any(texts):
            yield "".join(texts)
        texts.clear()
        yield item
    if any(texts):
        yield "".join(texts)
