"""Filling prompt templates (specification 8.2.1).

Each known placeholder is replaced in one pass; inserted text is never scanned again.

The LOCALS and GLOBALS sections keep within their budgets (specification 8.2.2 and 8.2.3).
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from ..configuration import PLACEHOLDER, JsonRendererStyle, StepContextLimits
from ..types.messages import UserContent
from .entries import EntryRenderer, classify_entry, note_met_types
from .room import SectionRoom
from .tokens import TokenCounter
from .type_names import TypeNames


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
