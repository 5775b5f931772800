"""What policies decide by time, in the lives of a run: circuit breakers and rate limits."""

from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.resilience import CircuitOpenError, circuit_breaker, rate_limit

from .durable_runs import live, opened, shout, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


class CrashError(Exception):
    """The end of a life."""


made: list[str] = []


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made.clear()


@nh.once
async def pay(name: str) -> str:
    """An effect."""
    made.append(name)
    return name


@nh.repeatable
async def fetch(number: int) -> int:
    """A service that fails at first."""
    made.append(f"fetch {number}")
    if number < 2:
        raise ValueError(number)
    return number


@pytest.mark.parametrize("is_same_process", [True, False])
async def test_a_circuit_breaker_decides_in_every_life_as_in_the_first_one(
    tmp_path: Path, *, is_same_process: bool
) -> None:
    breaker = circuit_breaker(fail_threshold=2, reset_timeout=3_600)

    async def program(*, passes_time: bool, crashes: bool) -> list[str]:
        seen: list[str] = []
        call = breaker(fetch)
        for number in range(5):
            try:
                seen.append(str(await call(number)))
            except CircuitOpenError as error:
                seen.append(await pay(f"{number} is refused: {error}, {error.retry_in}"))
                if passes_time:
                    breaker.reset()
            except ValueError:
                seen.append("failed")
        if crashes:
            raise CrashError
        return [*seen, breaker.state]

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: program(passes_time=True, crashes=True))
        before = list(made)
        assert len(before) == 5
        if not is_same_process:
            breaker = circuit_breaker(fail_threshold=2, reset_timeout=3_600)
        *seen, state = await live(store, shouting(), lambda: program(passes_time=False, crashes=False))
        assert [each.partition(" ")[0] for each in seen] == ["failed", "failed", "2", "3", "4"]
        assert made == before
        assert state == "closed", "what was recorded says nothing about the service now"
        with nh.journal.replay(store, "run-1"):
            assert await live(store, shouting(), lambda: program(passes_time=False, crashes=False))


async def test_a_circuit_breaker_counts_again_from_the_first_call_that_is_new(tmp_path: Path) -> None:
    breaker = circuit_breaker(fail_threshold=2, reset_timeout=3_600)

    async def program(numbers: int, *, crashes: bool) -> list[str]:
        seen: list[str] = []
        for number in range(numbers):
            try:
                await breaker(fetch)(number % 2)
            except (CircuitOpenError, ValueError) as error:
                seen.append(type(error).__name__)
        if crashes:
            raise CrashError
        return seen

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: program(1, crashes=True))
        breaker = circuit_breaker(fail_threshold=2, reset_timeout=3_600)
        seen = await live(store, shouting(), lambda: program(4, crashes=False))
        assert seen == ["ValueError", "ValueError", "ValueError", "CircuitOpenError"]


async def test_recorded_calls_do_not_wait_for_a_rate_limit_nor_count_for_it(tmp_path: Path) -> None:
    def count_tokens(word: str) -> int:
        made.append(word)
        return 1

    limited = rate_limit(shout, per_minute=4, tokens_per_minute=1_000, tokens=count_tokens)

    async def program(*, crashes: bool) -> list[str]:
        shouted = [*await nh.parallel.map(limited, ["a"]), await limited("b")]
        if crashes:
            raise CrashError
        return [*shouted, await limited("c")]

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: program(crashes=True))
        assert made == ["a", "b"]
        for _ in range(2):
            assert await live(store, shouting(), lambda: program(crashes=False)) == ["A", "B", "C"]
            assert made == ["a", "b", "c"]
