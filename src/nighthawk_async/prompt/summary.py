"""The LOCALS and GLOBALS sections of a prompt, within their budgets. Floor 1.

Specification 8.2.2 and 8.2.3.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from ..configuration import JsonRendererStyle, StepContextLimits
from ..types.content import UserContent
from .entries import EntryRenderer, classify_entry
from .plain_text import break_delimiters, clean_text
from .selection import select_locals
from .tokens import TokenCounter
from .type_names import TypeNames

__all__ = ["MULTIMODAL_ITEM_TOKENS", "SNIPPED", "RenderedSection", "Section", "render_section"]

Section: TypeAlias = Literal["locals", "globals"]

SNIPPED = "<snipped>"
"""The last line of a section that does not show all its entries."""

MULTIMODAL_ITEM_TOKENS = 512
"""What a multimodal item is charged against the section's budget; not an estimate of any provider's count."""

_MOST_BYTES_PER_CHARACTER = 4

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
    references: Collection[str],
    style: JsonRendererStyle,
    counter: TokenCounter,
    show_secrets: bool = False,
    names: TypeNames | None = None,
) -> RenderedSection:
    """Render the names of a section and what they hold.

    No code of the values runs. A section that does not fit ends with `<snipped>`, which itself is always
    shown, and the logger `nighthawk` gets a record that begins with
    `prompt_context_truncated` and says which section, why, and at what limit.

    Args:
        entries: The names and their values; dunder names are left out.
        section: Which section this is; chooses the limits.
        limits: The limits, in tokens and in numbers of items.
        references: Names and dotted paths that the program mentions; paths to multimodal values get a line of
            their own.
        style: How previews show what they leave out.
        counter: Counts tokens.
        show_secrets: Whether to show what stands under names of secrets that the program does not mention.
        names: How types are written in the block; None for their own names.

    Source: specification 8.2.2 and 8.2.3.
    """
    max_tokens, max_items = _section_limits(section, limits)
    selected = select_locals(entries)
    shown = [
        classify_entry(name, selected[name], limits=limits, names=names)
        for name in list(selected)[:max_items]
    ]
    renderer = EntryRenderer(
        entries=shown,
        references=references,
        limits=limits,
        style=style,
        counter=counter,
        show_secrets=show_secrets,
    )
    content = _BudgetedContent(max_tokens, counter)
    reason: Literal["tokens", "items"] | None = None
    if not all(content.add(piece) for entry in shown for piece in renderer.render(entry)):
        reason = "tokens"
    elif len(selected) > max_items:
        reason = "items"
    if reason is not None:
        content.snip()
        _log_truncation(section, reason, max_tokens=max_tokens, max_items=max_items)
    return RenderedSection(parts=content.parts(), truncation_reason=reason)


class _BudgetedContent:
    """Lines and media up to a number of tokens.

    Each line is charged together with the line break after it. Charges are bytes, which are never fewer than
    tokens, until these no longer fit; only then is anything tokenized.
    """

    def __init__(self, max_tokens: int, counter: TokenCounter) -> None:
        self._max_tokens = max_tokens
        self._counter = counter
        self._pieces: list[UserContent] = []
        self._charges: list[int] = []
        self._total = 0
        self._is_exact = False

    def add(self, piece: UserContent) -> bool:
        """Add a line or a media item if it fits; tell whether it did."""
        if isinstance(piece, str):
            if self._counter.exceeds(piece, self._max_tokens):
                return False
            piece = break_delimiters(clean_text(piece))
        charge = self._charge(piece)
        if self._total + charge > self._max_tokens and not self._is_exact:
            self._count_exactly()
            charge = self._charge(piece)
        if self._total + charge > self._max_tokens:
            return False
        self._append(piece, charge)
        return True

    def snip(self) -> None:
        """Put the marker of an incomplete section at the end, in the place of as many pieces as it needs."""
        if self._total + self._charge(SNIPPED) > self._max_tokens and not self._is_exact:
            self._count_exactly()
        charge = self._charge(SNIPPED)
        while self._pieces and self._total + charge > self._max_tokens:
            self._pieces.pop()
            self._total -= self._charges.pop()
        self._append(SNIPPED, charge)

    def parts(self) -> tuple[UserContent, ...]:
        """Return the content with line breaks between pieces, adjacent texts merged."""
        parts: list[UserContent] = []
        text = ""
        for index, piece in enumerate(self._pieces):
            text += "\n" if index else ""
            if isinstance(piece, str):
                text += piece
                continue
            # There is always some: media stand below the line that names them.
            parts.extend((text, piece))
            text = ""
        return (*parts, text) if text else tuple(parts)

    def _append(self, piece: UserContent, charge: int) -> None:
        self._pieces.append(piece)
        self._charges.append(charge)
        self._total += charge

    def _count_exactly(self) -> None:
        self._is_exact = True
        self._charges = [self._charge(piece) for piece in self._pieces]
        self._total = sum(self._charges)

    def _charge(self, piece: UserContent) -> int:
        if not isinstance(piece, str):
            return MULTIMODAL_ITEM_TOKENS
        if self._is_exact:
            return self._counter.count(piece + "\n")
        return (len(piece) if piece.isascii() else _MOST_BYTES_PER_CHARACTER * len(piece)) + 1


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
