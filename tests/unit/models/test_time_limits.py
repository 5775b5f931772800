"""When the time of a request begins, and which limit its error names."""

import anyio
import pytest

from nighthawk_async.errors import FirstEventTimeoutError, RequestTimeoutError
from nighthawk_async.models.time_limits import TimeLimits, TransportSettings

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def limits(**settings: float | None) -> TimeLimits:
    return TimeLimits(TransportSettings.from_settings(settings), "host")


async def wait(seconds: float) -> str:
    await anyio.sleep(seconds)
    return "done"


async def test_the_wait_for_the_first_turn_takes_nothing_from_the_requests_time() -> None:
    given = limits(timeout=10)
    assert await given.keep_turn(lambda: wait(1_000)) == "done"
    assert given.deadline == anyio.current_time() + 10
    given.begin_attempt()
    assert await given.keep(lambda: wait(9)) == "done"
    with pytest.raises(RequestTimeoutError, match=r"within 10 seconds \(timeout\)"):
        await given.keep(lambda: wait(9))


async def test_a_wait_for_a_turn_has_a_limit_of_its_own() -> None:
    given = limits(timeout=10, queue_timeout=50)
    start = anyio.current_time()
    with pytest.raises(RequestTimeoutError) as caught:
        await given.keep_turn(lambda: wait(60))
    assert str(caught.value) == "still waiting for its turn after 50 seconds (queue_timeout)"
    assert anyio.current_time() == start + 50


async def test_later_waits_for_a_turn_belong_to_the_requests_time() -> None:
    given = limits(timeout=10, queue_timeout=50)
    await given.keep_turn(lambda: wait(40))
    await given.keep_turn(lambda: wait(4))
    start = anyio.current_time()
    with pytest.raises(RequestTimeoutError) as caught:
        await given.keep_turn(lambda: wait(60))
    assert str(caught.value) == "still waiting for its turn after 10 seconds (timeout)"
    assert anyio.current_time() == start + 6


async def test_without_limits_a_request_waits_and_takes_as_long_as_it_likes() -> None:
    given = limits(timeout=None, queue_timeout=None)
    assert await given.keep_turn(lambda: wait(1e6)) == "done"
    assert await given.keep_turn(lambda: wait(1e6)) == "done"
    assert given.deadline == float("inf")


async def test_each_attempt_has_its_own_time_until_its_first_event() -> None:
    given = limits(first_event_timeout=3)
    await given.keep_turn(lambda: wait(1))
    for _ in range(2):
        given.begin_attempt()
        with pytest.raises(FirstEventTimeoutError):
            await given.keep(lambda: wait(4))
