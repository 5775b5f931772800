"""Workers: they make the calls of a queue, each in a durable run of its own."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Struct

from ..actors import BareTaskGroup
from ..errors import NighthawkError
from ..kernel.reports import QueueLifeEnded
from ..tracing import note_event
from . import queue_claims, tables, topic_starts
from .claim_turns import ClaimTurns
from .database import Database
from .errors import JournalStoreError
from .holders import is_alive, process_name
from .key_table import check_keys
from .listeners import FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS
from .located import StoreLocation, store_at
from .process_calls import claiming, note_calls
from .queue_claims import ClaimedEntry
from .queued_call import function_name
from .queued_life import EndKind, LifeEnd, RunFactory, interrupted, live, settle
from .queues import check_queue, enqueue_scheduled
from .store import JournalStore
from .worker_health import WorkerApplication, WorkerStatistics

_logger = logging.getLogger("nighthawk")

_FIRST_STORE_PAUSE_SECONDS = 0.5
_MOST_STORE_PAUSE_SECONDS = 15.0
"""The time between attempts to reach a store that cannot be reached."""


class Worker:
    """A worker: it makes the calls of a queue, each in a durable run of its own.

        worker = nh.journal.Worker(
            store, [handle], run=lambda run_id: nh.run(executor, journal=store, run_id=run_id)
        )
        await worker.serve()

    Any number of workers, in any processes, may serve one queue. Calls of other functions stay in the queue.
    The entries of workers that crash, hang or lose the store are taken over by other workers, which continue
    the runs from their records.

    Args:
        store: The store, its path or its address.
        functions: The functions that it calls.
        run: Makes the run for a run id: `nighthawk_async.run` with the store as `journal` and that `run_id`.
        queue: The queue.
        max_concurrent: The greatest number of runs in progress.
        grace_seconds: The seconds that runs in progress get when the worker drains. Afterwards they are
            cancelled and go back into the queue.

    Raises:
        NighthawkError: Another process cannot import a function by its name, two have the same name, or
            another argument has a bad value.
    """

    def __init__(
        self,
        store: JournalStore | StoreLocation,
        functions: Sequence[Callable[..., Any]],
        *,
        run: RunFactory,
        queue: str = "default",
        max_concurrent: int = 8,
        grace_seconds: float = 30.0,
    ) -> None:
        check_queue(queue)
        if type(max_concurrent) is not int or max_concurrent < 1:
            raise NighthawkError(f"max_concurrent is a whole number of at least 1, not {max_concurrent!r}")
        if not grace_seconds >= 0:
            raise NighthawkError(f"grace_seconds is a number of at least 0, not {grace_seconds!r}")
        self._functions = {function_name(each): each for each in functions}
        if not functions or len(self._functions) < len(functions):
            raise NighthawkError("a worker needs at least one function, and each only once")
        self.store = store = store_at(store)
        self.queue = queue
        self.max_concurrent = max_concurrent
        self.grace_seconds = grace_seconds
        self._queues = store.queues
        self._make_run = run
        self._holder = process_name(uuid.uuid4().hex[:8])
        self._claims: dict[str, ClaimedEntry] = {}
        self._just_claimed: dict[str, ClaimedEntry] = {}  # which the event loop does not know of yet
        self._noting = threading.Lock()
        self._turns = ClaimTurns(queue, list(self._functions), self._holder)
        self._ends: dict[EndKind, int] = {}
        self._number_claimed = 0
        self._polled_at: float | None = None
        self._store_error = ""
        self._is_draining = self._is_serving = False
        self._failure: Exception | None = None
        self._looked_at = float("-inf")  # for what needs no look at every poll
        self._reported: set[str] = set()

    def __repr__(self) -> str:
        return f"Worker({self.store!r}, {sorted(self._functions)}, queue={self.queue!r})"

    @cached_property
    def app(self) -> WorkerApplication:
        """An ASGI application with the paths `/health` and `/metrics`."""
        return WorkerApplication(self.store, self.queue, self.statistics)

    def statistics(self) -> WorkerStatistics:
        """Return the present state."""
        return WorkerStatistics(
            claimed=self._number_claimed,
            running=len(self._claims),
            ended=self._ends.get("ended", 0),
            failed=self._ends.get("failed", 0),
            parked=self._ends.get("parked", 0),
            returned=self._ends.get("returned", 0),
            lost=self._ends.get("lost", 0),
            polled_at=self._polled_at,
            is_store_reachable=not self._store_error,
            store_error=self._store_error,
            is_draining=self._is_draining,
        )

    def drain(self) -> None:
        """Claim no more entries. `serve` returns when the runs in progress have ended; from any thread."""
        self._is_draining = True
        self._queues.wake(self.queue)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Claim entries and run them, until it is drained. It has started when it has read the queue once.

        A store that cannot be reached is tried again. When it is cancelled, so are the runs in progress,
        which go back into the queue.

        Raises:
            NighthawkError: The worker was drained before, serves already, or its runs are not durable.
            JournalKeyError: A key of the encryption is missing, or is another one.
            Exception: An error of the function that makes its runs.
        """
        if self._is_draining or self._is_serving:
            state = "was drained" if self._is_draining else "serves already"
            raise NighthawkError(f"this worker {state}; make another one")
        self._is_serving = True
        try:
            await self._serve(task_status)
        finally:
            self._is_serving = False
            note_calls(self._holder, 0, is_alone=False)
        if self._failure is not None:
            raise self._failure

    async def _serve(self, task_status: TaskStatus[None]) -> None:
        self._limiter = anyio.CapacityLimiter(self.max_concurrent)
        async with BareTaskGroup() as keeping:
            keeping.start_soon(self._keep_claims)
            async with BareTaskGroup() as runs:
                await self._poll(runs, task_status)
                with anyio.move_on_after(self.grace_seconds):
                    await self._wait_until_idle()
                runs.cancel_scope.cancel()
            keeping.cancel_scope.cancel()

    async def _poll(self, runs: TaskGroup, task_status: TaskStatus[None]) -> None:
        """Claim entries as long as there are any, and look for new ones again and again."""
        pause, store_pause = FIRST_PAUSE_SECONDS, _FIRST_STORE_PAUSE_SECONDS
        is_started = False
        while not self._is_draining:
            with self._queues.listening(self.queue) as changed:
                free = self.max_concurrent - len(self._claims)
                claimed: Sequence[ClaimedEntry] = ()
                try:
                    claimed = await self._claim(free) if free else ()
                except JournalStoreError as error:
                    self._note_store_error(error)
                    wait, store_pause = store_pause, min(2 * store_pause, _MOST_STORE_PAUSE_SECONDS)
                else:
                    store_pause = _FIRST_STORE_PAUSE_SECONDS
                    wait, pause = pause, min(2 * pause, MOST_PAUSE_SECONDS)
                for each in claimed:
                    runs.start_soon(self._work, each, runs)
                if not is_started:
                    is_started = True
                    task_status.started()
                if claimed:
                    wait = pause = FIRST_PAUSE_SECONDS
                with anyio.move_on_after(wait):
                    await changed.wait()
                    pause = FIRST_PAUSE_SECONDS
        self._turns.drain()
        self._note_calls()

    async def _claim(self, most: int) -> Sequence[ClaimedEntry]:
        looks = time.monotonic() - self._looked_at >= tables.LEASE_SECONDS / 3
        in_progress = list(self._claims.values())

        def claim(database: Database) -> _Poll:
            queue, names = self.queue, list(self._functions)
            check_keys(database)
            lacking, broken = topic_starts.start_due(database, queue, self.store.rules.max_bytes)
            problems = enqueue_scheduled(database, queue)
            stuck = queue_claims.return_lost_entries(database, queue, self._holder, is_alive)
            queue_claims.wake_entries(database, queue)
            unhandled: dict[str, str] = {}
            if looks:
                queue_claims.wake_continued_entries(database, queue)
                topic_starts.note_handlers(database, queue, names)
                topic_starts.resume_handled(database, queue, names)
                unhandled = topic_starts.find_unhandled(database, queue)
            claimed, failed = self._turns.claim(database, in_progress, most)
            self._just_claimed = {each.run_id: each for each in claimed}
            # Here, because another worker of this process may claim before the event loop knows
            # (`test_workers_that_look_at_the_same_moment_take_turns`).
            self._note_calls()
            return _Poll(
                claimed=claimed,
                failed={**lacking, **failed},
                stuck=stuck,
                unhandled=unhandled,
                problems=problems,
                broken=broken,
                unknown=queue_claims.unknown_functions(database, queue, names) if looks else (),
            )

        def claim_alone(database: Database) -> _Poll:
            with claiming():
                return claim(database)

        try:
            poll = await self._queues.transact_shielded(claim_alone)
            self._claims.update(self._just_claimed)
        finally:
            self._just_claimed = {}
            self._note_calls()
        self._note_success()
        self._polled_at = time.time()
        if looks:
            self._looked_at = time.monotonic()
        self._report(poll)
        self._number_claimed += len(poll.claimed)
        return poll.claimed

    def _report(self, poll: "_Poll") -> None:
        for run_id in poll.stuck:
            _logger.error("run %s is stuck: too many of its lives crashed, alone in their processes", run_id)
            self._queues.wake_result(run_id)
        for run_id, reason in poll.unhandled.items():
            _logger.error("run %s is stuck: %s", run_id, reason)
            self._queues.wake_result(run_id)
        for run_id, reason in poll.failed.items():
            _logger.error("%s", reason)
            self._ends["failed"] = self._ends.get("failed", 0) + 1
            self._queues.wake_result(run_id)
        lines = [
            *(f"the schedule {name!r} enqueues nothing: {reason}" for name, reason in poll.problems.items()),
            *(f"the subscription of {name} starts no run: {why}" for name, why in poll.broken.items()),
            *(
                f"queue {self.queue!r} has calls of {name}, which this worker is not given; they stay there"
                for name in poll.unknown
            ),
        ]
        for line in lines:
            if line not in self._reported:
                self._reported.add(line)
                _logger.warning(line)

    async def _work(self, entry: ClaimedEntry, runs: TaskGroup) -> None:
        """Run one entry, and record its end."""
        function = self._functions[entry.function]
        try:
            end = await live(entry, function, self._make_run, self._limiter, self.store.rules)
            await self._settle(entry, end)
        except Exception as error:  # of the worker, not of this run
            self._failure = self._failure or error
            runs.cancel_scope.cancel()
            await self._give_back(entry, LifeEnd(kind="returned", counts=False))
        except BaseException as error:
            await self._give_back(entry, interrupted(entry, error, self.store.rules))
            raise
        finally:
            self._claims.pop(entry.run_id, None)
            self._note_calls()
            self._queues.wake(self.queue)

    async def _settle(self, entry: ClaimedEntry, end: LifeEnd) -> None:
        """Record the end of a life. A store that cannot be reached is tried again."""
        pause = _FIRST_STORE_PAUSE_SECONDS
        while True:
            try:
                kind = await self._queues.transact_shielded(settle, entry=entry, end=end)
            except JournalStoreError as error:
                self._note_store_error(error)
                await anyio.sleep(pause)
                pause = min(2 * pause, _MOST_STORE_PAUSE_SECONDS)
            else:
                self._note_success()
                self._note_end(entry, kind, end.text)
                return

    def _note_calls(self) -> None:
        """Let the other workers of this process know of the calls in progress; from any thread."""
        with self._noting:
            calls = {**self._claims, **self._just_claimed}
            note_calls(self._holder, len(calls), is_alone=self._turns.is_alone(calls.values()))

    async def _give_back(self, entry: ClaimedEntry, end: LifeEnd) -> None:
        """Put an entry back that did not end; one that cannot be put back is taken over after its lease."""
        if entry.run_id not in self._claims:
            return
        try:
            kind = await self._queues.transact_shielded(settle, entry=entry, end=end)
        except JournalStoreError as error:
            self._note_store_error(error)
        else:
            self._note_end(entry, kind, end.text)

    def _note_end(self, entry: ClaimedEntry, kind: EndKind, text: str) -> None:
        del self._claims[entry.run_id]
        note_event(QueueLifeEnded(queue=self.queue, function=entry.function, end=kind))
        self._ends[kind] = self._ends.get(kind, 0) + 1
        if kind in ("ended", "failed"):
            self._queues.wake_result(entry.run_id)
        if text and kind != "parked":
            _logger.warning("run %s of %s: %s: %s", entry.run_id, entry.function, kind, text)

    async def _keep_claims(self) -> None:
        """Renew the leases of the entries again and again."""
        while True:
            await anyio.sleep(tables.LEASE_SECONDS / 3)
            claimed = list(self._claims.values())
            if not claimed:
                continue
            try:
                await self._queues.transact(self._renew, claimed)
            except JournalStoreError as error:
                self._note_store_error(error)

    def _renew(self, database: Database, claimed: Sequence[ClaimedEntry]) -> None:
        queue_claims.renew_claims(database, claimed, tables.LEASE_SECONDS)
        topic_starts.note_handlers(database, self.queue, list(self._functions))  # a full worker does not look

    async def _wait_until_idle(self) -> None:
        while self._claims:
            with self._queues.listening(self.queue) as changed:
                if self._claims:
                    await changed.wait()

    def _note_store_error(self, error: JournalStoreError) -> None:
        if not self._store_error:
            _logger.warning("the store of queue %r cannot be used, it is tried again: %s", self.queue, error)
        self._store_error = str(error)

    def _note_success(self) -> None:
        if self._store_error:
            _logger.warning("the store of queue %r can be used again", self.queue)
        self._store_error = ""


class _Poll(Struct, frozen=True, kw_only=True):
    """One look into the queue."""

    claimed: Sequence[ClaimedEntry]
    failed: dict[str, str]
    stuck: Sequence[str]
    unhandled: dict[str, str]
    broken: dict[str, str]
    problems: dict[str, str]
    unknown: Sequence[str]
