"""Windows and polls of batches, in virtual time, at a batch endpoint without a network."""

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

import nighthawk_async as nh
from nighthawk_async.errors import ModelConnectionError, ModelStatusError
from nighthawk_async.models.batch_protocol import BatchItem, BatchStatus, ItemResult, SentBatch
from nighthawk_async.models.batched_model import BatchedModel, batch_price
from nighthawk_async.models.http_model import HttpModel
from nighthawk_async.models.multipart import multipart
from nighthawk_async.models.providers import create_model

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@nh.natural_function
async def double(number: int) -> int:
    """natural
    Set <:result> to twice <number>.
    """
    result: int
    return result


class Endpoint:
    """A batch endpoint that takes its time.

    Args:
        seconds: The seconds that a batch takes.
        failing_polls: The numbers of polls that fail.
    """

    max_requests = 1000
    max_bytes = 1_000_000

    def __init__(self, seconds: float, failing_polls: Sequence[int] = ()) -> None:
        self._seconds = seconds
        self._failing_polls = failing_polls
        self._items: dict[str, Sequence[BatchItem]] = {}
        self._ends: dict[str, float] = {}
        self.submitted_at: list[float] = []
        self.sizes: list[int] = []
        self.polled_at: list[float] = []
        self.cancelled_at: list[float] = []

    async def submit(
        self, calls: Any, batch: SentBatch, items: Sequence[BatchItem], headers: Mapping[str, str]
    ) -> str:
        self._items[batch.key] = items
        self._ends[batch.key] = anyio.current_time() + self._seconds
        self.submitted_at.append(anyio.current_time())
        self.sizes.append(len(items))
        return batch.key

    async def status(self, calls: Any, batch_id: str) -> BatchStatus:
        self.polled_at.append(anyio.current_time())
        if len(self.polled_at) in self._failing_polls:
            raise ModelConnectionError("the connection broke", is_transient=True)
        return BatchStatus(is_ended=anyio.current_time() >= self._ends[batch_id], answer={})

    async def results(
        self, calls: Any, batch_id: str, batch: SentBatch, status: BatchStatus
    ) -> dict[str, ItemResult]:
        return {item.id: ItemResult(body=_answer(item.body)) for item in self._items[batch_id]}

    async def cancel(self, calls: Any, batch_id: str) -> None:
        self.cancelled_at.append(anyio.current_time())

    async def find(self, calls: Any, batch: SentBatch) -> str:
        return "none"


def _answer(request: bytes) -> bytes:
    found = re.search(r"number: int = (\d+)", request.decode())
    assert found is not None
    text = json.dumps({"result": {"kind": "pass", "bindings": {"result": 2 * int(found[1])}}})
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return json.dumps({"id": "1", "choices": choices, "usage": usage}).encode()


def executor_with(endpoint: Endpoint, window_seconds: float) -> nh.AgentStepExecutor:
    price = {"input": "2", "output": "8"}  # known, so that no thread looks it up, for which no clock waits
    capabilities = {"structured_output": True, "price": price}
    settings = {"base_url": "http://127.0.0.1:1/v1", "capabilities": capabilities}
    model = create_model("openai-chat:tested", settings=settings, environment={})
    assert isinstance(model, HttpModel)
    batched = BatchedModel(model, endpoint, window_seconds=window_seconds, max_requests=None)
    configuration = nh.StepExecutorConfiguration(outcome_transport="direct")
    return nh.AgentStepExecutor.from_model(batched, configuration=configuration)


async def test_a_window_lasts_from_its_first_request(virtual_clock: MockClock) -> None:
    endpoint = Endpoint(0)
    results: dict[int, int] = {}

    async def ask_at(seconds: float, number: int) -> None:
        await anyio.sleep(seconds)
        results[number] = await double(number)

    async with nh.run(executor_with(endpoint, 60)) as run:
        for number, seconds in enumerate((10, 40, 69, 71, 100)):
            run.task_group.start_soon(ask_at, seconds, number)
    assert endpoint.sizes == [3, 2]
    assert endpoint.submitted_at == pytest.approx([70, 131])
    assert results == {number: 2 * number for number in range(5)}


async def test_a_batch_may_take_hours_and_is_asked_about_once_a_minute(virtual_clock: MockClock) -> None:
    endpoint = Endpoint(12 * 3600)
    async with nh.run(executor_with(endpoint, 60)):
        assert await double(4) == 8
    waits = [later - earlier for earlier, later in pairwise(endpoint.polled_at)]
    assert waits[:6] == pytest.approx([2, 4, 8, 16, 32, 60])
    assert max(waits) == pytest.approx(60)
    assert virtual_clock.current_time() < 12 * 3600 + 200


async def test_polls_that_fail_for_a_passing_reason_are_repeated(virtual_clock: MockClock) -> None:
    endpoint = Endpoint(600, failing_polls=range(2, 12))
    async with nh.run(executor_with(endpoint, 1)):
        assert await double(4) == 8


async def test_a_deadline_takes_a_step_out_of_its_batch(virtual_clock: MockClock) -> None:
    endpoint = Endpoint(12 * 3600)
    async with nh.run(executor_with(endpoint, 60)):
        with pytest.raises(nh.parallel.DeadlineExceededError):
            async with nh.deadline(1800):
                await double(4)
        await anyio.sleep(1)
        assert endpoint.cancelled_at == pytest.approx([1800])


async def test_the_end_of_a_run_waits_for_no_window(virtual_clock: MockClock) -> None:
    endpoint = Endpoint(0)
    with anyio.move_on_after(5):
        async with nh.run(executor_with(endpoint, 3600)):
            await double(4)
    assert virtual_clock.current_time() == pytest.approx(5, abs=0.5)
    assert endpoint.submitted_at == []


async def test_a_poll_that_fails_for_good_fails_each_step(virtual_clock: MockClock) -> None:
    class Refusing(Endpoint):
        async def status(self, calls: Any, batch_id: str) -> BatchStatus:
            raise ModelStatusError("HTTP 403: no", status=403)

    async with nh.run(executor_with(Refusing(10), 1)):
        settled = await nh.parallel.settle(double, range(3))
    assert [str(error) for error in settled.errors()] == ["openai-chat:tested: HTTP 403: no"] * 3


def test_all_prices_of_a_batch_are_half() -> None:
    long = nh.models.ModelPrice(input=Decimal(4), output=Decimal(20))
    price = nh.models.ModelPrice(
        input=Decimal(2),
        output=Decimal(10),
        cache_read=Decimal("0.2"),
        cache_write=Decimal("2.5"),
        cache_write_1h=Decimal(4),
        long_request=long,
        long_request_tokens=200_000,
    )
    assert batch_price(price) == nh.models.ModelPrice(
        input=Decimal(1),
        output=Decimal(5),
        cache_read=Decimal("0.1"),
        cache_write=Decimal("1.25"),
        cache_write_1h=Decimal(2),
        long_request=nh.models.ModelPrice(input=Decimal(2), output=Decimal(10)),
        long_request_tokens=200_000,
    )
    assert batch_price(None) is None


def test_a_form_quotes_the_name_of_its_file() -> None:
    form = multipart({"purpose": "batch"}, 'a"b\r\nc', "text/plain", b"content")
    assert b'filename="a%22b%0D%0Ac"' in form.body
    assert form.body.endswith(b"--\r\n")
