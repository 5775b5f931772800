"""Some text of one kind in a transcript, while more of it comes."""

from collections import deque

from ..observation import TranscriptKind
from .views import TranscriptPart

__all__ = ["Part"]

_LOOSE_FRAGMENTS = 64
"""As many short texts are put together, which takes less room."""

_CUT_SHARE = 8
"""What is left out at the beginning of a text is freed when it is this part of the text."""


class Part:
    """A part that grows at its end, and may lose something at its beginning.

    Args:
        kind: What it is.
        key: The name and id of a tool call, for its parts.
        speaker: The id of the node that said it, in the transcript of another one; None for its own.

    Attributes:
        kind: What it is.
        key: The name and id of a tool call.
        speaker: Who said it.
        characters: How long its text is.
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
