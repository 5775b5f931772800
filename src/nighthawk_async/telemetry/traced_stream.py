"""A response whose request has a span, metrics and events. Only where somebody wants them."""

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

from ..ports import Model
from ..runtime.told_usage import TellsConsumption, TellsUsage, may_have_consumed, usage_so_far
from ..types.model import ModelEvent, ModelRequest
from ..types.usage import Usage
from .chat import ChatSpan
from .responses import arrived_at, is_replay

__all__ = ["TracedStream", "traced_stream"]


class TracedStream(AbstractAsyncContextManager["TracedStream"], AsyncIterator[ModelEvent]):
    """The events of one response; see `ports.Model.stream`. Made by `traced_stream`.

    Not a generator, and no `NotedStream`: the span is the current one only while the response is waited for.

    Args:
        stream: The response.
        model: The model.
        request: The request.
    """

    def __init__(
        self,
        stream: AbstractAsyncContextManager[AsyncIterator[ModelEvent]],
        model: Model,
        request: ModelRequest,
    ) -> None:
        self._stream = stream
        self._model = model
        self._request = request
        self._chat: ChatSpan | None = None
        self._events: AsyncIterator[ModelEvent] | None = None
        self._failure: Exception | None = None

    async def __aenter__(self) -> Self:
        chat = self._chat = ChatSpan(self._model, self._request, is_replay=is_replay(self._stream))
        try:
            with chat.current():
                self._events = await self._stream.__aenter__()
        except BaseException as error:
            chat.end(error, usage_so_far(self._stream))
            raise
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        assert self._chat is not None
        self._chat.end(self._failure, usage_so_far(self._stream))
        return await self._stream.__aexit__(exception_type, exception, traceback)

    async def __anext__(self) -> ModelEvent:
        assert self._chat is not None
        assert self._events is not None
        waited_since = time.perf_counter()
        try:
            with self._chat.current():
                event = await self._events.__anext__()
        except StopAsyncIteration:
            raise
        except Exception as error:
            self._failure = error
            raise
        self._chat.note(event, waited_since=waited_since, arrived_at=arrived_at(self._stream))
        return event


class _TellsUsage(TracedStream):
    @property
    def usage(self) -> Usage | None:
        """The usage of the request so far; see `told_usage.TellsUsage`."""
        return usage_so_far(self._stream)


class _TellsConsumption(TracedStream):
    @property
    def may_have_consumed(self) -> bool:
        """Whether the provider may have worked on the request; see `told_usage.TellsConsumption`."""
        return may_have_consumed(self._stream)


class _TellsBoth(_TellsUsage, _TellsConsumption):
    pass


def traced_stream(
    stream: AbstractAsyncContextManager[AsyncIterator[ModelEvent]], model: Model, request: ModelRequest
) -> TracedStream:
    """The response with a span, metrics and events; it tells what the response tells, and no more.

    Args:
        stream: The response.
        model: The model.
        request: The request.
    """
    tells_usage, tells_consumption = isinstance(stream, TellsUsage), isinstance(stream, TellsConsumption)
    if tells_usage:
        return (_TellsBoth if tells_consumption else _TellsUsage)(stream, model, request)
    return (_TellsConsumption if tells_consumption else TracedStream)(stream, model, request)
