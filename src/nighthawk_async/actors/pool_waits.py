"""Which running jobs of a pool wait for the pool itself, and when that can never end. Floor 1.

A job that awaits the handle of another job of its pool, or submits to its pool and is blocked, holds a worker
while it waits. When every worker is held so, none of them is ever free again. Each such wait is therefore
registered, and the one that would make it so raises instead.

It does not know what is waited for: the pool and its jobs say that.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Protocol

import anyio

from .pool_errors import PoolDeadlockError

__all__ = ["PoolWait", "PoolWaits", "Worker", "current_worker"]


class Worker(Protocol):
    """A job, as far as it matters here."""

    @property
    def id(self) -> str:
        """Which job it is."""
        ...

    @property
    def phase(self) -> str:
        """How far it is."""
        ...

    @property
    def is_asked_to_end(self) -> bool:
        """Whether its cancellation is under way."""
        ...

    @property
    def task_id(self) -> int | None:
        """Which task runs it."""
        ...

    @property
    def waits_of_pool(self) -> "PoolWaits":
        """The waits of its pool."""
        ...


current_worker: ContextVar[Worker | None] = ContextVar("nighthawk_async_pool_job", default=None)
"""The job in which the caller runs, also in tasks that the job started."""


class PoolWait:
    """A task of a running job waits for its pool. Ending it twice is fine."""

    __slots__ = ("_task", "_waits", "_worker")

    def __init__(self, waits: "dict[Worker, list[PoolWait]]", worker: Worker) -> None:
        self._waits = waits
        self._worker = worker
        self._task = anyio.get_current_task()

    def end(self) -> None:
        """What was waited for is there, or the wait was cancelled."""
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

    def begin(self, target: object) -> PoolWait | None:
        """Register that the caller waits for the pool; None when the caller is no job of it.

        Args:
            target: The job that is waited for.

        Raises:
            PoolDeadlockError: The caller is that job, or every worker waits for the pool now.
        """
        worker = self.find_worker()
        if worker is None:
            return None
        if worker is target:
            raise PoolDeadlockError(f"job {worker.id} waits for its own end, which would never come")
        wait = PoolWait(self._waits, worker)
        self._waits.setdefault(worker, []).append(wait)
        if self._is_stuck():
            wait.end()
            raise PoolDeadlockError(
                f"job {worker.id} waits for its own pool, as do all {self._max_concurrent} that run: "
                "none of them would ever end"
            )
        return wait

    def forget(self, worker: Worker) -> None:
        """A job has ended. What its tasks wait for, if some live on, holds no worker."""
        self._waits.pop(worker, None)

    def _is_stuck(self) -> bool:
        if len(self._waits) < self._max_concurrent:
            return False
        parents = {task.id: task.parent_id for task in anyio.get_running_tasks()}
        return all(
            not worker.is_asked_to_end and any(wait.holds_worker(parents) for wait in waits)
            for worker, waits in self._waits.items()
        )
