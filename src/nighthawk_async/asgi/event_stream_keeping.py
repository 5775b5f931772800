"""The event streams that clients can come back to. Floor 5."""

from collections import OrderedDict

import anyio

from .event_stream_live import LiveStream

__all__ = ["KeptStreams"]

_MAX_ENDED = 100
"""What has ended costs memory alone, and may be asked for again; beyond this the oldest go."""


class KeptStreams:
    """Streams by their ids: those that go on, and for a while those that have ended."""

    def __init__(self) -> None:
        self._going_on: dict[str, LiveStream] = {}
        self._ended: OrderedDict[str, tuple[float, LiveStream]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._going_on) + len(self._ended)

    def add(self, stream: LiveStream) -> None:
        """Let clients come back to a stream from now on.

        Args:
            stream: The stream.
        """
        self._going_on[stream.id] = stream

    def keep(self, stream: LiveStream, seconds: float) -> None:
        """Keep a stream that has ended.

        Args:
            stream: The stream.
            seconds: For how long; 0 for not at all.
        """
        self._going_on.pop(stream.id, None)
        self._forget_old()
        if seconds > 0:
            self._ended[stream.id] = (anyio.current_time() + seconds, stream)
            if len(self._ended) > _MAX_ENDED:
                self._ended.popitem(last=False)

    def find(self, stream_id: str, path: str) -> LiveStream | None:
        """The stream of that id; None when there is none, or no more, or it is another path's.

        Args:
            stream_id: The id.
            path: The path that the client asks for.
        """
        self._forget_old()
        _, ended = self._ended.get(stream_id, (0.0, None))
        stream = self._going_on.get(stream_id, ended)
        return stream if stream is not None and stream.path == path else None

    def _forget_old(self) -> None:
        now = anyio.current_time()
        for stream_id in [each for each, (until, _) in self._ended.items() if until <= now]:
            del self._ended[stream_id]
