"""The LOCALS and GLOBALS sections of a prompt, within their budgets.

Specification 8.2.2 and 8.2.3.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from ..configuration import JsonRendererStyle, StepContextLimits
from ..types.content import UserContent
from .entries import EntryRenderer, classify_entry
from .met_types import note_met_types
from .room import MULTIMODAL_ITEM_TOKENS, SNIPPED, SectionRoom
from .selection import select_locals
from .tokens import TokenCounter
from .type_names import TypeNames

__all__ = ["MULTIMODAL_ITEM_TOKENS", "SNIPPED", "RenderedSection", "Section", "render_section"]

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
    """Render the names of a section and what they hold, values as whole as there is room.

    No code of the values runs. A section that does not fit ends with `<snipped>`, which itself is always
    shown, and the logger `nighthawk` gets a record that begins with
    `prompt_context_truncated` and says which section, why, and at what limit.

    Args:
        entries: The names and their values; dunder names are left out.
        section: Which section this is; chooses the limits.
        limits: The limits, in tokens and in numbers of items.
        references: Names and dotted paths that the program mentions, in order, each as often as it is
            mentioned. What is mentioned most, and then first, gets room first; paths to multimodal values get
            a line of their own.
        style: How previews show what they leave out.
        counter: Counts tokens.
        show_secrets: Whether to show what stands under names of secrets that the program does not mention.
        names: The names by which the block writes types; None for their own names.

    Source: specification 8.2.2 and 8.2.3.
    """
    max_tokens, max_items = _section_limits(section, limits)
    selected = select_locals(entries)
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
