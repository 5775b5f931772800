"""Responses that are recorded, and responses that are replayed.

Neither is a generator: no cancel scope is open while the caller holds the stream.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import anyio
from anyio.lowlevel import checkpoint

from ..errors import ConfigurationError, ModelError
from ..ports import ForwardedStream, ResponseStream
from ..types.model import ModelEvent, ResponseFinished
from ..types.usage import Usage
from .errors import CassetteMissError
from .exchange import RecordedExchange, replay_consumed, replay_error, replay_events

__all__ = ["RecordingStream", "ReplayStream", "ResponseRecord"]

_GRACE_SECONDS = 30.0


@dataclass(slots=True, kw_only=True)
class ResponseRecord:
    """The recorded response to a request.

    Args:
        events: The events so far.
        consumed: What the request consumed, when the model told it beside its events.
        error: How the request failed.
        cancelled_after_seconds: Seconds after which it was cancelled.
        has_ended: Whether the program read it to its end.
        is_broken: Whether it ended in a way that cannot be replayed.
    """

    events: list[ModelEvent] = field(default_factory=list[ModelEvent])
    consumed: Usage | None = None
    error: ModelError | ConfigurationError | None = None
    cancelled_after_seconds: float | None = None
    has_ended: bool = False
    is_broken: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether nothing more could have come."""
        is_finished = bool(self.events) and isinstance(self.events[-1], ResponseFinished)
        return is_finished or self.has_ended or self.error is not None or self.is_broken


class RecordingStream(ForwardedStream):
    """Hands a response on and keeps what it was.

    Args:
        open_stream: Opens the response.
        keep: Takes the record when the response is over.
    """

    def __init__(
        self,
        open_stream: Callable[[], AbstractAsyncContextManager[AsyncIterator[ModelEvent]]],
        keep: Callable[[ResponseRecord], None],
    ) -> None:
        self._open_stream = open_stream
        self._keep = keep
        self._record = ResponseRecord()
        self._began = 0.0

    async def __aenter__(self) -> Self:
        self._began = anyio.current_time()
        try:
            await self.enter_source(self._open_stream())
        except BaseException as error:
            self._note_failure(error)
            self._finish()
            raise
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        if isinstance(exception, anyio.get_cancelled_exc_class()):
            self._note_failure(exception)
        assert self.source is not None
        try:
            return await self.source.__aexit__(exception_type, exception, traceback)
        finally:
            self._finish()

    async def __anext__(self) -> ModelEvent:
        try:
            event = await super().__anext__()
        except StopAsyncIteration:
            self._record.has_ended = True
            raise
        except BaseException as error:
            self._note_failure(error)
            raise
        self._record.events.append(event)
        return event

    def _finish(self) -> None:
        usage = self.usage
        self._record.consumed = None if usage is None else usage.credible()
        self._keep(self._record)

    def _note_failure(self, error: BaseException) -> None:
        if self._record.is_whole:
            return
        if isinstance(error, anyio.get_cancelled_exc_class()):
            self._record.cancelled_after_seconds = round(anyio.current_time() - self._began, 3)
        elif isinstance(error, ModelError | ConfigurationError):
            self._record.error = error
        else:
            self._record.is_broken = True


class ReplayStream(ResponseStream):
    """Gives a recorded response again.

    A request that was cancelled while it was recorded waits for the same, as long as it took then and half a
    minute more.

    Args:
        exchange: The recording.
    """

    def __init__(self, exchange: RecordedExchange) -> None:
        self._exchange = exchange
        self._events = deque(replay_events(exchange))

    @property
    def usage(self) -> Usage | None:
        """The recorded usage of the request, if it was more than its events reported."""
        return replay_consumed(self._exchange)

    @property
    def is_replay(self) -> bool:
        """True: no model is asked."""
        return True

    async def __aenter__(self) -> Self:
        await checkpoint()
        if not self._events and not self._exchange.left_early:
            await self._end()
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._events.clear()

    async def __anext__(self) -> ModelEvent:
        await checkpoint()
        if not self._events:
            await self._end()
            raise StopAsyncIteration
        return self._events.popleft()

    async def _end(self) -> None:
        exchange = self._exchange
        if exchange.error is not None:
            raise replay_error(exchange.error)
        if exchange.cancelled_after_seconds is not None:
            await anyio.sleep(exchange.cancelled_after_seconds + _GRACE_SECONDS)
            raise self._went_on("was cancelled")
        if exchange.left_early:
            raise self._went_on("was left before its end")

    def _went_on(self, how: str) -> CassetteMissError:
        exchange = self._exchange
        return CassetteMissError(
            f"The response of {exchange.model} to {' > '.join(exchange.step)} {how} when it was recorded, "
            "and now the program goes on with it. Record everything anew with mode='all', in pytest with "
            "--record=all."
        )
