"""Sections of prompts filled with values, and templates filled with sections (specification 8.2.1 to 8.2.3).

A section has its entries, as complete as its budget of tokens allows; the classes of the values that it shows
are noted, for the section of types. In a template each known placeholder is replaced in one pass; inserted
text is never scanned again.
"""

import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..configuration import PLACEHOLDER, JsonRendererStyle, StepContextLimits
from ..secret_names import HIDDEN, hides_value
from ..types.messages import UserContent
from .callables import CallableDescription, callable_line, describe_callable, is_callable_object
from .containers import is_container_type
from .identities import named
from .multimodal import as_user_content, hoisted_leaves, inline_content
from .objects import ObjectMembers, find_functions, find_members, method_lines, object_lines
from .plain_text import (
    VALUE_SHARE,
    ValueLine,
    find_class_attribute,
    is_class,
    is_module,
    type_module,
    type_name,
)
from .scalars import (
    PLAIN_TYPES,
    EnumerationDescription,
    describe_enumeration,
    find_scalar_text,
    is_abridged,
    module_name,
)
from .section_room import SNIPPED as SNIPPED, SectionRoom
from .tokens import TokenCounter
from .types import (
    TypeNames,
    is_type_alias,
    is_type_expression,
    note_class,
    note_contents,
    underlying_type,
    written_type,
)

_logger = logging.getLogger("nighthawk")

Section: TypeAlias = Literal["locals", "globals"]


class RenderedSection(Struct, frozen=True, kw_only=True):
    """A section as prompt content.

    Args:
        parts: The content in order; adjacent lines are one text. Empty when there are no entries.
        truncation_reason: The limit that kept entries out: `tokens`, `items`, or None when all are shown.
        shows_callables: Whether it shows functions or methods.
        is_incomplete: Whether an entry is left out or cut.
        hides_values: Whether a value is hidden.
    """

    parts: tuple[UserContent, ...]
    truncation_reason: Literal["tokens", "items"] | None = None
    shows_callables: bool = False
    is_incomplete: bool = False
    hides_values: bool = False


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
    as_specified: bool = False,
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
        as_specified: Whether callables have the notes of the specification: on equal signatures, and where
            there is none.

    Source: specification 8.2.2 and 8.2.3.
    """
    is_local = section == "locals"
    max_tokens = limits.locals_max_tokens if is_local else limits.globals_max_tokens
    max_items = limits.locals_max_items if is_local else limits.globals_max_items
    selected = select_locals(entries)
    if not selected:
        return RenderedSection(parts=())
    shown = [
        classify_entry(name, selected[name], limits=limits, names=names)
        for name in list(selected)[:max_items]
    ]
    if names is not None:
        note_met_types(shown, names)
    renderer = EntryRenderer(
        entries=shown,
        references=references,
        limits=limits,
        show_secrets=show_secrets,
        as_specified=as_specified,
    )
    room = SectionRoom(max_tokens, style=style, counter=counter, show_secrets=show_secrets)
    for entry in shown:
        if isinstance(entry.kind, ObjectMembers):
            room.objects.add_variable(entry.name, entry.value)
    reason: Literal["tokens", "items"] | None = None
    if not all(room.add(piece) for entry in shown for piece in renderer.render(entry)):
        reason = "tokens"
    elif len(selected) > max_items:
        reason = "items"
    if reason is not None:
        room.snip()
        _log_truncation(section, reason, max_tokens=max_tokens, max_items=max_items)
    room.give_away(references)
    parts = room.parts()
    return RenderedSection(
        parts=parts,
        truncation_reason=reason,
        shows_callables=any(map(_shows_callables, shown)),
        is_incomplete=reason is not None or room.is_cut or any(map(_is_abridged, shown)),
        hides_values=any(HIDDEN in part for part in parts if isinstance(part, str)),
    )


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


_HEADED = re.compile(r"(?:(?<=\n\n)|\A)[^\n$]+\n(?=\$\{?(?P<name>[A-Za-z_]\w*)\}?(?:\n\n|\n?\Z))")
"""A heading on one line above a placeholder, which are a paragraph together."""


def _filled(template: str, values: Mapping[str, tuple[UserContent, ...]]) -> Iterator[UserContent]:
    def heading(match: re.Match[str]) -> str:
        return "" if values.get(match["name"]) in (("",), ()) else match[0]

    template = _HEADED.sub(heading, template)
    position = 0
    for match in PLACEHOLDER.finditer(template):
        yield template[position : match.start()]
        position = match.end()
        name = match["bare"] or match["braced"]
        if match["escaped"]:
            yield "$"
        elif name not in values:
            yield match[0]
        elif values[name] in (("",), ()) and (empty := _empty_paragraph(template, match)) is not None:
            position = empty
        else:
            yield from values[name]
    yield template[position:]


def _empty_paragraph(template: str, match: re.Match[str]) -> int | None:
    """The end of a paragraph, with the blank line after it, that only has this empty placeholder."""
    if not template[: match.start()].endswith("\n\n"):
        return None
    end = _PARAGRAPH_END.match(template, match.end())
    return end.end() if end else match.end()


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


def _shows_callables(entry: Entry) -> bool:
    """Whether an entry shows functions or methods: a class that only holds data shows none."""
    match entry.kind:
        case CallableDescription():
            return not (is_class(entry.value) and _holds_data(entry.value))
        case _Module(members=members) | (ObjectMembers() as members):
            return bool(members.methods)
        case _:
            return False


_FIELDS = (
    *("__pydantic_fields__", "__dataclass_fields__", "__struct_fields__", "__attrs_attrs__"),
    *("__required_keys__", "_fields"),
)
"""Attributes of classes that declare data: of pydantic, dataclasses, msgspec, attrs, typed dicts, tuples."""


def _holds_data(cls: Any) -> bool:
    """Whether values of a class can be given as data, or are exceptions: its name is there to be read."""
    return issubclass(cls, BaseException) or any(find_class_attribute(cls, each)[0] for each in _FIELDS)


def _is_abridged(entry: Entry) -> bool:
    if isinstance(entry.kind, ObjectMembers):
        return entry.kind.omitted_fields > 0 or any(is_abridged(each) for _, each in entry.kind.fields)
    return is_abridged(entry.value)


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
        as_specified: Whether callables have the notes of the specification.
    """

    __slots__ = (
        *("_ambiguous", "_as_specified", "_first_names", "_limits", "_named", "_references"),
        "_show_secrets",
    )

    def __init__(
        self,
        *,
        entries: Iterable[Entry],
        references: Collection[str],
        limits: StepContextLimits,
        show_secrets: bool = False,
        as_specified: bool = False,
    ) -> None:
        self._as_specified = as_specified
        self._limits = limits
        self._show_secrets = show_secrets
        self._references = _by_root(tuple(references))
        described = [entry for entry in entries if entry.kind is not _PREVIEW]
        self._first_names: dict[int, str] = {}
        for entry in described:
            if isinstance(entry.kind, ObjectMembers):
                self._first_names.setdefault(id(entry.value), entry.name)
        counts = Counter(signature for entry in described for signature in _signatures(entry))
        self._named = frozenset(references)
        self._ambiguous = frozenset(
            signature for signature, count in counts.items() if count > 1 and as_specified
        )

    def render(self, entry: Entry) -> Iterator[UserContent | ValueLine]:
        """Render an entry as lines and inline content, in order; lines have no line break at their end.

        Args:
            entry: The entry.
        """
        kind = entry.kind
        leads_below = entry.name in self._references
        hoisted = hoisted_leaves(entry.value, self._references[entry.name]) if leads_below else _NO_LEAVES
        if isinstance(kind, _Text):
            yield kind.line
        elif isinstance(kind, _Module):
            yield kind.line
            yield from method_lines(
                entry.name, kind.members, self._ambiguous, as_specified=self._as_specified
            )
        elif isinstance(kind, _Inline):
            yield from inline_content(entry.name, entry.value, kind.content)
        elif isinstance(kind, CallableDescription):
            yield callable_line(
                entry.name,
                kind,
                is_ambiguous=kind.signature in self._ambiguous,
                as_specified=self._as_specified,
            )
        elif isinstance(kind, ObjectMembers) and not leads_below and self._is_shown_before(entry):
            yield f"{entry.name}: object = {named(type(entry.value), self._first_names[id(entry.value)])}"
        elif isinstance(kind, ObjectMembers):
            yield from object_lines(
                entry.name,
                entry.value,
                kind,
                ambiguous_signatures=self._ambiguous,
                hoisted_fields={path[0] for path in hoisted if len(path) == 1},
                limits=self._limits,
                show_secrets=self._show_secrets,
                as_specified=self._as_specified,
            )
        elif isinstance(kind, EnumerationDescription):
            yield self._value_line(entry.name, kind.kind, kind.member_names)
        else:
            cls = type(entry.value)
            yield self._value_line(entry.name, PLAIN_TYPES.get(id(cls)) or type_name(cls), entry.value)
        for path, leaf in hoisted.items():
            yield from inline_content(".".join((entry.name, *path)), leaf, as_user_content(leaf) or ())

    def _is_shown_before(self, entry: Entry) -> bool:
        return self._first_names[id(entry.value)] != entry.name

    def _value_line(self, name: str, kind: str, value: object) -> ValueLine:
        is_named = name in self._named
        is_hidden = not self._show_secrets and not is_named and hides_value(name, value)
        return ValueLine(
            name=name,
            start=f"{name}: {kind} = ",
            value=HIDDEN if is_hidden else value,
            share=VALUE_SHARE,
            max_tokens=self._limits.value_max_tokens,
        )


def _kind_of(name: str, value: object, limits: StepContextLimits, names: TypeNames | None) -> _Kind:
    cls = type(value)
    if id(cls) in PLAIN_TYPES:
        return _PREVIEW
    if is_type_alias(value):
        return _Text(f"{name}: type = {underlying_type(value, names)}")
    if is_type_expression(value):
        return _Text(f"{name}: type = {written_type(value, names)}")
    if is_module(value):
        members = find_functions(value, limits=limits, names=names)
        return _Module(f'{name}: module = "{module_name(value)}"', members)
    enumeration = describe_enumeration(value)
    if enumeration is not None:
        return enumeration
    if callable(value):
        members = find_members(value, limits=limits, names=names) if is_callable_object(value) else None
        return members if members and not members.is_empty else describe_callable(value, names=names)
    if find_scalar_text(cls) is not None:
        return _PREVIEW
    content = as_user_content(value)
    if content is not None:
        return _Inline(content)
    if is_container_type(cls):
        return _PREVIEW
    members = find_members(value, limits=limits, names=names)
    if type_module(cls) != "builtins" or not _is_iterator(cls):
        return members
    # Of a generator the type of the items matters, as far as it is known; its methods are no news.
    text = members.type_text
    if names is not None and text == type_name(cls):
        declared = names.declared.get(name, text)
        text = text if declared in ("Any", "object") else declared
    return replace(members, methods=(), omitted_methods=0, type_text=text)


def _is_iterator(cls: type) -> bool:
    return any(find_class_attribute(cls, name)[0] for name in ("__next__", "__anext__"))


def _signatures(entry: Entry) -> Iterator[str]:
    kind = entry.kind.members if isinstance(entry.kind, _Module) else entry.kind
    if isinstance(kind, CallableDescription):
        descriptions = [kind]
    elif isinstance(kind, ObjectMembers):
        called = () if kind.call is None else (kind.call,)
        descriptions = [*called, *(description for _, description in kind.methods)]
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
                note_contents(value, names)
        if is_class(entry.value):
            note_class(entry.value, names)
        else:
            note_contents(entry.value, names)
