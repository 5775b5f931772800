"""Blocks of tasks under random schedules: every task ends once, and no failure is lost.

Time is counted in checkpoints, so that every schedule can happen on both event loops.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

from nighthawk_async.parallel import TaskCancelledError, TaskHandle, Tasks, cancel_requested, open_tasks
from nighthawk_async.parallel.task_current import open_task_root

pytestmark = pytest.mark.anyio

STEPS = st.integers(0, 6)
LONG = 1_000
ENDS = st.sampled_from(("value", "error", "never"))


class WorkError(Exception):
    """What a task of a schedule raises."""


class EndedPolitelyError(Exception):
    """A task of a schedule ends because it was asked to."""


class BodyError(Exception):
    """What the body of a schedule raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One task: how long it works, how it ends, and whether it ends when asked to.

    It may await the task before it first, and start one that never ends while it ends itself.
    """

    steps: int
    ends: str
    is_polite: bool
    awaits_former: bool
    starts_another: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One who awaits a task: from when on, after how many checkpoints he is cancelled, and in which way."""

    target: int
    begins: int
    patience: int
    is_cancelled_natively: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """One who cancels a task at some moment."""

    target: int
    begins: int
    is_graceful: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    works: list[Work]
    waitings: list[Waiting]
    stops: list[Stop]
    body_steps: int
    body_ends: str
    at_end: str


@dataclass(slots=True, kw_only=True)
class Record:
    """What happened."""

    handles: list[TaskHandle[int]] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    running: int = 0
    delivered: list[tuple[int, object]] = field(default_factory=list)
    raised: list[BaseException] = field(default_factory=list)
    delivered_inside: int = 0
    worked_for_ever: bool = False


@st.composite
def schedules(
    draw: Callable[..., object],
    ends_of_body: tuple[str, ...] = ("normally", "error", "cancelled", "cancelled natively"),
    at_ends: tuple[str, ...] = ("wait", "cancel"),
) -> Schedule:
    works = draw(
        st.lists(
            st.builds(
                Work,
                steps=STEPS,
                ends=ENDS,
                is_polite=st.booleans(),
                awaits_former=st.booleans(),
                starts_another=st.booleans(),
            ),
            min_size=1,
            max_size=5,
        )
    )
    assert isinstance(works, list)
    target = st.integers(0, len(works) - 1)
    waiting = st.builds(
        Waiting,
        target=target,
        begins=STEPS,
        patience=st.integers(0, 12),
        is_cancelled_natively=st.booleans(),
    )
    stop = st.builds(Stop, target=target, begins=STEPS, is_graceful=st.booleans())
    built = st.builds(
        Schedule,
        works=st.just(works),
        waitings=st.lists(waiting, max_size=4),
        stops=st.lists(stop, max_size=4),
        body_steps=STEPS,
        body_ends=st.sampled_from(ends_of_body),
        at_end=st.sampled_from(at_ends),
    )
    schedule = draw(built)
    assert isinstance(schedule, Schedule)
    return schedule


def is_on_asyncio() -> bool:
    """Whether tasks can be cancelled without a scope."""
    return anyio.get_cancelled_exc_class() is asyncio.CancelledError


async def pass_time(steps: int) -> None:
    for _ in range(steps):
        await checkpoint()


class Play:
    """Carries a schedule out."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.record = Record()
        self.scope = anyio.CancelScope()
        self.cancel_body: Callable[[], object] = self.scope.cancel

    async def run(self) -> None:
        async with anyio.create_task_group() as others:
            if self.schedule.body_ends == "cancelled natively" and is_on_asyncio():
                task = asyncio.create_task(self.run_and_record(others))
                self.cancel_body = task.cancel
                await asyncio.wait([task])
            else:
                await self.run_and_record(others)

    async def run_and_record(self, others: anyio.abc.TaskGroup) -> None:
        with self.scope:
            try:
                await self.run_block(others)
            except* (WorkError, BodyError) as group:
                self.record.raised.extend(_leaves(group))
            finally:
                self.record.delivered_inside = len(self.record.delivered)

    async def run_block(self, others: anyio.abc.TaskGroup) -> None:
        async with open_tasks(at_end=self.schedule.at_end) as tasks:
            for index, work in enumerate(self.schedule.works):
                self.record.handles.append(tasks.start(self.work, index, work, tasks))
            for waiting in self.schedule.waitings:
                others.start_soon(self.wait, waiting)
            for stop in self.schedule.stops:
                others.start_soon(self.stop, stop)
            if self.schedule.at_end == "wait":
                others.start_soon(self.end_at_last)
            await pass_time(self.schedule.body_steps)
            if self.schedule.body_ends == "error":
                raise BodyError
            if self.schedule.body_ends.startswith("cancelled"):
                self.cancel_body()

    async def work(self, index: int, work: Work, tasks: Tasks) -> int:
        self.record.begun.append(index)
        self.record.running += 1
        try:
            if work.awaits_former and index > 0:
                await self.learn_of(index - 1)
            await self.pass_working_time(work)
        except EndedPolitelyError:
            return -1
        finally:
            self.record.running -= 1
            if work.starts_another:
                another = Work(
                    steps=0, ends="never", is_polite=False, awaits_former=False, starts_another=False
                )
                self.record.handles.append(tasks.start(self.work, len(self.record.handles), another, tasks))
        if work.ends == "error":
            raise WorkError(index)
        return index

    async def pass_working_time(self, work: Work) -> None:
        for _ in range(work.steps if work.ends != "never" else LONG):
            await checkpoint()
            if work.is_polite and cancel_requested():
                raise EndedPolitelyError
        if work.ends == "never":
            self.record.worked_for_ever = True

    async def learn_of(self, target: int) -> None:
        try:
            outcome: object = await self.record.handles[target]
        except (WorkError, TaskCancelledError) as error:
            outcome = error
        self.record.delivered.append((target, outcome))

    async def wait(self, waiting: Waiting) -> None:
        await pass_time(waiting.begins)
        if waiting.is_cancelled_natively and is_on_asyncio():
            task = asyncio.create_task(self.learn(waiting.target, anyio.CancelScope()))
            await pass_time(waiting.patience)
            task.cancel()
            await asyncio.wait([task])
            return
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(self.learn, waiting.target, task_group.cancel_scope)
                await pass_time(waiting.patience)
                scope.cancel()

    async def learn(self, target: int, scope: anyio.CancelScope) -> None:
        await self.learn_of(target)
        scope.cancel()

    async def stop(self, stop: Stop) -> None:
        await pass_time(stop.begins)
        handle = self.record.handles[stop.target]
        if stop.is_graceful:
            await handle.cancel_gracefully(0, "grace")
        else:
            handle.cancel("at once")

    async def end_at_last(self) -> None:
        """Cancel until all have ended, since some start others while they end."""
        await pass_time(30)
        while any(handle.status in ("pending", "running") for handle in self.record.handles):
            for handle in self.record.handles:
                handle.cancel("at last")
            await checkpoint()


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    return [
        leaf
        for error in group.exceptions
        for leaf in (_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]


@given(schedule=schedules())
async def test_every_task_ends_once_and_no_failure_is_lost(schedule: Schedule) -> None:
    play = Play(schedule)
    with open_task_root("run"):
        await play.run()
    record = play.record
    assert record.running == 0
    assert not record.worked_for_ever
    assert len(record.begun) == len(set(record.begun))
    for index, handle in enumerate(record.handles):
        assert handle.status in ("completed", "failed", "cancelled")
        if index not in record.begun:
            assert handle.status == "cancelled"
        learned = [outcome for target, outcome in record.delivered if target == index]
        if handle.status == "failed":
            failures = [error for error in record.raised if error.args == (index,)]
            assert failures or learned
            learned_inside = [target for target, _ in record.delivered[: record.delivered_inside]]
            assert len(failures) <= (index not in learned_inside)
            assert {type(each) for each in learned} <= {WorkError}
        elif handle.status == "cancelled":
            assert {type(each) for each in learned} <= {TaskCancelledError}
        else:
            assert set(learned) <= {index, -1}
    assert any(isinstance(error, BodyError) for error in record.raised) == (schedule.body_ends == "error")


@given(schedule=schedules(ends_of_body=("normally",), at_ends=("cancel",)))
async def test_a_block_that_cancels_at_its_end_leaves_nobody_at_work(schedule: Schedule) -> None:
    play = Play(schedule)
    with open_task_root("run"):
        await play.run()
    assert not play.record.worked_for_ever


@given(schedule=schedules())
async def test_ids_depend_on_nothing_but_the_order_of_starting(schedule: Schedule) -> None:
    play = Play(schedule)
    with open_task_root("run"):
        await play.run()
    works = len(schedule.works)
    assert [handle.id for handle in play.record.handles[:works]] == [
        f"run/tasks[0]/work[{index}]" for index in range(works)
    ]
