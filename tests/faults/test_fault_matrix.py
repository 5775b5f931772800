"""Every fault in every protocol ends as the rows of the matrix say, leaves nothing behind, spoils nothing."""

from collections import deque
from typing import Any

import anyio
import pytest

from nighthawk_async.errors import ModelError
from nighthawk_async.models import exchange
from nighthawk_async.models.http_pool import HttpPool, open_http_pool
from nighthawk_async.models.http_retries import retry_delay
from nighthawk_async.models.providers import create_model
from nighthawk_async.ports import Model
from nighthawk_async.testing.model_reply import ModelReply, RecordedRequest
from nighthawk_async.testing.model_server import ModelServer
from nighthawk_async.types.model import ModelEvent, ResponseFinished, ToolCallCompleted

from .fault_matrix import PROTOCOLS, Fails, Fault, Spoken, Succeeds
from .fault_matrix_rows import FAULTS, WAITING_FAULTS
from .http_support import HELLO, from_pool, text_of, wait_until_closed

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry at once what is retried: when it is retried is tested elsewhere."""

    def retry_at_once(error: ModelError, **options: Any) -> float | None:
        return None if retry_delay(error, **options) is None else 0.0

    monkeypatch.setattr(exchange, "retry_delay", retry_at_once)


class FaultyServer:
    """A server whose next reply is the faulty one, and all others are good.

    Args:
        faulty: The faulty reply.
    """

    def __init__(self, faulty: ModelReply) -> None:
        self._faulty = faulty
        self._replies: deque[ModelReply] = deque()
        self.server = ModelServer(self._decide)

    def fail_next(self) -> None:
        self._replies.append(self._faulty)

    def _decide(self, request: RecordedRequest) -> ModelReply:
        return self._replies.popleft() if self._replies else ModelReply(text="Good")


async def read_into(seen: list[ModelEvent], model: Model) -> None:
    async with model.stream(HELLO) as events:
        async for event in events:
            seen.append(event)


async def check_end(model: Model, end: Succeeds | Fails) -> None:
    """Make a request and compare how it ends."""
    seen: list[ModelEvent] = []
    if isinstance(end, Fails):
        with pytest.raises(ModelError) as raised:
            await read_into(seen, model)
        assert isinstance(raised.value, end.error), repr(raised.value)
        assert raised.value.is_transient is end.is_transient, repr(raised.value)
        assert text_of(seen) == end.text
        assert not [event for event in seen if isinstance(event, ResponseFinished | ToolCallCompleted)]
        return
    await read_into(seen, model)
    assert end.text is None or text_of(seen) == end.text
    assert isinstance(seen[-1], ResponseFinished)
    assert seen[-1].reason == end.reason
    calls = [event.call for event in seen if isinstance(event, ToolCallCompleted)]
    assert [(call.name, call.arguments) for call in calls] == list(end.calls)
    assert len({call.id for call in calls} - {""}) == len(calls)


async def check_cell(protocol: Spoken, fault: Fault) -> None:
    """A request that meets the fault, one that follows it, and one that may be sent again."""
    end = fault.end_for(protocol.provider)
    faulty = FaultyServer(fault.reply(protocol))
    with anyio.fail_after(240):
        async with faulty.server as server, open_http_pool() as pool:
            model = model_of(protocol, server, pool, fault, max_retries=0)
            faulty.fail_next()
            await check_end(model, end)
            await check_nothing_left(server, pool)
            assert len(server.requests) == 1
            await check_end(model_of(protocol, server, pool), Succeeds(text="Good"))
            if isinstance(end, Fails):
                requests = len(server.requests)
                faulty.fail_next()
                model = model_of(protocol, server, pool, fault, max_retries=1)
                await check_end(model, Succeeds(text="Good") if end.is_retried else end)
                await check_nothing_left(server, pool)
                assert len(server.requests) - requests == (2 if end.is_retried else 1)


def model_of(
    protocol: Spoken, server: ModelServer, pool: HttpPool, fault: Fault | None = None, **settings: Any
) -> Model:
    return create_model(
        f"{protocol.provider}:tested",
        settings={"base_url": server.base_url, **(fault.settings if fault else {}), **settings},
        environment={},
        pool_source=from_pool(pool),
    )


async def check_nothing_left(server: ModelServer, pool: HttpPool) -> None:
    await wait_until_closed(server, pool)
    assert pool.statistics().in_flight == 0


CELLS = [
    pytest.param(protocol, fault, id=f"{protocol.provider}, {fault.name}")
    for protocol in PROTOCOLS
    for fault in FAULTS
]


@pytest.mark.parametrize(("protocol", "fault"), CELLS)
async def test_a_fault_ends_as_it_should_and_spoils_nothing(protocol: Spoken, fault: Fault) -> None:
    await check_cell(protocol, fault)


async def test_faults_that_keep_one_waiting_end_in_time_and_spoil_nothing() -> None:
    async def check_named_cell(protocol: Spoken, fault: Fault) -> None:
        try:
            await check_cell(protocol, fault)
        except Exception as error:
            error.add_note(f"in the cell: {protocol.provider}, {fault.name}")
            raise

    # All at once: the time limits are generous, so that a busy machine keeps them where it should.
    async with anyio.create_task_group() as task_group:
        for protocol in PROTOCOLS:
            for fault in WAITING_FAULTS:
                task_group.start_soon(check_named_cell, protocol, fault)


def test_no_two_rows_have_the_same_name() -> None:
    names = [fault.name for fault in (*FAULTS, *WAITING_FAULTS)]
    assert len(names) == len(set(names))
