"""`rate_limit` under any schedule: the limits hold in every minute, in the order in which the calls came."""

from dataclasses import dataclass

import anyio
from hypothesis import given, strategies as st
from trio.testing import MockClock

from nighthawk_async.resilience import rate_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls: how long after the one before, for how many tokens, and with how much patience."""

    gap: int
    tokens: int
    patience: int


callers = st.lists(
    st.builds(
        Caller, gap=st.integers(0, 40), tokens=st.integers(0, 60), patience=st.sampled_from([5, 50, 10_000])
    ),
    min_size=1,
    max_size=12,
)


async def play(schedule: list[Caller], per_minute: int, tokens_per_minute: int) -> list[tuple[int, float]]:
    """Who was called, and when."""
    called: list[tuple[int, float]] = []

    async def call(number: int, tokens: int) -> None:
        called.append((number, anyio.current_time()))

    limited = rate_limit(
        call, per_minute=per_minute, tokens_per_minute=tokens_per_minute, tokens=lambda number, tokens: tokens
    )

    async def come(number: int, caller: Caller) -> None:
        with anyio.move_on_after(caller.patience):
            await limited(number, caller.tokens)

    async with anyio.create_task_group() as tasks:
        for number, caller in enumerate(schedule):
            await anyio.sleep(caller.gap)
            tasks.start_soon(come, number, caller)
            await anyio.wait_all_tasks_blocked()
    return called


@given(schedule=callers, per_minute=st.integers(1, 4), tokens_per_minute=st.integers(50, 150))
def test_the_limits_hold_within_every_minute(
    schedule: list[Caller], per_minute: int, tokens_per_minute: int
) -> None:
    clock = MockClock(autojump_threshold=0)
    called = anyio.run(
        play, schedule, per_minute, tokens_per_minute, backend="trio", backend_options={"clock": clock}
    )
    for _, at in called:
        minute = [number for number, other in called if at <= other < at + 59.999]
        assert len(minute) <= per_minute
        tokens = [schedule[number].tokens for number in minute]
        assert sum(tokens) <= tokens_per_minute or len([each for each in tokens if each]) <= 1
    order = [number for number, _ in called]
    assert order == sorted(order)
    patient = {number for number, caller in enumerate(schedule) if caller.patience == 10_000}
    assert patient <= set(order)


@given(schedule=callers)
def test_calls_that_have_room_do_not_wait(schedule: list[Caller]) -> None:
    clock = MockClock(autojump_threshold=0)
    called = anyio.run(play, schedule, 1_000, 1_000, backend="trio", backend_options={"clock": clock})
    arrivals = [sum(each.gap for each in schedule[: number + 1]) for number in range(len(schedule))]
    began_at = called[0][1] - arrivals[0]
    assert [round(at - began_at) for _, at in called] == arrivals
