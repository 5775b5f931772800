"""Transcript of a node: its beginning and its end within a number of characters.

Nodes below may speak in it too: what the requests of a step say is in the transcript of the step, and they
show their parts of it.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..observation import TranscriptKind
from .views import TranscriptPart

_LOOSE_FRAGMENTS = 64
"""As many short texts are put together, which takes less room."""

_CUT_SHARE = 8
"""What is left out at the beginning of a text is freed when it is this part of the text."""


class Part:
    """A part that grows at its end, and may lose something at its beginning.

    Args:
        kind: The kind of the part.
        key: The name and id of a tool call, for its parts.
        speaker: The id of the node that said it, in the transcript of another one; None for its own.

    Attributes:
        kind: The kind of the part.
        key: The name and id of a tool call.
        speaker: The speaker.
        characters: The length of its text.
        is_cut: Whether something of its text is left out.
    """

    __slots__ = (
        "_fragments",
        "_loose",
        "_skipped",
        "_view",
        "characters",
        "is_cut",
        "key",
        "kind",
        "speaker",
    )

    def __init__(self, kind: TranscriptKind, key: str | None, speaker: str | None) -> None:
        self.kind: TranscriptKind = kind
        self.key = key
        self.speaker = speaker
        self._fragments: deque[str] = deque()
        self._loose = 0
        self._skipped = 0
        self._view: TranscriptPart | None = None
        self.characters = 0
        self.is_cut = False

    def goes_on_with(self, kind: TranscriptKind, key: str | None, speaker: str | None) -> bool:
        """Whether more text of this kind, key and speaker belongs to it."""
        return kind == self.kind and key == self.key and speaker == self.speaker

    def add(self, text: str) -> None:
        """Go on with a text."""
        if not text:
            return
        self._fragments.append(text)
        self._loose += 1
        self.characters += len(text)
        self._view = None
        if self._loose >= _LOOSE_FRAGMENTS:
            loose = [self._fragments.pop() for _ in range(self._loose)]
            self._fragments.append("".join(reversed(loose)))
            self._loose = 0

    def cut(self, characters: int) -> None:
        """Leave out so many characters where it begins, fewer than there are."""
        self.characters -= characters
        self.is_cut = True
        self._view = None
        fragments, skipped = self._fragments, self._skipped + characters
        while skipped >= len(fragments[0]):
            skipped -= len(fragments.popleft())
            self._loose = min(self._loose, len(fragments))
        if skipped * _CUT_SHARE > len(fragments[0]):
            fragments[0] = fragments[0][skipped:]
            skipped = 0
        self._skipped = skipped

    def view(self) -> TranscriptPart:
        """The part as it is now."""
        if self._view is None:
            text = "".join(self._fragments)[self._skipped :]
            self._fragments, self._loose, self._skipped = deque((text,)), 0, 0
            self._view = TranscriptPart(kind=self.kind, text=text, key=self.key)
        return self._view


PART_CHARACTERS = 64
"""What a part counts besides its text, so that many short parts are bounded too."""

LEAST_CHARACTERS = 4 * PART_CHARACTERS
"""The least that a transcript may be allowed to keep."""

_NOTHING_KEPT = (TranscriptPart(kind="note", text="", is_cut=True),)


class Transcript:
    """Takes texts as they come, and keeps so many characters of them.

    One half is for the beginning, the other for the end; what does not fit is left out between them.

    Args:
        max_characters: The greatest number of characters that are kept.

    Attributes:
        cut_speakers: The ids of the nodes below of which something was left out, for the caller to take.
    """

    __slots__ = (
        "_beginning",
        "_beginning_characters",
        "_end",
        "_end_characters",
        "_half",
        "_is_cut",
        "_lost_speakers",
        "cut_speakers",
    )

    def __init__(self, max_characters: int) -> None:
        self._half = max_characters // 2
        self._beginning: list[Part] = []
        self._beginning_characters = 0
        self._end: deque[Part] = deque()
        self._end_characters = 0
        self._is_cut = False
        self._lost_speakers: set[str | None] = set()  # of parts that were left out whole
        self.cut_speakers: set[str] = set()

    @property
    def characters(self) -> int:
        """The present number of characters."""
        return self._beginning_characters + self._end_characters

    def write(self, kind: TranscriptKind, text: str, key: str | None, speaker: str | None = None) -> None:
        """Go on with the last part when it has this kind, key and speaker, else begin one.

        Args:
            kind: The kind of the part.
            text: More of it.
            key: The name and id of a tool call, for its parts.
            speaker: The id of the node below that says it; None for the node itself.
        """
        is_in_end = self._end or self._is_cut
        rest = text if is_in_end else self._fill_beginning(kind, text, key, speaker)
        if rest is None:
            return
        if not self._end or not self._end[-1].goes_on_with(kind, key, speaker):
            self._end.append(Part(kind, key, speaker))
            self._end_characters += PART_CHARACTERS
        self._end[-1].add(rest)
        self._end_characters += len(rest)
        self._shorten_end()

    def shorten(self, max_characters: int) -> None:
        """Leave out so much that at most so many characters are kept. It may grow again."""
        if self.characters <= max_characters:
            return
        kept = Transcript(max_characters)
        kept._lost_speakers = self._lost_speakers
        kept._rewrite(self._beginning)
        kept._is_cut |= self._is_cut
        kept._rewrite(self._end)
        speakers = {part.speaker for part in (*self._beginning, *self._end) if part.speaker is not None}
        self._beginning, self._beginning_characters = kept._beginning, kept._beginning_characters
        self._end, self._end_characters = kept._end, kept._end_characters
        self._is_cut = kept._is_cut
        self.cut_speakers |= speakers

    def view(self) -> tuple[TranscriptPart, ...]:
        """The parts that are kept, in order; an empty note that says so where none is."""
        return tuple(shown for _, shown in self._shown()) or (_NOTHING_KEPT if self._is_cut else ())

    def view_of(self, speaker: str) -> tuple[TranscriptPart, ...]:
        """The parts of one speaker that are kept, in order."""
        has_lost = speaker in self._lost_speakers
        shown: list[TranscriptPart] = []
        for part, view in self._shown():
            if part.speaker == speaker:
                is_others_cut = view.is_cut and not part.is_cut and not has_lost
                shown.append(replace(view, is_cut=False) if is_others_cut else view)
        if has_lost and not any(view.is_cut for view in shown):
            shown += _NOTHING_KEPT
        return tuple(shown)

    def _shown(self) -> Iterator[tuple[Part, TranscriptPart]]:
        shown = [(part, part.view()) for part in self._beginning]
        if self._end:
            first = self._end[0]
            seam = first.view()
            if self._is_cut:
                seam = replace(seam, is_cut=True)
            elif shown and shown[-1][0].goes_on_with(first.kind, first.key, first.speaker):
                seam = replace(seam, text=shown.pop()[1].text + seam.text)
            shown.append((first, seam))
        yield from shown
        for number, part in enumerate(self._end):
            if number:
                yield part, part.view()

    def _fill_beginning(
        self, kind: TranscriptKind, text: str, key: str | None, speaker: str | None
    ) -> str | None:
        """Add as much as there is room for; gives what is left for the end, None for nothing."""
        room = self._half - self._beginning_characters
        if not self._beginning or not self._beginning[-1].goes_on_with(kind, key, speaker):
            if room <= PART_CHARACTERS:
                return text
            self._beginning.append(Part(kind, key, speaker))
            self._beginning_characters += PART_CHARACTERS
            room -= PART_CHARACTERS
        taken = text[:room]
        self._beginning[-1].add(taken)
        self._beginning_characters += len(taken)
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
                self._lost_speakers.add(first.speaker)
            self._is_cut = True
            if first.speaker is not None:
                self.cut_speakers.add(first.speaker)

    def _rewrite(self, parts: Iterable[Part]) -> None:
        for part in parts:
            self.write(part.kind, part.view().text, part.key, part.speaker)
            if part.is_cut and self._end:
                self._end[-1].is_cut = True
