"""A response that is handed on, event by event, by who takes note of it."""

from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from ..types.model import ModelEvent

__all__ = ["NotedStream"]


class NotedStream(AbstractAsyncContextManager["NotedStream"], AsyncIterator[ModelEvent]):
    """The events of another response; see `ports.Model.stream`.

    Not a generator: no cancel scope is open while the caller holds the stream. Whoever opens the other
    response keeps its events here.
    """

    _events: AsyncIterator[ModelEvent] | None = None
    _failure: Exception | None = None

    async def __anext__(self) -> ModelEvent:
        assert self._events is not None
        try:
            event = await self._events.__anext__()
        except BaseException as error:
            self._note_end(error)
            raise
        self._note(event)
        return event

    @abstractmethod
    def _note(self, event: ModelEvent) -> None:
        """Take note of an event, before the caller gets it."""

    def _note_end(self, error: BaseException) -> None:
        """Take note of how the events have ended: with a failure, or because there are no more.

        Args:
            error: What the other response has raised.
        """
        if isinstance(error, Exception) and not isinstance(error, StopAsyncIteration):
            self._failure = error
