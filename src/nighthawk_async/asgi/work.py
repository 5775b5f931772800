"""One request in progress, its early end, and the event streams that outlive it."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Literal, TypeAlias

import anyio
from msgspec import Struct

from ..kernel.features import Feature
from ..parallel.task_node import TaskNode
from .event_stream_live import LiveStream, find_seen, parse_event_id
from .exchange import Inbox
from .problems import CANCELLED, SHUTTING_DOWN, TIMED_OUT, Problem
from .protocol import AsgiScope, Message

_MAX_ENDED = 100
"""The maximum number of ended streams. They only take memory, and may be resumed; the oldest are dropped."""

_MAX_GUESTS = 2
"""The reader, and one that replaces it."""


class KeptStreams:
    """Streams by their ids: those that are running, and for a while those that have ended."""

    def __init__(self) -> None:
        self._going_on: dict[str, LiveStream] = {}
        self._ended: OrderedDict[str, tuple[float, LiveStream]] = OrderedDict()
        self._guests: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._going_on) + len(self._ended)

    @contextmanager
    def keeping(self, stream: LiveStream, seconds: float) -> Generator[None, None, None]:
        """Allow clients to resume a stream in the `with` statement, and for a while afterwards.

        Args:
            stream: The stream.
            seconds: The time, in seconds.
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
        """Yield whether a connection needs no slot during the `with` statement, because it resumes a stream.

        The request that has begun the stream has a slot already.

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
        """Return the stream with this id; None when it is unknown, dropped, or belongs to another path.

        Args:
            stream_id: The id.
            path: The path of the request.
        """
        self._forget_old()
        _, ended = self._ended.get(stream_id, (0.0, None))
        stream = self._going_on.get(stream_id, ended)
        return stream if stream is not None and stream.path == path else None

    def _forget_old(self) -> None:
        now = anyio.current_time()
        for stream_id in [each for each, (until, _) in self._ended.items() if until <= now]:
            del self._ended[stream_id]


EndReason: TypeAlias = Literal["disconnected", "timed_out", "shut_down", "cancelled"]
"""The client has left, the time limit has passed, the service ends, or an observer has cancelled it."""

_PROBLEMS: Mapping[EndReason | None, Problem] = MappingProxyType(
    {"timed_out": TIMED_OUT, "shut_down": SHUTTING_DOWN, "cancelled": CANCELLED}
)

_OWN_END_SECONDS = 1.0
"""Time for an application that waits for the client to leave, to end tasks that no scope here reaches."""


class Work:
    """The work of an application for one request.

    Args:
        end_message: The message that the application gets from `receive` when it must end.
        is_complete: Returns whether it has responded, so that only the end of the service ends its further
            work.
        on_end: Called when it is asked to end.
    """

    def __init__(
        self,
        end_message: Message,
        *,
        is_complete: Callable[[], bool] = bool,
        on_end: Callable[[], object] = bool,
    ) -> None:
        self.scope = anyio.CancelScope()
        """The scope that is cancelled."""
        self.end_reason: EndReason | None = None
        """The reason for which it was asked to end; None when it was not."""
        self.reason_given: str | None = None
        """The reason that the observer gave, if any."""
        self.task_node: TaskNode | None = None
        """The task of the request, which is asked to end too."""
        self.inbox: Inbox | None = None
        self._end_message = end_message
        self._is_complete = is_complete
        self._outliving = 0
        self._on_end = on_end

    @property
    def problem(self) -> Problem | None:
        """The problem for a client that is still there when the work must end; None for none."""
        return _PROBLEMS.get(self.end_reason)

    def request_cancel(self, reason: str | None) -> None:
        """Cancel it, on request of an observer."""
        self.reason_given = reason
        self.ask_to_end("cancelled")

    @contextmanager
    def outliving_client(self) -> Generator[None, None, None]:
        """Let it continue when its client leaves. The client may return; the caller must end the work.

        Its response may end before its work, when another response takes over.
        """
        self._outliving += 1
        try:
            yield
        finally:
            self._outliving -= 1

    def ask_to_end(self, reason: EndReason) -> None:
        """Ask it to end; only the first reason counts.

        Args:
            reason: The reason.
        """
        if self.end_reason is not None or not self._can_end(reason):
            return
        self.end_reason = reason
        self._on_end()
        if self.task_node is not None:
            self.task_node.ask_to_end(reason)
        if self.inbox is not None and self.inbox.is_awaited:
            self.inbox.end(self._end_message)
            self.scope.deadline = min(self.scope.deadline, anyio.current_time() + _OWN_END_SECONDS)
        else:
            self.scope.cancel()

    def _can_end(self, reason: EndReason) -> bool:
        if self._outliving:
            return reason != "disconnected"
        return reason == "shut_down" or not self._is_complete()

    async def end_after(self, seconds: float) -> None:
        """Ask it to end when its time limit has passed.

        Args:
            seconds: The time limit, in seconds.
        """
        await anyio.sleep(seconds)
        self.ask_to_end("timed_out")


class ActiveRequest(Struct, frozen=True, kw_only=True, eq=False):
    """A request that a middleware has admitted.

    Args:
        request_id: Its id.
        work: The work, which can be ended.
        streams: The event streams that clients can resume.
    """

    request_id: str
    work: Work
    streams: KeptStreams


_request = Feature[ActiveRequest | None](None)


def find_request() -> ActiveRequest | None:
    """Return the request that the caller belongs to; None outside a middleware."""
    return _request.get()


@contextmanager
def using_request(request: ActiveRequest) -> Generator[None, None, None]:
    """Make the calls in the `with` statement belong to a request.

    Args:
        request: The request.
    """
    with _request.active(request):
        yield
