"""The event streams that clients can come back to."""

from collections import Counter, OrderedDict
from collections.abc import Generator
from contextlib import contextmanager

import anyio

from .event_stream_live import LiveStream, find_seen, parse_event_id
from .protocol import AsgiScope

__all__ = ["KeptStreams"]

_MAX_ENDED = 100
"""What has ended costs memory alone, and may be asked for again; beyond this the oldest go."""

_MAX_GUESTS = 2
"""One that reads, and one that takes its place."""


class KeptStreams:
    """Streams by their ids: those that go on, and for a while those that have ended."""

    def __init__(self) -> None:
        self._going_on: dict[str, LiveStream] = {}
        self._ended: OrderedDict[str, tuple[float, LiveStream]] = OrderedDict()
        self._guests: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._going_on) + len(self._ended)

    @contextmanager
    def keeping(self, stream: LiveStream, seconds: float) -> Generator[None, None, None]:
        """Let clients come back to a stream in the `with` statement, and for a while afterwards.

        Args:
            stream: The stream.
            seconds: How long the while is.
        """
        self._going_on[stream.id] = stream
        try:
            yield
        finally:
            del self._going_on[stream.id]
            self._forget_old()
            if stream.is_known:
                self._ended[stream.id] = (anyio.current_time() + seconds, stream)
                if len(self._ended) > _MAX_ENDED:
                    self._ended.popitem(last=False)

    @contextmanager
    def sharing_place(self, asgi_scope: AsgiScope) -> Generator[bool, None, None]:
        """Give whether a connection needs no place of its own in the `with` statement, since it comes back.

        The request that has begun the stream has a place already.

        Args:
            asgi_scope: The connection.
        """
        seen = parse_event_id(find_seen(asgi_scope))
        stream = None if seen is None else self.find(seen[0], str(asgi_scope.get("path", "")))
        if stream is None or asgi_scope["type"] != "http" or self._guests[stream.id] >= _MAX_GUESTS:
            yield False
            return
        self._guests[stream.id] += 1
        try:
            yield True
        finally:
            self._guests[stream.id] -= 1
            if not self._guests[stream.id]:
                del self._guests[stream.id]

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
