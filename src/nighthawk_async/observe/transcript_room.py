"""The transcripts of a tree, within a number of characters in all.

What has ended says least to those who look: the transcripts of nodes that have ended are left out first, in
the order of their ends; then others are shortened, those first to which nothing was added for longest.
"""

from collections import OrderedDict
from collections.abc import Iterator

from ..observation import TranscriptKind
from .node import Node
from .transcript import Transcript

__all__ = ["TranscriptRoom"]


class TranscriptRoom:
    """Writes transcripts, and keeps their sum within its limit.

    Args:
        max_characters: How many characters are kept of each.
        max_total_characters: How many are kept of all together.
    """

    __slots__ = ("_ended", "_max_characters", "_max_total_characters", "_open", "_total")

    def __init__(self, *, max_characters: int, max_total_characters: int) -> None:
        self._max_characters = max_characters
        self._max_total_characters = max_total_characters
        self._total = 0
        self._open: OrderedDict[Node, None] = OrderedDict()
        self._ended: OrderedDict[Node, None] = OrderedDict()

    def write(
        self, node: Node, kind: TranscriptKind, text: str, key: str | None, speaker: str | None
    ) -> list[Node]:
        """Go on with the transcript of a node; gives the nodes whose transcripts were shortened for it."""
        transcript = node.transcript
        if transcript is None:
            transcript = node.transcript = Transcript(self._max_characters)
        order = self._open if node.ended_at is None else self._ended
        order[node] = None
        order.move_to_end(node)
        before = transcript.characters
        transcript.write(kind, text, key, speaker)
        self._total += transcript.characters - before
        if self._total <= self._max_total_characters:
            return []
        return [*self._shorten_ended(), *self._shorten_open()]

    def end(self, node: Node) -> None:
        """A node has ended."""
        if node in self._open:
            del self._open[node]
            self._ended[node] = None

    def drop(self, node: Node) -> None:
        """A node is kept no longer."""
        if node.transcript is not None:
            self._total -= node.transcript.characters
        self._ended.pop(node, None)
        self._open.pop(node, None)

    def _shorten_ended(self) -> Iterator[Node]:
        while self._total > self._max_total_characters and self._ended:
            node, _ = self._ended.popitem(last=False)
            if self._shorten(node, 0):
                yield node

    def _shorten_open(self) -> Iterator[Node]:
        for _ in range(len(self._open)):
            if self._total <= self._max_total_characters:
                return
            node = next(iter(self._open))
            self._open.move_to_end(node)
            if self._shorten(node, self._max_total_characters // (2 * len(self._open))):
                yield node

    def _shorten(self, node: Node, max_characters: int) -> bool:
        assert node.transcript is not None, "only nodes with a transcript are kept here"
        before = node.transcript.characters
        node.transcript.shorten(max_characters)
        self._total += node.transcript.characters - before
        return node.transcript.characters < before
