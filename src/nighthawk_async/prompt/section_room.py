"""The budget of a section: which lines it holds, and how much of each value.

First every value gets its small share, so that as many names as possible stay visible; the rest then goes to
the values that did not fit into theirs: all of a value where there is room, otherwise its beginning, its end
and the count. Charges are bytes, which are never fewer than tokens, until these no longer fit; only then is
anything tokenized.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from ..configuration import JsonRendererStyle
from ..types.messages import UserContent
from .identities import LineObjects, ShownObjects
from .plain_text import MULTIMODAL_ITEM_TOKENS, ValueLine, is_string, safe_text
from .previews import cut_preview, render_preview, whole_preview
from .tokens import TokenCounter

SNIPPED = "<snipped>"
"""The last line of a section that does not show all its entries."""


_CUT_VALUE_TOKENS = 400
_CUT_TEXT_TOKENS = 2_000
"""Tokens of what is shown of a value, and of a text, that does not fit whole: more says little more."""

_MOST_BYTES_PER_CHARACTER = 4
_ROUNDS = 4


class _OpenLine(Struct, frozen=True, kw_only=True, eq=False):
    """A line whose value did not surely fit into its share.

    Args:
        line: The line.
        whole: All of it, when that was small enough to be written.
    """

    line: ValueLine
    whole: str | None


_Piece: TypeAlias = UserContent | _OpenLine


class SectionRoom:
    """Lines and media up to a number of tokens. Each line is charged together with the line break after it.

    Args:
        max_tokens: The number of tokens.
        style: The style of previews.
        counter: Counts tokens.
        show_secrets: Whether to show values with secret names.
    """

    def __init__(
        self, max_tokens: int, *, style: JsonRendererStyle, counter: TokenCounter, show_secrets: bool
    ) -> None:
        self._max_tokens = max_tokens
        self._style: JsonRendererStyle = style
        self._counter = counter
        self._show_secrets = show_secrets
        self.objects = ShownObjects(show_secrets=show_secrets)
        self._pieces: list[_Piece] = []
        self._charges: list[int] = []
        self._total = 0
        self._is_exact = False
        self._counted = ("", 0)
        self.is_cut = False
        """Whether a value is not shown whole."""

    def add(self, piece: UserContent | ValueLine) -> bool:
        """Add a line or a media item if it fits, a value with its share; return whether it did."""
        if isinstance(piece, ValueLine):
            return self._append_if_room(self._opened(piece))
        if isinstance(piece, str):
            if self._counter.exceeds(piece, self._max_tokens):
                return False
            piece = safe_text(piece)
        return self._append_if_room(piece)

    def snip(self) -> None:
        """Put the marker of an incomplete section at the end, replacing as many pieces as it needs."""
        if self._total + self._charge(SNIPPED) > self._max_tokens:
            self._count_exactly()
        charge = self._charge(SNIPPED)
        while self._pieces and self._total + charge > self._max_tokens:
            self._pieces.pop()
            self._total -= self._charges.pop()
        self._append(SNIPPED, charge)

    def give_away(self, mentions: Sequence[str]) -> None:
        """Give the remaining room to the values that were cut, until all are whole or none is left.

        Args:
            mentions: The names and dotted paths that the program mentions, in order. Values that are
                mentioned most come first, then those mentioned first, then the others in their order.
        """
        opened = [
            (piece.line.name, index)
            for index, piece in enumerate(self._pieces)
            if isinstance(piece, _OpenLine)
        ]
        if opened:
            ranks = _Ranks(mentions)
            for _, index in sorted((ranks.of(name), index) for name, index in opened):
                self._close(index)

    def parts(self) -> tuple[UserContent, ...]:
        """Return the content with line breaks between pieces, adjacent texts merged."""
        parts: list[UserContent] = []
        text = ""
        for index, piece in enumerate(self._pieces):
            assert not isinstance(piece, _OpenLine)
            text += "\n" if index else ""
            if isinstance(piece, str):
                text += piece
                continue
            # There is always some: media come below the line that names them.
            parts.extend((text, piece))
            text = ""
        return (*parts, text) if text else tuple(parts)

    def _opened(self, line: ValueLine) -> str | _OpenLine:
        """The line with its value, if that surely fits or has a limit of its own; otherwise an open line."""
        if line.max_tokens is not None and line.max_tokens <= line.share:
            return _line(line, self._preview(line, line.max_tokens))
        whole = self._whole(line, line.share)
        if whole is not None and _most_tokens(whole) <= line.share:
            return _line(line, whole)
        return _OpenLine(line=line, whole=whole)

    def _append_if_room(self, piece: _Piece) -> bool:
        charge = self._charge(piece)
        if self._total + charge > self._max_tokens:
            self._count_exactly()
            charge = self._charge(piece)
        if self._total + charge > self._max_tokens:
            self._settle_for_shares()
            if isinstance(piece, _OpenLine):
                piece = _line(piece.line, self._preview(piece.line, piece.line.share))
                charge = self._charge(piece)
        if self._total + charge > self._max_tokens:
            return False
        self._append(piece, charge)
        return True

    def _append(self, piece: _Piece, charge: int) -> None:
        self._pieces.append(piece)
        self._charges.append(charge)
        self._total += charge

    def _replace(self, index: int, piece: str) -> None:
        charge = self._charge(piece)
        self._total += charge - self._charges[index]
        self._pieces[index], self._charges[index] = piece, charge

    def _count_exactly(self) -> None:
        if not self._is_exact:
            self._is_exact = True
            self._charges = [self._charge(piece) for piece in self._pieces]
            self._total = sum(self._charges)

    def _settle_for_shares(self) -> None:
        """Write open lines within their shares, which may be more than they need."""
        for index, piece in enumerate(self._pieces):
            if isinstance(piece, _OpenLine):
                self._replace(index, _line(piece.line, self._preview(piece.line, piece.line.share)))

    def _close(self, index: int) -> None:
        """Write an open line with all the room available to it."""
        piece = self._pieces[index]
        assert isinstance(piece, _OpenLine)
        room, limit = self._room_of(index), piece.line.max_tokens
        whole = piece.whole or self._whole(piece.line, room if limit is None else min(room, limit))
        if whole is not None and (limit is None or not self._counter.exceeds(whole, limit)):
            text = _line(piece.line, whole)
            if not self._is_exact and _most_tokens(text) + 1 > room:
                self._count_exactly()
                room = self._room_of(index)
            if self._fits(text, room):
                self._replace(index, text)
                return
        self._count_exactly()
        self._replace(index, self._cut_line(piece.line, self._room_of(index)))

    def _room_of(self, index: int) -> int:
        return self._max_tokens - self._total + self._charges[index]

    def _fits(self, text: str, room: int) -> bool:
        """Whether a line fits. Where tokens are counted, they are kept for its charge."""
        if not self._is_exact:
            return not self._counter.exceeds(text + "\n", room)
        tokens = self._counter.count_up_to(text + "\n", room)
        if tokens is not None:
            self._counted = text, tokens
        return tokens is not None

    def _cut_line(self, line: ValueLine, room: int) -> str:
        """Write as much of a value as fits on its line."""
        self.is_cut = True
        limit = line.max_tokens or (_CUT_TEXT_TOKENS if is_string(line.value) else _CUT_VALUE_TOKENS)
        max_tokens = min(room - self._charge(line.start), limit)
        for _ in range(_ROUNDS):
            preview = cut_preview(
                line.value,
                max_tokens=max(1, max_tokens),
                style=self._style,
                counter=self._counter,
                show_secrets=self._show_secrets,
                shows_ending=True,
                objects=self.objects.of_line(line.name),
            )
            text = _line(line, preview)
            excess = self._charge(text) - room
            if excess <= 0:
                return text
            # The tokens of a line are, now and then, a few more than those of its halves.
            max_tokens -= excess
        return safe_text(line.start)

    def _whole(self, line: ValueLine, max_tokens: int) -> str | None:
        objects = self.objects.of_line(line.name)
        whole = self._whole_of(line, max_tokens, objects)
        if whole is not None:
            objects.keep()
        return whole

    def _whole_of(self, line: ValueLine, max_tokens: int, objects: LineObjects) -> str | None:
        return whole_preview(
            line.value,
            max_tokens=max_tokens,
            style=self._style,
            show_secrets=self._show_secrets,
            objects=objects,
        )

    def _preview(self, line: ValueLine, max_tokens: int) -> str:
        if not self.is_cut:
            self.is_cut = self._whole_of(line, max_tokens, self.objects.of_line(line.name)) is None
        return render_preview(
            line.value,
            max_tokens=max_tokens,
            style=self._style,
            counter=self._counter,
            show_secrets=self._show_secrets,
            shows_ending=True,
            objects=self.objects.of_line(line.name),
        )

    def _charge(self, piece: _Piece) -> int:
        if isinstance(piece, _OpenLine):
            share = self._charge(piece.line.start) + piece.line.share
            return share if piece.whole is None else min(share, self._charge(piece.line.start + piece.whole))
        if not isinstance(piece, str):
            return MULTIMODAL_ITEM_TOKENS
        if not self._is_exact:
            return _most_tokens(piece) + 1
        if self._counted[0] is not piece:
            self._counted = piece, self._counter.count(piece + "\n")
        return self._counted[1]


class _Ranks:
    """Order of the entries among which the rest of a section is shared.

    Args:
        mentions: The names and dotted paths that the program mentions, in order.
    """

    def __init__(self, mentions: Sequence[str]) -> None:
        roots = [mention.partition(".")[0] for mention in mentions]
        self._roots, self._paths = Counter(roots), Counter(mentions)
        self._places = {root: place for place, root in reversed(list(enumerate(roots)))}

    def of(self, name: str) -> tuple[int, int, int]:
        """The rank of a name or of a field's path; smaller is earlier."""
        root = name.partition(".")[0]
        return -self._roots[root], self._places.get(root, len(self._places)), -self._paths[name]


_LINE_BREAKS = {ord(each): f"\\u{ord(each):04x}" for each in "\x0b\x0c\x85\u2028\u2029"}
"""Characters at which some readers break lines, as JSON escapes: a value stays on its line."""


def _line(line: ValueLine, preview: str) -> str:
    text = safe_text(line.start + preview)
    return text if text.isascii() else text.translate(_LINE_BREAKS)


def _most_tokens(text: str) -> int:
    """The number of tokens that a text surely does not exceed."""
    return len(text) if text.isascii() else _MOST_BYTES_PER_CHARACTER * len(text)
