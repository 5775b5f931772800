"""Many requests at a server that takes few: who waits, who comes back when, and that none is lost."""

import json

import anyio
import pytest

from nighthawk_async.errors import ModelError, ModelStatusError, RequestTimeoutError
from nighthawk_async.models.pacing import Pacer, PacerStatistics
from nighthawk_async.ports import Model
from nighthawk_async.types.messages import UserMessage
from nighthawk_async.types.model import ModelRequest

from .crowded_server import CrowdedServer
from .http_support import collect, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def request_for(number: int) -> ModelRequest:
    """A request that can be told from others."""
    return ModelRequest(messages=(UserMessage(content=(str(number),)),))


def number_of(body: str) -> int:
    """The number of the request with that body."""
    return int(json.loads(body)["messages"][-1]["content"])


async def ask_all(model: Model, number: int) -> list[ModelError]:
    """Ask so many things at once; gives the errors."""
    errors: list[ModelError] = []

    async def ask(each: int) -> None:
        try:
            assert text_of(await collect(model, request_for(each))) == "Hi"
        except ModelError as error:
            errors.append(error)

    async with anyio.create_task_group() as task_group:
        for each in range(number):
            task_group.start_soon(ask, each)
    return errors


async def test_a_crowd_that_is_refused_comes_back_in_numbers_that_the_server_takes() -> None:
    server = CrowdedServer(most=20, window_seconds=0.5)
    pacer = Pacer()
    assert await ask_all(server.model(pacer), 300) == []
    assert len(server.taken) == 300
    assert server.refused < 310, "the first crowd is refused, and hardly anybody later"
    assert pacer.statistics() == PacerStatistics(in_flight=0, waiting=0)


async def test_nobody_waits_before_the_server_refuses_somebody() -> None:
    server = CrowdedServer(most=300, window_seconds=1_000)
    start = anyio.current_time()
    assert await ask_all(server.model(Pacer()), 300) == []
    assert {when for when, _ in server.asked} == {start}


async def test_the_refused_come_back_in_turn_no_sooner_than_asked_and_not_all_at_once() -> None:
    server = CrowdedServer(most=10, window_seconds=0.5, answer_seconds=0.5)
    start = anyio.current_time()
    model = server.model(Pacer())
    async with anyio.create_task_group() as task_group:
        for number in range(30):
            task_group.start_soon(collect, model, request_for(number))
            await anyio.wait_all_tasks_blocked()
    assert server.refused == 20
    assert sorted(number_of(body) for _, body in server.asked[:30]) == list(range(30))
    waves: dict[float, list[int]] = {}
    for when, body in server.asked[30:]:
        waves.setdefault(when - start, []).append(number_of(body))
    assert min(waves) > 1
    assert max(len(wave) for wave in waves.values()) < 10
    assert [number for wave in waves.values() for number in sorted(wave)] == list(range(10, 30))


async def test_newcomers_wait_behind_those_whom_the_server_refused() -> None:
    server = CrowdedServer(most=1, window_seconds=0.5)
    model = server.model(Pacer())
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(ask_all, model, 10)
        await anyio.sleep(0.3)  # of the clock that jumps: nine were refused and wait for a second or more
        server.most = 100
        task_group.start_soon(collect, model, request_for(99))
    assert len(server.asked) == 10 + 9 + 1
    asked_last = max(when for when, _ in server.asked)
    assert [when for when, body in server.asked if number_of(body) == 99] == [asked_last]


async def test_successes_make_room_for_more_at_once() -> None:
    server = CrowdedServer(most=1, window_seconds=0.5)
    model = server.model(Pacer())
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(ask_all, model, 50)
        await anyio.sleep(0.3)  # of the clock that jumps: all but one were refused and wait
        server.most = 1_000
    later = [when for when, _ in server.asked[50:]]
    assert len(later) == 49
    rounds = [later.count(when) for when in sorted(set(later))]
    assert rounds[0] <= 2
    assert len(rounds) < 12, "each round is one request larger than the one before"


async def test_a_server_that_wants_no_pause_is_not_hammered() -> None:
    server = CrowdedServer(most=0, window_seconds=1, retry_after="0")
    start = anyio.current_time()
    (error,) = await ask_all(server.model(Pacer(), max_retries=20, timeout=None), 1)
    assert isinstance(error, ModelStatusError)
    assert error.retries == 20
    assert anyio.current_time() - start > 0.75 * (0.5 + 1 + 2 + 4 + 16 * 8)


async def test_the_wait_for_a_turn_does_not_count_against_the_time_of_a_request() -> None:
    server = CrowdedServer(most=100, window_seconds=1)
    start = anyio.current_time()
    model = server.model(Pacer(), requests_per_minute=10, timeout=5)
    assert await ask_all(model, 100) == []
    assert anyio.current_time() - start > 9 * 60


async def test_the_wait_for_a_turn_has_a_limit_of_its_own_when_asked_for() -> None:
    server = CrowdedServer(most=100, window_seconds=1)
    pacer = Pacer()
    errors = await ask_all(server.model(pacer, requests_per_minute=10, queue_timeout=100), 30)
    assert len(server.asked) == 20
    assert len(errors) == 10
    for error in errors:
        assert isinstance(error, RequestTimeoutError)
        assert "still waiting for its turn after 100 seconds (queue_timeout)" in str(error)
    assert pacer.statistics() == PacerStatistics(in_flight=0, waiting=0)
