"""Combinators under any schedule: how long calls take, how they end, and when somebody cancels.

Time is counted in turns of the event loop, so the schedules are the same on both.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

from nighthawk_async import parallel
from nighthawk_async.parallel import NothingToRaceError

Ending: TypeAlias = Literal["returns", "raises", "raises when cancelled"]


class CallError(Exception):
    """What a call of a schedule raises."""


class SourceError(Exception):
    """What the items of a schedule raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One call: how many turns it takes, how many more it takes to clean up, and how it ends."""

    turns: int
    cleanup_turns: int
    ending: Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Calls, how many may be in flight, where their plans come from, and when everything is cancelled."""

    plans: tuple[Plan, ...]
    max_concurrent: int | None
    source: Literal["list", "generator", "async generator"]
    source_turns: int
    source_fails: bool
    cancelled_after: int | None
    cancelled_natively: bool = False


@dataclass(slots=True)
class Record:
    """What happened, checked while it happens."""

    schedule: Schedule
    taken: int = 0
    begun: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    is_source_closed: bool = False
    violations: list[str] = field(default_factory=list)

    def items(self) -> Any:
        numbers = range(len(self.schedule.plans))
        if self.schedule.source == "list":
            return list(numbers)
        return self._generate() if self.schedule.source == "generator" else self._generate_async()

    async def call(self, number: int) -> int:
        if number in self.begun:
            self.violations.append(f"{number} began twice")
        self.begun.append(number)
        self._check_bound("in flight", len(self.begun))
        try:
            return await self._carry_out(number, self.schedule.plans[number])
        finally:
            self.ended.append(number)

    async def _carry_out(self, number: int, plan: Plan) -> int:
        try:
            await turns(plan.turns)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await turns(plan.cleanup_turns)
            if plan.ending == "raises when cancelled":
                self.failed.append(number)
                raise CallError(number) from None
            raise
        if plan.ending == "raises":
            self.failed.append(number)
            raise CallError(number)
        self.returned.append(number)
        return number

    def _generate(self) -> Iterator[int]:
        for number in range(len(self.schedule.plans)):
            self.taken += 1
            self._check_bound("taken", self.taken)
            yield number
        if self.schedule.source_fails:
            raise SourceError

    async def _generate_async(self) -> AsyncGenerator[int, None]:
        try:
            for number in self._generate():
                await turns(self.schedule.source_turns)
                yield number
        finally:
            self.is_source_closed = True

    @property
    def can_source_fail(self) -> bool:
        return self.schedule.source_fails and self.schedule.source != "list"

    def check_nothing_is_left(self) -> None:
        if sorted(self.begun) != sorted(self.ended):
            self.violations.append("something is still in flight")
        if self.schedule.max_concurrent == 1 and self.begun != sorted(self.begun):
            self.violations.append("one at a time, but not in order")

    def _check_bound(self, what: str, count: int) -> None:
        limit = self.schedule.max_concurrent
        if limit is not None and count - len(self.ended) > limit:
            self.violations.append(f"{count - len(self.ended)} {what}")


async def turns(count: int) -> None:
    for _ in range(count):
        await checkpoint()


PLANS = st.builds(
    Plan,
    turns=st.integers(0, 6),
    cleanup_turns=st.integers(0, 3),
    ending=st.sampled_from(["returns", "returns", "returns", "raises", "raises when cancelled"]),
)
SCHEDULES = st.builds(
    Schedule,
    plans=st.lists(PLANS, max_size=12).map(tuple),
    max_concurrent=st.none() | st.integers(1, 5),
    source=st.sampled_from(["list", "generator", "async generator"]),
    source_turns=st.integers(0, 2),
    source_fails=st.booleans(),
    cancelled_after=st.none() | st.integers(0, 30),
    cancelled_natively=st.booleans(),
)

both_backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def carry_out(schedule: Schedule, combinator: Any, backend: str) -> tuple[Record, Any, BaseException | None]:
    """What happened, what the combinator returned, and what it raised; a cancellation counts as nothing."""
    record = Record(schedule)
    outcome: list[Any] = [None, None]

    async def work() -> None:
        try:
            outcome[0] = await combinator(record.call, record.items(), max_concurrent=schedule.max_concurrent)
        except Exception as error:  # what it raises is the subject of the tests
            outcome[1] = error
        finally:
            record.check_nothing_is_left()

    async def cancel_natively(turns_before: int) -> None:
        """Cancel the task itself, as Trio knows no way to."""
        task = asyncio.create_task(work())
        await turns(turns_before)
        task.cancel()
        await asyncio.wait([task])

    async def main() -> None:
        if schedule.cancelled_natively and schedule.cancelled_after is not None and backend == "asyncio":
            await cancel_natively(schedule.cancelled_after)
            return
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(work)
            if schedule.cancelled_after is not None:
                await turns(schedule.cancelled_after)
                task_group.cancel_scope.cancel()

    anyio.run(main, backend=backend)
    assert record.violations == []
    return record, *outcome


def errors_of(error: BaseException) -> list[BaseException]:
    return list(error.exceptions) if isinstance(error, BaseExceptionGroup) else [error]


def check_source_is_closed(record: Record) -> None:
    if record.taken and record.schedule.source == "async generator":
        assert record.is_source_closed


@both_backends
@given(schedule=SCHEDULES)
def test_map_gives_everything_in_order_or_raises_what_failed(backend: str, schedule: Schedule) -> None:
    record, results, error = carry_out(schedule, parallel.map, backend)
    check_source_is_closed(record)
    if results is not None:
        assert results == list(range(len(schedule.plans)))
        assert not record.failed
        assert not record.can_source_fail
    elif error is not None:
        numbers = [each.args[0] for each in errors_of(error) if isinstance(each, CallError)]
        assert sorted(numbers) == sorted(record.failed)
        others = [each for each in errors_of(error) if not isinstance(each, CallError)]
        assert others == [] or (len(others) == 1 and isinstance(others[0], SourceError))
    else:
        assert schedule.cancelled_after is not None


@both_backends
@given(schedule=SCHEDULES)
def test_settle_tells_of_every_call_how_it_ended(backend: str, schedule: Schedule) -> None:
    record, settled, error = carry_out(schedule, parallel.settle, backend)
    check_source_is_closed(record)
    if settled is not None:
        assert len(settled) == len(schedule.plans)
        assert settled.values() == sorted(record.returned)
        assert [each.args[0] for each in settled.errors()] == sorted(record.failed)
    elif error is not None:
        assert isinstance(error, SourceError)
        assert record.can_source_fail
    else:
        assert schedule.cancelled_after is not None


@both_backends
@given(schedule=SCHEDULES)
def test_race_gives_the_first_success_or_every_error(backend: str, schedule: Schedule) -> None:
    record, winner, error = carry_out(schedule, parallel.race, backend)
    check_source_is_closed(record)
    if winner is not None:
        assert winner == record.returned[0]
    elif isinstance(error, ExceptionGroup):
        assert [each.args[0] for each in error.exceptions] == list(range(len(schedule.plans)))
        assert not record.returned
    elif isinstance(error, NothingToRaceError):
        assert not schedule.plans
    elif error is not None:
        assert isinstance(error, SourceError)
        assert record.can_source_fail
    else:
        assert schedule.cancelled_after is not None


@both_backends
@given(schedule=SCHEDULES, pause=st.integers(0, 4), most=st.none() | st.integers(0, 6))
def test_stream_gives_each_result_once_however_slowly_they_are_taken(
    backend: str, schedule: Schedule, pause: int, most: int | None
) -> None:
    taken: list[int] = []

    async def take(function: Any, items: Any, *, max_concurrent: int | None) -> str:
        async with parallel.stream(function, items, max_concurrent=max_concurrent) as results:
            while most is None or len(taken) < most:
                try:
                    taken.append(await anext(results))
                except StopAsyncIteration:
                    return "all"
                await turns(pause)
        return "some"

    record, result, error = carry_out(schedule, take, backend)
    check_source_is_closed(record)
    assert taken == record.returned[: len(taken)]
    if schedule.max_concurrent is not None:
        assert len(record.begun) - len(taken) <= schedule.max_concurrent
    if result == "all":
        assert taken == record.returned
        assert sorted(taken) == list(range(len(schedule.plans)))
    elif result is None and error is None:
        assert schedule.cancelled_after is not None
    elif error is not None:
        assert taken == record.returned


@given(
    call_turns=st.lists(st.integers(0, 4), max_size=12),
    max_concurrent=st.none() | st.integers(1, 4),
    cancelled_after=st.lists(st.integers(0, 12), min_size=1, max_size=8),
)
def test_pulls_that_asyncio_cancels_lose_no_result(
    call_turns: list[int], max_concurrent: int | None, cancelled_after: list[int]
) -> None:
    """Several tasks pull at once, and each is cancelled natively after its own number of turns."""
    taken: list[int] = []

    async def call(number: int) -> int:
        await turns(call_turns[number])
        return number

    async def take(results: parallel.Stream[int]) -> None:
        async for result in results:
            taken.append(result)
            await checkpoint()

    async def cancel(task: asyncio.Task[None], turns_before: int) -> None:
        await turns(turns_before)
        task.cancel()

    async def main() -> None:
        async with parallel.stream(call, range(len(call_turns)), max_concurrent=max_concurrent) as results:
            takers = [asyncio.create_task(take(results)) for _ in cancelled_after]
            await asyncio.gather(*map(cancel, takers, cancelled_after))
            await asyncio.wait(takers)
            with anyio.fail_after(240):
                await take(results)

    anyio.run(main, backend="asyncio")
    assert sorted(taken) == list(range(len(call_turns)))
