"""A pool: a bounded number of workers shared by many submitters.

    async with Pool(max_concurrent=8, name="crawl") as pool:
        handle = await pool.submit(fetch, "https://example.com/")
        page = await handle

    pool = find_pool("crawl")       # anywhere inside

Not for several threads: everything happens on one event loop.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from contextvars import Context, copy_context
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, TypeVarTuple, cast

from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from ..placements import Placement, call_placed, checked_placement
from .errors import NameConflictError, PoolClosedError
from .namespaces import Family, Namespace, NamespaceKind, find_namespace
from .nodes import begin_pool, end_pool
from .ordering import DONE, REFUSED, begin_turn, find_orders, name_object
from .pool_job import Job, JobHandle
from .pool_jobs import PoolJobs, PoolStatistics, Submitted, run_job
from .pool_queue import Backpressure, PoolQueue, QueueOrder
from .task_group import BareTaskGroup

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class Pool:
    """Runs jobs, a bounded number at a time. Use it once, with `async with`.

    Every job is a task of the pool, in a copy of the submitter's context variables at the time of submission.
    Nothing else ties it to the submitter: not its deadlines, its cancellation or its end. An object that a
    variable refers to, such as a namespace, may thus have ended when the job uses it.

    An exception that a job raises goes to those that await its handle: it neither ends the pool nor disturbs
    other jobs. When the handle of a failed job is dropped before anything asked how the job ended, a warning
    is logged. Only an exception that ends the program, such as Ctrl-C, ends the pool.

    Leaving the block waits for everything queued and running; meanwhile only jobs of the pool submit more.
    When the block raises or is cancelled, the rest is cancelled. Either way nothing runs afterwards, and
    every handle reports how its job ended.

    A job that waits for its own pool, awaiting another handle or blocked in `submit`, keeps its worker. If
    all workers were kept that way, none would ever be free; jobs that await each other in a circle never end.
    The call that would complete such a deadlock raises `PoolDeadlockError`, even if another task would cancel
    it later, which cannot be known. A wait with a deadline of its own, such as `with anyio.fail_after(...)`
    inside the job, ends anyway and is allowed. (Circles through several pools are not detected.)

    Args:
        max_concurrent: The greatest number of jobs that run at the same time.
        name: The name for `find_pool`; also the first part of the ids of its jobs. None for no name.
        scope: The kind of scope that the name belongs to; None for the innermost one around the block.
        queue: The order of queued jobs; see `QueueOrder`.
        backpressure: The policy when no worker is free and the queue is full; see `Backpressure`.
        max_queued: The greatest number of queued jobs; None for no limit. With zero, no job waits for a
            worker. Ignored by `fail_fast`.
        placement: The placement of the jobs, such as `nighthawk_async.distributed.Processes`; None for this
            event loop.
        on: The same as `placement`, by the name that the combinators give it.

    Raises:
        ValueError: An argument has an invalid value.
        TypeError: `placement` is no placement.
    """

    def __init__(
        self,
        *,
        max_concurrent: int,
        name: str | None = None,
        scope: NamespaceKind | None = None,
        queue: QueueOrder = "fifo",
        backpressure: Backpressure = "block",
        max_queued: int | None = 256,
        placement: Placement | None = None,
        on: Placement | None = None,
    ) -> None:
        if placement is not None and on is not None:
            raise ValueError("placement= and on= of a pool are the same: give one of them")
        limits = PoolQueue[Job[Any]](
            max_concurrent=max_concurrent, order=queue, backpressure=backpressure, max_queued=max_queued
        )
        self._jobs = PoolJobs(limits, pool=name or "pool", start=self._start)
        self._max_concurrent = max_concurrent
        self._placement = checked_placement(on if placement is None else placement)
        self._name = name
        self._place = name_object("pool", name)
        self._submissions: Counter[str] = Counter()
        self._scope: NamespaceKind | None = scope
        self._namespace: Namespace | None = None
        self._bare_group = BareTaskGroup()
        self._group: TaskGroup | None = None

    def __repr__(self) -> str:
        figures = self.statistics()
        state = "closed" if self.is_closed else "open"
        return f"<{self._label()}, {state}, {figures.running} running, {figures.queued} queued>"

    @property
    def name(self) -> str | None:
        """The name of the pool; None for no name."""
        return self._name

    @property
    def max_concurrent(self) -> int:
        """The greatest number of jobs that run at the same time."""
        return self._max_concurrent

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more jobs from outside. Its own jobs may still submit until it is left."""
        return self._jobs.is_closed

    async def submit(
        self,
        function: Callable[[*Arguments], Awaitable[Result]],
        *args: *Arguments,
        key: Hashable = None,
        priority: int = 0,
        idempotency_key: Hashable = None,
    ) -> JobHandle[Result]:
        """Submit a job. Waits for room only if the backpressure is `block`.

        Waiting submitters are served in the order of asking, whatever the order of the queue. A cancelled
        wait has submitted nothing. (If a task is cancelled by asyncio itself rather than by a cancel scope,
        after its job was taken and before it runs again, the job counts as cancelled; it was not started.)

        Args:
            function: An async function.
            args: Its arguments; `functools.partial` takes keyword arguments.
            key: The fairness key; jobs of different keys alternate. Jobs without a key share one.
            priority: The priority, for a queue ordered by it; the highest is first.
            idempotency_key: Submitting again with the same key returns the same handle and calls nothing:
                while the job is queued or running, and after it has ended. Of ended jobs, the 1,024 keys that
                ended or were requested last are remembered. A key is free again when the body never ran: the
                job was rejected, or cancelled before it started.

        Returns:
            The handle. It is `rejected` already if the backpressure drops the newest.

        Raises:
            PoolClosedError: The pool is not entered, is closed, or was closed while waiting for room.
            PoolDeadlockError: A job of this pool would wait for room for ever.
            PoolFullError: There is no free slot, and the backpressure is `fail` or `fail_fast`.
            TypeError: A key is not hashable, or the priority is not a whole number.
        """
        await checkpoint()
        turn = begin_turn(self._place, "submissions")
        if turn is not None:
            try:
                await turn.wait()
                submitted = self._find_or_make(function, args, key, priority, idempotency_key)
                turn.end(DONE)
            except Exception:
                turn.end(REFUSED)
                raise
            finally:
                turn.leave()
        else:
            submitted = self._find_or_make(function, args, key, priority, idempotency_key)
        if submitted.job.phase == "blocked":
            await self._jobs.wait_for_place(submitted.job)
        return submitted.hand_out()

    def submit_nowait(
        self,
        function: Callable[[*Arguments], Awaitable[Result]],
        *args: *Arguments,
        key: Hashable = None,
        priority: int = 0,
        idempotency_key: Hashable = None,
    ) -> JobHandle[Result]:
        """Submit a job at once. The arguments are those of `submit`.

        Raises:
            PoolClosedError: The pool is not entered, or closed.
            PoolFullError: There is no free slot, and the backpressure drops nothing.
            TypeError: A key is not hashable, or the priority is not a whole number.
        """
        submitted = self._find_or_make(function, args, key, priority, idempotency_key)
        if submitted.job.phase == "blocked":
            raise self._jobs.leave_waiting(submitted.job)
        return submitted.hand_out()

    def close(self) -> None:
        """Take no more jobs from outside. Submitted jobs still run; waiting submitters fail.

        Calling it again has no effect.
        """
        self._jobs.close()

    def statistics(self) -> PoolStatistics:
        """Return the current statistics."""
        return self._jobs.statistics()

    async def __aenter__(self) -> Self:
        if self._group is not None or self.is_closed:
            raise PoolClosedError(f"the {self._label()} was entered or closed before")
        self._take_name()
        self._group = await self._bare_group.__aenter__()
        self._jobs.node = begin_pool(self._name, self._max_concurrent)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self.close()
        if exc is not None:
            self._jobs.abort()
        leaving = exc
        try:
            return await self._bare_group.__aexit__(exc_type, exc, traceback)
        except BaseException as error:
            leaving = error
            raise
        finally:
            self._jobs.abort()
            self._jobs.end_unstarted()
            self._free_name()
            end_pool(self._jobs.node, leaving)

    def _find_or_make(
        self,
        function: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        key: Hashable,
        priority: int,
        idempotency_key: Hashable,
    ) -> Submitted:
        hash((key, idempotency_key))  # raises before anything has changed
        if not isinstance(priority, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the priority of a job is a whole number, not {priority!r}")
        if self._group is None:
            raise PoolClosedError(f"the {self._label()} is not entered")
        self._jobs.check_open()
        known = self._jobs.find(idempotency_key)
        if known is not None:
            return known
        if self._placement is not None:
            function = partial(call_placed, self._placement, function)
        job = Job(
            self._jobs,
            function,
            args,
            context=copy_context(),
            key=key,
            priority=priority,
            idempotency_key=idempotency_key,
        )
        job.order_name = self._name_job()
        return self._jobs.submit(job)

    def _name_job(self) -> str | None:
        """The name of a job of the caller, for the orders of operations; None where they are not kept."""
        orders = find_orders()
        claimant = None if orders is None else orders.find_claimant()
        if claimant is None:
            return None
        self._submissions[claimant] += 1
        return f"{self._place}/job({claimant},{self._submissions[claimant]})"

    def _start(self, job: Job[Any]) -> None:
        # The new task copies the context in which it is started.
        group, context = cast("TaskGroup", self._group), cast("Context", job.context)
        context.run(group.start_soon, self._run, job, name=job.id)

    async def _run(self, job: Job[Any]) -> None:
        orders = find_orders()
        if orders is not None and job.order_name is not None:
            orders.enter_task(job.order_name)
        try:
            await run_job(job)
        except BaseException:  # cancelled from outside, or the program ends
            self._jobs.abort()
            raise
        finally:
            if orders is not None and job.order_name is not None:
                orders.end_task(job.order_name)
            self._jobs.end(job)

    def _take_name(self) -> None:
        if self._name is None:
            return
        namespace = find_namespace(self._scope)
        if namespace.get_or_add(_POOLS, self._name, lambda: self) is not self:
            raise NameConflictError(f"the name {self._name!r} is already used by another pool")
        self._namespace = namespace

    def _free_name(self) -> None:
        namespace, name = self._namespace, self._name
        if namespace is not None and name is not None and namespace.find(_POOLS, name) is self:
            namespace.remove(_POOLS, name)

    def _label(self) -> str:
        return "pool" if self._name is None else f"pool {self._name!r}"


_POOLS: Family[Pool] = Family(title="pool", close=Pool.close)


def find_pool(name: str) -> Pool | None:
    """Return the pool of a name, from its entry until it is left; None when no scope around has one.

    Of several with the same name it is that of the innermost scope.
    """
    return find_namespace().search(_POOLS, name)
