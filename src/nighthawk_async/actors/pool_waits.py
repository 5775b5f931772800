"""Running jobs that wait for their own pool, and the detection of waits that can never end.

A job that awaits the handle of another job of its pool, or submits to its pool and is blocked, holds a worker
while it waits. When every worker is held so, none of them is ever free again; and jobs that wait for each
other in a circle never end, whatever is free. Each such wait is therefore registered, and the one that would
make it so raises instead.

A wait with a deadline of its own, inside the job, ends anyway and does not count. One whose only deadline is
around the pool counts: it would end with everything else that the pool does. That somebody might cancel a
wait later cannot be known; until then it counts.
"""

import math
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Protocol

import anyio
from anyio import TaskInfo

from .errors import PoolDeadlockError


class Worker(Protocol):
    """A job, as far as it matters here."""

    @property
    def id(self) -> str:
        """The id of the job."""
        ...

    @property
    def phase(self) -> str:
        """The phase of the job."""
        ...

    @property
    def task_id(self) -> int | None:
        """The id of the task that runs it."""
        ...

    @property
    def deadline(self) -> float:
        """The time of a deadline of the pool's parent scope, by the clock of the loop; infinity for none."""
        ...

    @property
    def waits_of_pool(self) -> "PoolWaits":
        """The waits of its pool."""
        ...


current_worker: ContextVar[Worker | None] = ContextVar("nighthawk_async_pool_job", default=None)
"""The job in which the caller runs, also in tasks that the job started."""


class PoolWait:
    """A task of a running job waits for its pool. Ending it twice is fine.

    Args:
        waits: All waits of the pool.
        worker: The job.
        target: The job that is waited for, or for which there is no place yet.
    """

    __slots__ = ("_task", "_waits", "_worker", "target")

    def __init__(self, waits: "dict[Worker, list[PoolWait]]", worker: Worker, target: Worker) -> None:
        self.target = target
        self._waits = waits
        self._worker = worker
        self._task = anyio.get_current_task()

    def end(self) -> None:
        """End the wait: its object is there, or it was cancelled."""
        waits = self._waits.get(self._worker, [])
        if self in waits:
            waits.remove(self)
            if not waits:
                del self._waits[self._worker]

    def holds_worker(self, parents: Mapping[int, int | None]) -> bool:
        """Whether the job cannot end before the wait does.

        A task that is being cancelled goes on anyway; one that the job started in a task group around itself
        may outlive the job.

        Args:
            parents: The ids of all tasks, and of the tasks whose task groups they run in.
        """
        if self._task.has_pending_cancellation():
            return False
        task_id: int | None = self._task.id
        while task_id is not None and task_id != self._worker.task_id:
            task_id = parents.get(task_id)
        return task_id is not None


class PoolWaits:
    """The waits of the jobs of one pool.

    Args:
        max_concurrent: How many jobs run at most.
    """

    def __init__(self, max_concurrent: int) -> None:
        self._max_concurrent = max_concurrent
        self._waits: dict[Worker, list[PoolWait]] = {}

    def find_worker(self) -> Worker | None:
        """The running job of this pool in which the caller runs; None when it runs in none."""
        worker = current_worker.get()
        if worker is None or worker.waits_of_pool is not self or worker.phase != "running":
            return None
        return worker

    def begin(self, target: Worker) -> PoolWait | None:
        """Register that the caller waits for the pool; None when the caller is no job of it.

        Args:
            target: The job that is waited for, or for which there is no place yet.

        Raises:
            PoolDeadlockError: The wait closes a circle, or every worker waits for the pool now.
        """
        worker = self.find_worker()
        if worker is None:
            return None
        wait = PoolWait(self._waits, worker, target)
        if worker.deadline != anyio.current_effective_deadline() < math.inf:
            return wait  # a deadline inside the job ends it
        self._waits.setdefault(worker, []).append(wait)
        try:
            self._check(worker)
        except PoolDeadlockError:
            wait.end()
            raise
        return wait

    def forget(self, worker: Worker) -> None:
        """A job has ended. What its tasks wait for, if some live on, holds no worker."""
        self._waits.pop(worker, None)

    def _check(self, worker: Worker) -> None:
        if len(self._waits) < self._max_concurrent and not self._find_circle(worker, lambda wait: True):
            return
        parents = {task.id: task.parent_id for task in anyio.get_running_tasks()}  # slow where there are many
        if circle := self._find_circle(worker, lambda wait: wait.holds_worker(parents)):
            way = " -> ".join(job.id for job in circle)
            raise PoolDeadlockError(f"jobs would wait for each other for ever: {way}")
        if len(self._waits) == self._max_concurrent and all(
            any(wait.holds_worker(parents) for wait in waits) for waits in self._waits.values()
        ):
            raise PoolDeadlockError(
                f"job {worker.id} waits for its own pool, as do all {self._max_concurrent} that run: "
                "none of them would ever end"
            )

    def _find_circle(self, worker: Worker, counts: Callable[[PoolWait], bool]) -> list[Worker]:
        """The jobs from `worker` to `worker` of which each waits for the next; empty when there are none.

        Args:
            worker: The job.
            counts: Which waits are looked at.
        """
        reached_from: dict[Worker, Worker] = {}
        unseen = [worker]
        while unseen and worker not in reached_from:
            job = unseen.pop()
            for wait in self._waits.get(job, ()):
                if wait.target not in reached_from and counts(wait):
                    reached_from[wait.target] = job
                    unseen.append(wait.target)
        if worker not in reached_from:
            return []
        circle = [worker, reached_from[worker]]
        while circle[-1] is not worker:
            circle.append(reached_from[circle[-1]])
        return circle[::-1]


class Admission:
    """Those who wait for a place for one job."""

    __slots__ = ("_event", "_tasks", "_waits", "is_refused")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._tasks: list[TaskInfo] = []
        self._waits: list[PoolWait] = []
        self.is_refused = False

    @property
    def is_given_up(self) -> bool:
        """Whether nobody waits any more."""
        return not self._tasks

    @property
    def is_from_inside(self) -> bool:
        """Whether a job of the pool waits."""
        return bool(self._waits)

    def is_wanted(self) -> bool:
        """Whether somebody waits whose cancellation is not under way."""
        return any(not task.has_pending_cancellation() for task in self._tasks)

    async def wait(self, wait: PoolWait | None) -> None:
        """Wait until it is decided.

        Args:
            wait: What says that the caller is a job of the pool; None when it is none.
        """
        task = anyio.get_current_task()
        self._tasks.append(task)
        if wait is not None:
            self._waits.append(wait)
        try:
            await self._event.wait()
        finally:
            self._tasks.remove(task)
            if wait is not None:
                wait.end()
                self._waits.remove(wait)

    def decide(self, *, refused: bool) -> None:
        """Wake those who wait: the pool has taken the job, or refuses it."""
        self.is_refused = refused
        for wait in self._waits:
            wait.end()
        self._event.set()
