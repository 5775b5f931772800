"""Pools under schedules nobody would think of: every job ends once, no worker and no place is lost."""

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import anyio
import pytest
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

from nighthawk_async.actors import (
    Backpressure,
    JobHandle,
    Pool,
    PoolClosedError,
    PoolDeadlockError,
    PoolFullError,
    QueueOrder,
)
from nighthawk_async.actors.pool_queue import PoolQueue

pytestmark = pytest.mark.anyio

ORDERS: st.SearchStrategy[QueueOrder] = st.sampled_from(("fifo", "lifo", "priority", "fair_round_robin"))
BACKPRESSURES: st.SearchStrategy[Backpressure] = st.sampled_from(
    ("block", "drop_oldest", "drop_newest", "fail", "fail_fast", "ring_buffer")
)
MOSTLY_BLOCKING: st.SearchStrategy[Backpressure] = st.one_of(
    st.just("block"), st.just("block"), BACKPRESSURES
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Item:
    """Something that waits for a worker."""

    key: Hashable
    priority: int


class PlainQueue:
    """What `PoolQueue` does, by looking at everything each time."""

    def __init__(self, max_concurrent: int, order: QueueOrder, policy: Backpressure, max_queued: int) -> None:
        self.max_concurrent = max_concurrent
        self.order = order
        self.policy = policy
        self.max_queued = 0 if policy == "fail_fast" else max_queued
        self.running = 0
        self.queued: list[Item] = []
        self.blocked: list[Item] = []
        self.turns: list[Hashable] = []

    def place(self, item: Item) -> tuple[str, Item | None]:
        if self.running < self.max_concurrent:
            self.running += 1
            return "started", None
        evicted = None
        if len(self.queued) >= self.max_queued:
            if self.policy not in ("drop_oldest", "ring_buffer"):
                return {"block": "blocked", "drop_newest": "rejected"}.get(self.policy, "refused"), None
            evicted = self.queued[0]
            self.remove(evicted)
        self.queued.append(item)
        if item.key not in self.turns:
            self.turns.append(item.key)
        return "queued", evicted

    def pop(self) -> Item:
        item = {
            "fifo": lambda: self.queued[0],
            "lifo": lambda: self.queued[-1],
            "priority": lambda: max(self.queued, key=lambda item: item.priority),
            "fair_round_robin": lambda: next(item for item in self.queued if item.key == self.turns[0]),
        }[self.order]()
        turn = self.turns.index(item.key)
        self.remove(item)
        if item.key in self.turns:
            self.turns.append(self.turns.pop(turn))
        return item

    def remove(self, item: Item) -> None:
        self.queued.remove(item)
        if all(other.key != item.key for other in self.queued):
            self.turns.remove(item.key)


STEPS = st.one_of(
    st.tuples(st.just("place"), st.integers(0, 3), st.integers(-2, 2)),
    st.tuples(st.just("place"), st.integers(0, 3), st.integers(-2, 2)),
    st.tuples(st.just("free"), st.just(0), st.just(0)),
    st.tuples(st.just("withdraw"), st.integers(0, 20), st.just(0)),
)


@given(
    max_concurrent=st.integers(1, 3),
    order=ORDERS,
    policy=BACKPRESSURES,
    max_queued=st.integers(1, 4),
    steps=st.lists(STEPS, min_size=15, max_size=40),
)
def test_a_queue_does_what_looking_at_everything_each_time_does(
    max_concurrent: int,
    order: QueueOrder,
    policy: Backpressure,
    max_queued: int,
    steps: list[tuple[str, int, int]],
) -> None:
    queue: PoolQueue[Item] = PoolQueue(
        max_concurrent=max_concurrent, order=order, backpressure=policy, max_queued=max_queued
    )
    plain = PlainQueue(max_concurrent, order, policy, max_queued)
    for action, number, priority in steps:
        if action == "place":
            item = Item(key=number, priority=priority)
            placement = queue.place(item)
            assert (placement.where, placement.evicted) == plain.place(item)
            if placement.where == "blocked":
                queue.block(item)
                plain.blocked.append(item)
        elif action == "free" and plain.running:
            queue.free_worker()
            plain.running -= 1
        elif action == "withdraw" and (plain.queued or plain.blocked):
            item = (plain.queued + plain.blocked)[number % len(plain.queued + plain.blocked)]
            assert queue.withdraw(item)
            assert not queue.withdraw(item)
            plain.blocked.remove(item) if item in plain.blocked else plain.remove(item)
        advance(queue, plain)
        assert (queue.running, queue.queued, queue.blocked) == (
            plain.running,
            len(plain.queued),
            len(plain.blocked),
        )
        assert queue.running == max_concurrent or not queue.queued, "a worker is idle while something waits"
        assert queue.queued == plain.max_queued or not queue.blocked, "a place is free while somebody waits"


def advance(queue: PoolQueue[Item], plain: PlainQueue) -> None:
    """Let both give free workers and places away."""
    while (started := queue.next_started()) is not None:
        assert started is plain.pop()
        plain.running += 1
    assert not plain.queued or plain.running == plain.max_concurrent
    while (admitted := queue.next_admitted()) is not None:
        assert admitted is plain.blocked.pop(0)
        assert (queue.place(admitted).where, None) == plain.place(admitted)


@dataclass(kw_only=True, eq=False)
class Submission:
    """A task that submits a job, and the job, which may submit another one and wait for it."""

    number: int
    key: int
    is_keyed: bool
    outcome: Literal["waiting", "submitted", "refused", "cancelled"] = "waiting"
    handle: JobHandle[int] | None = None
    begun: int = 0
    end: Literal["none", "returned", "raised", "cancelled"] = "none"
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    may_end: anyio.Event = field(default_factory=anyio.Event)
    raises: bool = False
    child: "Submission | None" = None


class World:
    """A pool, those who submit to it, those who await its handles, and what must be true of them."""

    def __init__(self, pool: Pool, *, max_queued: int) -> None:
        self.pool = pool
        self.max_queued = max_queued
        self.submissions: list[Submission] = []
        self.running = 0
        self.waiters = 0
        self.waits: list[anyio.CancelScope] = []

    async def job(self, submission: Submission) -> int:
        """What is submitted."""
        submission.begun += 1
        self.running += 1
        assert self.running <= self.pool.statistics().running
        try:
            if submission.child is not None:
                await self.run_child(submission.child)
            await submission.may_end.wait()
        except BaseException:
            submission.end = "cancelled"
            raise
        finally:
            self.running -= 1
        submission.end = "raised" if submission.raises else "returned"
        if submission.raises:
            raise OSError(submission.number)
        return submission.number

    async def run_child(self, child: Submission) -> None:
        """Submit a job from inside another one, and wait for it."""
        self.submissions.append(child)
        await self.submit(child)
        if child.handle is not None:
            with suppress(PoolDeadlockError):
                await child.handle.wait_ended()

    async def submit(self, submission: Submission) -> None:
        """Submit a job."""
        with submission.scope:
            try:
                submission.handle = await self.pool.submit(
                    self.job,
                    submission,
                    key=submission.key,
                    priority=submission.key,
                    idempotency_key=submission.key if submission.is_keyed else None,
                )
                submission.outcome = "submitted"
            except (PoolFullError, PoolClosedError, PoolDeadlockError):
                submission.outcome = "refused"
            finally:
                if submission.outcome == "waiting":
                    submission.outcome = "cancelled"

    async def wait_for(self, handle: JobHandle[int], scope: anyio.CancelScope) -> None:
        """Wait for a job, until it has ended or the wait is cancelled."""
        self.waiters += 1
        with scope:
            await handle.wait_ended()
            assert handle.status not in ("queued", "running")
        self.waiters -= 1

    def handles(self) -> list[JobHandle[int]]:
        """Every handle there is, once."""
        return list(dict.fromkeys(each.handle for each in self.submissions if each.handle is not None))

    def act(self, task_group: TaskGroup, action: str, number: int) -> None:
        """Let something happen."""
        handles = self.handles()
        alive = [handle for handle in handles if handle.status in ("queued", "running")] or handles
        if action in ("submit", "submit keyed", "submit parent"):
            submission = self.make_submission(number % 3, is_keyed=action == "submit keyed")
            if action == "submit parent":
                submission.child = self.make_submission(number // 3 % 3, is_keyed=number % 2 == 0)
            self.submissions.append(submission)
            task_group.start_soon(self.submit, submission)
        elif not self.submissions:
            return
        elif action in ("return", "raise"):
            submission = self.submissions[number % len(self.submissions)]
            submission.raises = submission.raises or action == "raise"
            submission.may_end.set()
        elif action == "cancel submitter":
            waiting = [each for each in self.submissions if each.outcome == "waiting"] or self.submissions
            waiting[number % len(waiting)].scope.cancel()
        elif action == "cancel wait":
            if self.waits:
                self.waits[number % len(self.waits)].cancel()
        elif handles and action == "cancel job":
            alive[number % len(alive)].cancel()
        elif handles:
            self.waits.append(anyio.CancelScope())
            task_group.start_soon(self.wait_for, handles[number % len(handles)], self.waits[-1])

    def make_submission(self, key: int, *, is_keyed: bool) -> Submission:
        """A submission that has not begun."""
        return Submission(number=len(self.submissions), key=key, is_keyed=is_keyed)

    def check(self) -> None:
        """Check what is always true."""
        figures = self.pool.statistics()
        ended = figures.completed + figures.failed + figures.rejected + figures.cancelled
        assert figures.submitted == figures.queued + figures.running + ended
        assert figures.running == self.pool.max_concurrent or not figures.queued
        assert figures.queued == self.max_queued or not figures.waiting_submitters

    def check_settled(self) -> None:
        """Check a moment in which every task waits."""
        self.check()
        figures = self.pool.statistics()
        handles = self.handles()
        assert self.running == figures.running
        assert len(handles) == figures.submitted
        waiting = [each for each in self.submissions if each.outcome == "waiting"]
        keyed = {each.key for each in waiting if each.is_keyed}
        assert figures.waiting_submitters == len(keyed) + sum(not each.is_keyed for each in waiting)

    def check_end(self) -> None:
        """Check that every job ended in the way its handle says, and ran at most once."""
        self.check()
        figures = self.pool.statistics()
        assert (figures.queued, figures.running, figures.waiting_submitters) == (0, 0, 0)
        assert (self.running, self.waiters) == (0, 0)
        assert all(each.outcome != "waiting" for each in self.submissions)
        assert all(each.begun <= 1 for each in self.submissions)
        assert sum(each.begun for each in self.submissions) == sum(
            each.end != "none" for each in self.submissions
        )
        statuses = [handle.status for handle in self.handles()]
        for end, status, count in (
            ("returned", "completed", figures.completed),
            ("raised", "failed", figures.failed),
        ):
            assert sum(each.end == end for each in self.submissions) == statuses.count(status) == count
        assert all((handle.error is None) == (handle.status == "completed") for handle in self.handles())


NUMBER = st.integers(0, 30)
CROWD = 5  # those who submit before anything else happens: more than there is room for
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(("submit", "submit keyed")), NUMBER),
    st.tuples(st.sampled_from(("submit", "submit keyed")), NUMBER),
    st.tuples(st.sampled_from(("submit", "submit parent", "return", "raise")), NUMBER),
    st.tuples(st.sampled_from(("cancel job", "cancel submitter", "wait", "cancel wait")), NUMBER),
    st.tuples(st.sampled_from(("turn", "settle")), NUMBER),
)


async def settle() -> None:
    """Let every task go on until it waits for something that only the test can give."""
    for _ in range(15):
        await checkpoint()


@given(
    max_concurrent=st.integers(1, 2),
    order=ORDERS,
    policy=MOSTLY_BLOCKING,
    max_queued=st.integers(1, 2),
    schedule=st.lists(ACTIONS, min_size=15, max_size=40),
    closes_after=st.none() | st.integers(0, 40),
    leaving=st.sampled_from(("wait", "cancel", "raise")),
)
async def test_no_schedule_loses_a_job_runs_one_twice_or_leaves_one_running(
    max_concurrent: int,
    order: QueueOrder,
    policy: Backpressure,
    max_queued: int,
    schedule: list[tuple[str, int]],
    closes_after: int | None,
    leaving: str,
) -> None:
    pool = Pool(max_concurrent=max_concurrent, queue=order, backpressure=policy, max_queued=max_queued)
    world = World(pool, max_queued=max_queued)

    async def use(task_group: TaskGroup, scope: anyio.CancelScope) -> None:
        async with pool:
            for _ in range(CROWD):
                world.act(task_group, "submit", 0)
            await settle()
            for step, (action, number) in enumerate(schedule):
                if step == closes_after:
                    pool.close()
                if action == "turn":
                    await checkpoint()
                elif action == "settle":
                    await settle()
                    world.check_settled()
                else:
                    world.act(task_group, action, number)
                    world.check()
            await settle()
            world.check_settled()
            if leaving == "raise":
                raise ZeroDivisionError
            if leaving == "cancel":
                scope.cancel()
                return
            for submission in world.submissions:
                submission.may_end.set()

    with anyio.fail_after(240):
        async with anyio.create_task_group() as task_group:
            with anyio.CancelScope() as scope:
                with suppress(ZeroDivisionError):
                    await use(task_group, scope)
            assert world.running == 0, "something runs after the pool"
            assert all(handle.status not in ("queued", "running") for handle in world.handles())
    world.check_end()
