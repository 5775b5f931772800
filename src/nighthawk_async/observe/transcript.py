"""What was said in a node: its beginning and its end within a number of characters. Floor 4."""

from collections import deque

from ..observation import TranscriptKind
from .views import TranscriptPart

__all__ = ["LEAST_CHARACTERS", "PART_CHARACTERS", "Transcript"]

PART_CHARACTERS = 64
"""What a part counts besides its text, so that many short parts are bounded too."""

LEAST_CHARACTERS = 4 * PART_CHARACTERS
"""The least that a transcript may be allowed to keep."""

_MOST_FRAGMENTS = 64
"""More of them are put together, which takes less room."""


class Transcript:
    """Takes texts as they come, and keeps so many characters of them.

    One half is for the beginning, the other for the end; what does not fit is left out between them.

    Args:
        max_characters: How many characters are kept at most.
    """

    __slots__ = ("_beginning", "_end", "_end_characters", "_half", "_is_cut", "_room")

    def __init__(self, max_characters: int) -> None:
        self._half = max_characters // 2
        self._room = self._half
        self._beginning: list[_Part] = []
        self._end: deque[_Part] = deque()
        self._end_characters = 0
        self._is_cut = False

    def write(self, kind: TranscriptKind, text: str, key: str | None) -> None:
        """Go on with the last part when it has this kind and key, else begin one."""
        rest = text if self._end else self._fill_beginning(kind, text, key)
        if rest is None:
            return
        if not self._end or not self._end[-1].goes_on_with(kind, key):
            self._end.append(_Part(kind, key))
            self._end_characters += PART_CHARACTERS
        self._end[-1].add(rest)
        self._end_characters += len(rest)
        self._shorten_end()

    def view(self) -> tuple[TranscriptPart, ...]:
        """The parts that are kept, in order."""
        before = tuple(part.view() for part in self._beginning)
        if not self._end:
            return before
        after = tuple(part.view() for part in self._end)
        last, first = before[-1], after[0]
        is_one = not self._is_cut and (last.kind, last.key) == (first.kind, first.key)
        seam = TranscriptPart(
            kind=first.kind,
            text=last.text + first.text if is_one else first.text,
            key=first.key,
            is_cut=self._is_cut,
        )
        return (*(before[:-1] if is_one else before), seam, *after[1:])

    def _fill_beginning(self, kind: TranscriptKind, text: str, key: str | None) -> str | None:
        """Add as much as there is room for; gives what is left for the end, None for nothing."""
        if not self._beginning or not self._beginning[-1].goes_on_with(kind, key):
            if self._room <= PART_CHARACTERS:
                return text
            self._beginning.append(_Part(kind, key))
            self._room -= PART_CHARACTERS
        taken = text[: self._room]
        self._beginning[-1].add(taken)
        self._room -= len(taken)
        return text[len(taken) :] or None

    def _shorten_end(self) -> None:
        while (excess := self._end_characters - self._half) > 0:
            first = self._end[0]
            if first.characters > excess:
                first.cut(excess)
                self._end_characters -= excess
            else:
                self._end.popleft()
                self._end_characters -= first.characters + PART_CHARACTERS
            self._is_cut = True


class _Part:
    """Some text of one kind, as it comes."""

    __slots__ = ("_fragments", "_key", "_kind", "_view", "characters")

    def __init__(self, kind: TranscriptKind, key: str | None) -> None:
        self._kind: TranscriptKind = kind
        self._key = key
        self._fragments: list[str] = []
        self._view: TranscriptPart | None = None
        self.characters = 0

    def goes_on_with(self, kind: TranscriptKind, key: str | None) -> bool:
        return kind == self._kind and key == self._key

    def add(self, text: str) -> None:
        if not text:
            return
        self._fragments.append(text)
        self.characters += len(text)
        self._view = None
        if len(self._fragments) > _MOST_FRAGMENTS:
            self._put_together()

    def cut(self, characters: int) -> None:
        """Leave out so many characters where it begins."""
        self._fragments = [self._put_together()[characters:]]
        self.characters -= characters
        self._view = None

    def view(self) -> TranscriptPart:
        if self._view is None:
            self._view = TranscriptPart(kind=self._kind, text=self._put_together(), key=self._key)
        return self._view

    def _put_together(self) -> str:
        text = "".join(self._fragments)
        self._fragments = [text]
        return text
