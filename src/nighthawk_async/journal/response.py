"""Responses of models in a run with a journal: recorded as they arrive, or answered from their records.

A tool call of a live response is handed on only when the response is complete and recorded: an effect never
begins that no recorded response asks for.
"""

from collections import deque
from types import TracebackType
from typing import Self

import msgspec

from ..errors import ConfigurationError, ModelError
from ..kernel.calls import below_place
from ..kernel.tools import OUTCOME_TOOL_NAME
from ..ports import ForwardedStream, OpenSource, Settle
from ..recording.exchange import (
    RecordedError,
    RecordedExchange,
    record_consumed,
    record_error,
    record_events,
    replay_error,
)
from ..recording.recorder import ReplayStream
from ..types.model import ModelEvent, ResponseFinished, ToolCallCompleted
from .recorder import RunRecorder


class JournaledResponse(ForwardedStream):
    """The response to the request of one place.

    Args:
        recorder: The journal of the run.
        place: The place of the request.
        model_name: The model.
        open_source: Asks the model.
    """

    def __init__(
        self,
        recorder: RunRecorder,
        place: str,
        model_name: str,
        open_source: OpenSource,
    ) -> None:
        self._recorder = recorder
        self._whole_place = place
        self._place = recorder.relative(place)
        self._model_name = model_name
        self._open_source = open_source
        self._events: list[ModelEvent] = []
        self._held: deque[ModelEvent] = deque()
        self._is_replay = recorder.has_response(self._place)
        self._has_ended = False
        self._is_working = False
        self._settle: Settle | None = None

    @property
    def turn_place(self) -> str:
        """The place of the request, whatever the run is within."""
        return self._whole_place

    def settle_first(self, settle: Settle) -> None:
        """Have the request charged before its end is recorded."""
        self._settle = settle

    @property
    def is_replay(self) -> bool:
        """Whether the response was recorded by an earlier life."""
        return self._is_replay

    @property
    def journal_place(self) -> str:
        """The place of the response."""
        return self._place

    async def __aenter__(self) -> Self:
        exchange = await self._find_exchange()
        if exchange is not None:
            await self.enter_source(ReplayStream(exchange, is_whole=True))
            return self
        await self._recorder.begin_new(self._place)
        self._recorder.check_new(self._place)
        self._recorder.check_may_begin()
        self._begin_work()
        try:
            # Caches and recorders ask the model only when they are entered.
            with below_place(self._whole_place):
                await self.enter_source(self._open_source())
        except (ModelError, ConfigurationError) as error:
            self._keep_failure(error)
            self._end_work()
            raise
        except BaseException:
            self._end_work()
            raise
        return self

    def _begin_work(self) -> None:
        if self._recorder.activity is not None:
            self._recorder.activity.begin_work()
            self._is_working = True

    def _end_work(self) -> None:
        if self._recorder.activity is not None and self._is_working:
            self._is_working = False
            self._recorder.activity.end_work()

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        try:
            return await super().__aexit__(exception_type, exception, traceback)
        finally:
            self._end_work()

    async def __anext__(self) -> ModelEvent:
        assert self.events is not None
        if self._is_replay:
            return await self.events.__anext__()  # directly, because most events of a resumed run come here
        while not self._has_ended:
            try:
                event = await self.events.__anext__()
            except (ModelError, ConfigurationError) as error:
                self._keep_failure(error)
                await self._recorder.departures.leave(self._place)
                raise
            self._events.append(event)
            if isinstance(event, ResponseFinished):
                self._has_ended = True
                self._held.append(event)
                await self._keep_response()
                self._end_work()
            elif isinstance(event, ToolCallCompleted):
                self._held.append(event)
            else:
                return event
        if self._held:
            return self._held.popleft()
        return await super().__anext__()  # the end of the source, as it gives it

    async def _find_exchange(self) -> RecordedExchange | None:
        """Wait for the turn of the recorded response; None where the model has to be asked.

        A recorded error counts where the program handled it, with another model for example. One that ended
        a life does not: the request is sent again.

        Raises:
            ModelError: The request had failed, and the run went on without it.
        """
        record = self._recorder.find_record(self._place, "response")
        if record is not None:
            exchange = msgspec.msgpack.decode(record.body, type=RecordedExchange)
            if self._recorder.gate.is_cut_off(record) and not _asks_for_calls(exchange):
                self._recorder.delivery.leave_out(record)
                await self._recorder.gate.wait_cancelled(self._place)
            await self._recorder.delivery.deliver(record)
            return exchange
        failure = self._recorder.find_handled(self._place, "failure")
        if failure is not None:
            await self._recorder.delivery.deliver(failure)
            error = replay_error(msgspec.msgpack.decode(failure.body, type=RecordedError))
            self._recorder.note_raised(failure.place, error)
            raise error
        return None

    async def _keep_response(self) -> None:
        if self._settle is not None:
            self._settle(None)
        usage = self.usage
        exchange = RecordedExchange(
            step=(),
            model=self._model_name,
            digest="",
            request={},
            consumed=record_consumed(None if usage is None else usage.credible(), self._events),
            **record_events(self._events),
        )
        written = self._recorder.add(self._place, "response", msgspec.msgpack.encode(exchange))
        is_awaited = self._recorder.waits_for_responses
        await self._recorder.departures.leave(self._place, written if is_awaited else None)

    def _keep_failure(self, error: ModelError | ConfigurationError) -> None:
        """Record that the request failed."""
        if not self._has_ended:
            self._has_ended = True
            if self._settle is not None:
                self._settle(error)
            body = msgspec.msgpack.encode(record_error(error))
            self._recorder.add_failure(self._place, "failure", body, error)


def _asks_for_calls(exchange: RecordedExchange) -> bool:
    """Whether a response asks for more than the end of its step."""
    calls = [part.tool_call.name for part in exchange.response if part.tool_call is not None]
    return any(name != OUTCOME_TOOL_NAME for name in calls)
