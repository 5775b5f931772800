"""The pacer on an event loop: waiting, being cancelled, and keeping the time."""

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.models.pacing import Demand, Pacer, PacerStatistics, PacingLimits, Permit

pytestmark = pytest.mark.anyio

ONE_AT_A_TIME = Demand(lane="m", limits=PacingLimits(max_concurrent_requests=1))
THREE_AT_A_TIME = Demand(lane="m", limits=PacingLimits(max_concurrent_requests=3))
TWO_A_MINUTE = Demand(lane="m", limits=PacingLimits(requests_per_minute=2))
NOTHING = PacerStatistics(in_flight=0, waiting=0)


async def wait_until_waiting(pacer: Pacer, number: int) -> None:
    with anyio.fail_after(240):
        while pacer.statistics().waiting != number:
            await checkpoint()


async def test_turns_come_in_the_order_in_which_requests_came() -> None:
    pacer = Pacer()
    held = await pacer.admit(ONE_AT_A_TIME)
    served: list[int] = []

    async def ask(number: int) -> None:
        permit = await pacer.admit(ONE_AT_A_TIME)
        served.append(number)
        await checkpoint()
        permit.release()

    async with anyio.create_task_group() as task_group:
        for number in range(50):
            task_group.start_soon(ask, number)
            await wait_until_waiting(pacer, number + 1)
        held.release()
    assert served == list(range(50))
    assert pacer.statistics() == NOTHING


async def test_never_more_in_flight_than_allowed() -> None:
    pacer = Pacer()
    in_flight: list[int] = []

    async def ask() -> None:
        permit = await pacer.admit(THREE_AT_A_TIME)
        in_flight.append(pacer.statistics().in_flight)
        await checkpoint()
        permit.release()

    async with anyio.create_task_group() as task_group:
        for _ in range(100):
            task_group.start_soon(ask)
    assert len(in_flight) == 100
    assert max(in_flight) == 3
    assert pacer.statistics() == NOTHING


@pytest.mark.parametrize("position", range(5))
async def test_whoever_is_cancelled_while_waiting_takes_nothing_and_holds_up_nobody(position: int) -> None:
    pacer = Pacer()
    held = await pacer.admit(ONE_AT_A_TIME)
    served: list[int] = []
    scopes: list[anyio.CancelScope] = []

    async def ask(number: int) -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            permit = await pacer.admit(ONE_AT_A_TIME)
            served.append(number)
            permit.release()

    with anyio.fail_after(240):
        async with anyio.create_task_group() as task_group:
            for number in range(5):
                task_group.start_soon(ask, number)
                await wait_until_waiting(pacer, number + 1)
            scopes[position].cancel()
            await wait_until_waiting(pacer, 4)
            held.release()
    assert served == [number for number in range(5) if number != position]
    assert pacer.statistics() == NOTHING


async def test_whoever_is_cancelled_just_as_the_turn_comes_hands_it_on() -> None:
    pacer = Pacer()
    held = await pacer.admit(ONE_AT_A_TIME)
    served: list[str] = []

    async def ask(name: str, scope: anyio.CancelScope) -> None:
        with scope:
            permit = await pacer.admit(ONE_AT_A_TIME)
            served.append(name)
            permit.release()

    scope = anyio.CancelScope()
    with anyio.fail_after(240):
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(ask, "cancelled", scope)
            await wait_until_waiting(pacer, 1)
            task_group.start_soon(ask, "next", anyio.CancelScope())
            await wait_until_waiting(pacer, 2)
            held.release()  # the turn is the first one's, who has not noticed yet
            scope.cancel()
    # Whether a turn and a cancellation at the same moment give the one or the other is the event loop's
    # business; the next one has a turn either way.
    assert served[-1] == "next"
    assert pacer.statistics() == NOTHING


async def test_a_thousand_cancelled_together_leave_nothing() -> None:
    pacer = Pacer()
    held = await pacer.admit(ONE_AT_A_TIME)
    async with anyio.create_task_group() as task_group:
        for _ in range(1_000):
            task_group.start_soon(pacer.admit, ONE_AT_A_TIME)
        await wait_until_waiting(pacer, 1_000)
        task_group.cancel_scope.cancel()
    assert pacer.statistics() == PacerStatistics(in_flight=1, waiting=0)
    held.release()
    with anyio.fail_after(240):
        await pacer.admit(ONE_AT_A_TIME)


async def test_a_permit_is_given_back_once() -> None:
    pacer = Pacer()
    first = await pacer.admit(ONE_AT_A_TIME)
    first.release()
    second = await pacer.admit(ONE_AT_A_TIME)
    first.release()
    assert pacer.statistics().in_flight == 1
    second.release()


@pytest.mark.virtual_time
async def test_requests_begin_when_the_minute_allows_it() -> None:
    pacer = Pacer()
    begun: list[float] = []
    start = anyio.current_time()

    async def ask() -> None:
        permit = await pacer.admit(TWO_A_MINUTE)
        begun.append(anyio.current_time() - start)
        permit.release()

    async with anyio.create_task_group() as task_group:
        for _ in range(5):
            task_group.start_soon(ask)
    assert begun == [0, 0, 60, 60, 120]


@pytest.mark.virtual_time
async def test_the_next_one_keeps_the_time_when_the_oldest_is_cancelled() -> None:
    pacer = Pacer()
    start = anyio.current_time()
    for _ in range(2):
        (await pacer.admit(TWO_A_MINUTE)).release()
    begun: list[float] = []

    async def ask(seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await pacer.admit(TWO_A_MINUTE)
            begun.append(anyio.current_time() - start)

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(ask, 5)
        await wait_until_waiting(pacer, 1)
        task_group.start_soon(ask, 1_000)
    assert begun == [60]


@pytest.mark.virtual_time
async def test_everybody_waits_out_the_delay_that_the_server_asked_for() -> None:
    pacer = Pacer()
    start = anyio.current_time()
    begun: list[float] = []

    async def ask() -> None:
        permit = await pacer.admit(Demand(lane="other"))
        begun.append(anyio.current_time() - start)
        permit.release()

    held = await pacer.admit(Demand(lane="m"))
    held.refused(7)
    async with anyio.create_task_group() as task_group:
        for _ in range(3):
            task_group.start_soon(ask)
        await wait_until_waiting(pacer, 3)
        held.refused(20)
    assert begun == [20, 20, 20]


@pytest.mark.virtual_time
async def test_limits_learned_from_a_response_hold_the_next_request() -> None:
    pacer = Pacer()
    start = anyio.current_time()
    permit = await pacer.admit(Demand(lane="m"))
    permit.answered(
        {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "6s",
        }
    )
    await pacer.admit(Demand(lane="m"))
    assert anyio.current_time() - start == pytest.approx(6)


async def test_an_answer_that_brings_more_lets_the_next_one_go() -> None:
    pacer = Pacer()
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "100s"}
    first = await pacer.admit(Demand(lane="m"))
    second = await pacer.admit(Demand(lane="m"))
    first.answered(headers)
    permits: list[Permit] = []

    async def ask() -> None:
        permits.append(await pacer.admit(Demand(lane="m")))

    with anyio.fail_after(240):
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(ask)
            await wait_until_waiting(pacer, 1)
            second.answered({**headers, "x-ratelimit-remaining-requests": "1"})
    assert len(permits) == 1
