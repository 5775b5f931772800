"""Transcript of a node: its beginning and its end within a number of characters.

Nodes below may write to it too: the text of a step's requests is in the transcript of the step, and the
requests show their parts of it.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..observation import TranscriptKind
from .views import TranscriptPart

_LOOSE_FRAGMENTS = 64
"""The number of short texts that are joined into one, to save memory."""

_CUT_SHARE = 8
"""Removed text is freed when it is more than one in so many characters of its fragment."""


class Part:
    """A part that grows at its end, and may lose text at its beginning.

    Args:
        kind: The kind of the part.
        key: The name and id of a tool call, for its parts.
        speaker: The id of the node that wrote it to the transcript of another node; None for the transcript's
            own node.

    Attributes:
        kind: The kind of the part.
        key: The name and id of a tool call.
        speaker: The speaker.
        characters: The length of its text.
        is_cut: Whether some of its text was removed.
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
        """Whether more text of this kind, key and speaker belongs to this part."""
        return kind == self.kind and key == self.key and speaker == self.speaker

    def add(self, text: str) -> None:
        """Append a text."""
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
        """Remove so many characters at the beginning; fewer than the part has."""
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
        """Return the part as it is now."""
        if self._view is None:
            text = "".join(self._fragments)[self._skipped :]
            self._fragments, self._loose, self._skipped = deque((text,)), 0, 0
            self._view = TranscriptPart(kind=self.kind, text=text, key=self.key)
        return self._view


PART_CHARACTERS = 64
"""The number of characters that a part counts besides its text, so that many short parts are bounded too."""

LEAST_CHARACTERS = 4 * PART_CHARACTERS
"""The lowest limit that a transcript may have."""

_NOTHING_KEPT = (TranscriptPart(kind="note", text="", is_cut=True),)


class Transcript:
    """Collects texts as they come, up to a number of characters.

    One half is for the beginning, the other for the end; the middle is removed when both are full.

    Args:
        max_characters: The maximum number of characters that are kept.

    Attributes:
        cut_speakers: The ids of the nodes below whose text was cut; the caller takes them out.
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
        self._lost_speakers: set[str | None] = set()  # of parts that were removed completely
        self.cut_speakers: set[str] = set()

    @property
    def characters(self) -> int:
        """The current number of characters."""
        return self._beginning_characters + self._end_characters

    def write(self, kind: TranscriptKind, text: str, key: str | None, speaker: str | None = None) -> None:
        """Append to the last part when it has this kind, key and speaker; otherwise begin a new part.

        Args:
            kind: The kind of the part.
            text: The text to append.
            key: The name and id of a tool call, for its parts.
            speaker: The id of the node below that writes it; None for the node itself.
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
        """Remove text until at most so many characters are kept. The transcript may grow again."""
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
        """Return the kept parts, in order; an empty note marked as cut when none is left."""
        return tuple(shown for _, shown in self._shown()) or (_NOTHING_KEPT if self._is_cut else ())

    def view_of(self, speaker: str) -> tuple[TranscriptPart, ...]:
        """Return the kept parts of one speaker, in order."""
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
        """Append as much as fits; return the rest for the end, None for no rest."""
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
