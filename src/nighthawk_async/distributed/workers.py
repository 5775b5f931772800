"""`Workers`: a placement of workers that are connected by links, whatever those are."""

import logging
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from itertools import count
from types import TracebackType
from typing import Self, cast

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.lowlevel import checkpoint

from ..actors import BareTaskGroup
from ..actors.errors import check_seconds, check_whole_number
from ..journal.active_replay import is_replaying
from ..journal.frames import lost_place
from ..kernel.environment import find_journal
from ..parallel.errors import PlacementClosedError, PlacementError
from ..parallel.event_loop import EventLoop
from ..parallel.here import HereJob
from ..placements import PlacedCall, PlacedJob
from .call_encoder import CallEncoder, place_of
from .connection import WorkerConnection, connect_worker
from .dispatch import Dispatcher, Effect, End, Kill, Place, Withdrawal
from .errors import WorkerLostError, WorkerStartError
from .job import RemoteJob
from .link import WorkerLink
from .log_records import handle_records, log_levels
from .messages import (
    Ask,
    Begin,
    Ended,
    Forget,
    FromWorker,
    Logged,
    LogLevels,
    Order,
    Tell,
    Withdraw,
)
from .services import begin_services
from .worker_starts import UnusedWorkers, WorkerStarts

_logger = logging.getLogger("nighthawk")

_STOP_SECONDS = 2.0
"""The seconds within which workers without calls end when they are stopped."""


class Workers(ABC):
    """A placement of workers, such as `Processes`. Enter it with `async with`; once left, also again.

    Leaving the block waits for the calls in progress, or cancels them if an exception leaves it; then the
    workers end. A worker that is lost is replaced, and its calls are placed again.

    Args:
        number_of_workers: The number of workers.
        max_concurrent_per_worker: The greatest number of calls on one worker at once.
        max_placements: The number of workers that a call may lose while it is alone there. With 1, a call is
            placed once, whatever happens.
        grace_seconds: The seconds within which a cancelled call must end, before its worker is ended.
        start_timeout: The seconds within which a worker must be ready.
        carries_keys: Whether keys of models may cross to workers: those that a configuration contains.

    Raises:
        ValueError: A number is invalid.
    """

    def __init__(
        self,
        number_of_workers: int,
        *,
        max_concurrent_per_worker: int,
        max_placements: int,
        grace_seconds: float,
        start_timeout: float,
        carries_keys: bool = True,
    ) -> None:
        check_whole_number("count", number_of_workers, least=1)
        check_whole_number("max_concurrent_per_worker", max_concurrent_per_worker, least=1)
        check_whole_number("max_placements", max_placements, least=1)
        check_seconds("grace_seconds", grace_seconds)
        check_seconds("start_timeout", start_timeout)
        self._count = number_of_workers
        self._max_concurrent_per_worker = max_concurrent_per_worker
        self._grace_seconds = grace_seconds
        self._start_timeout = start_timeout
        self._max_placements = max_placements
        self._carries_keys = carries_keys
        self._group: TaskGroup | None = None
        self._loop: EventLoop | None = None
        self._begin()

    def _begin(self) -> None:
        """Begin anew: nothing of an earlier block is left."""
        self._dispatcher: Dispatcher[str] = Dispatcher(
            max_concurrent_per_worker=self._max_concurrent_per_worker,
            max_placements=self._max_placements,
            grace_seconds=self._grace_seconds,
        )
        self._jobs: dict[int, RemoteJob] = {}
        self._connections: dict[str, WorkerConnection] = {}
        self._calls = CallEncoder(carries_keys=self._carries_keys, withdraw=self._withdraw)
        self._starts = WorkerStarts()
        self._shields: list[anyio.CancelScope] = []
        self._keepers = 0
        self._is_closed = self._is_over = False
        self._failure: Exception | None = None
        self._log_levels: dict[str, int] = {}
        self._log_levels_due = -math.inf

    @property
    def capacity(self) -> int:
        """The number of calls that its workers can make at once."""
        return self._count * self._max_concurrent_per_worker

    @property
    def workers(self) -> tuple[str, ...]:
        """The names of the workers that are connected."""
        return tuple(self._connections)

    @abstractmethod
    async def open_link(self, name: str, begin: Begin) -> WorkerLink:
        """Start a worker, and return the link to it. A cancellation leaves no worker behind.

        Args:
            name: The name of the worker.
            begin: What it begins with.

        Raises:
            WorkerStartError: It cannot be started.
        """

    async def start(self, call: PlacedCall) -> PlacedJob:
        """Start a call; see `Placement.start`.

        In the replay of a run, calls are made here: it has what they gave from the records.

        Raises:
            PlacementClosedError: The placement is not entered, or was left.
            PlacementError: It belongs to another event loop.
            CrossingError: The function, an argument or a part of the caller's scope cannot cross to a worker.
            WorkerStartError: No worker can be started any more.
            TypeError: The function does not take the arguments.
        """
        await checkpoint()
        self._check_open()
        place, journal = place_of(call), find_journal()
        if is_replaying() or (journal is not None and journal.is_replay):
            return self._start_replay(call, place)
        if journal is not None:
            journal.find_value(lost_place(place))  # raises the recorded error
        job = self._calls.make_job(call, place)
        self._jobs[job.number] = job
        if journal is not None:
            journal.enter(place)
        self._carry_out(self._dispatcher.submit(job.number))
        return job

    async def close(self) -> None:
        """Start no more calls, and cancel those in progress. Closing again has no effect."""
        self._is_closed = True
        for job in tuple(self._jobs.values()):
            job.cancel()

    async def __aenter__(self) -> Self:
        """Start the workers.

        Raises:
            PlacementClosedError: It is entered already.
            WorkerStartError: One did not start.
        """
        if self._group is not None and self._loop is not None:
            raise PlacementClosedError(f"{type(self).__name__} is entered already; leave it before")
        self._begin()
        self._bare_group = BareTaskGroup()
        self._loop = EventLoop()
        self._group = await self._bare_group.__aenter__()
        try:
            await self._start_workers(self._group)
        except BaseException as error:
            self._is_closed = self._is_over = True
            self._end_tasks()
            self._group = None
            await self._bare_group.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        assert self._group is not None
        if exc is None:
            await self._leave()
            return None
        await self.close()
        with suppress(anyio.get_cancelled_exc_class()):  # which would replace the error of the block
            await self._leave()
        return None

    async def _leave(self) -> None:
        """Wait for the calls in progress, and end the workers."""
        try:
            await self._wait_for_jobs()
        finally:
            with anyio.CancelScope(shield=True):
                await self.close()
                await self._wait_for_jobs()  # bounded by the grace
                await self._stop_workers()
            self._end_tasks()
            await self._bare_group.__aexit__(None, None, None)
            self._loop = None

    @contextmanager
    def _shield(self) -> Generator[None, None, None]:
        """Go on when the block is cancelled from outside: its calls need their workers to end.

        An error of the body, also Ctrl-C, ends all tasks: the calls of its worker would never end.
        """
        with anyio.CancelScope(shield=True) as scope:
            self._shields.append(scope)
            try:
                yield
            except (WorkerStartError, anyio.get_cancelled_exc_class()):
                raise
            except BaseException:
                self._end_tasks()
                raise

    def _end_tasks(self) -> None:
        for scope in self._shields:
            scope.cancel()
        if self._group is not None:
            self._group.cancel_scope.cancel()

    async def _start_workers(self, group: TaskGroup) -> None:
        """Start the workers. The first that does not start ends the attempt.

        Raises:
            WorkerStartError: One did not start; those that failed with it are its notes.
        """
        self._due_added, self._all_ended = anyio.Event(), anyio.Event()
        if is_replaying():
            return
        group.start_soon(self._watch_dues)
        failures: dict[int, WorkerStartError] = {}

        async def start(number: int) -> None:
            try:
                await group.start(self._keep_worker, f"worker-{number}")
            except WorkerStartError as error:
                failures[number] = error
                starting.cancel_scope.cancel()

        async with BareTaskGroup() as starting:
            for number in range(self._count):
                starting.start_soon(start, number)
        if failures:
            first, *others = (failures[number] for number in sorted(failures))
            for each in others:
                first.add_note(str(each))
            raise first

    async def _stop_workers(self) -> None:
        """Ask the workers to end, and wait for a short time; the rest is ended with the task group."""
        self._is_over = True
        for connection in self._connections.values():
            connection.stop()
        if self._keepers:
            with anyio.move_on_after(_STOP_SECONDS):
                await self._all_ended.wait()

    async def _wait_for_jobs(self) -> None:
        while self._jobs:
            await next(iter(self._jobs.values())).wait_ended()

    def _check_open(self) -> None:
        if self._group is None or self._is_closed:
            raise PlacementClosedError(
                f"{type(self).__name__} is not entered, or was left: put `async with` around the calls"
            )
        if self._loop is not None and not self._loop.is_here:
            raise PlacementError(f"{type(self).__name__} belongs to another event loop")
        if self._failure is not None:
            raise self._failure

    def _start_replay(self, call: PlacedCall, place: str) -> PlacedJob:
        """Make a call here."""
        assert self._group is not None

        async def run() -> None:
            try:
                await job.run(place)
            finally:
                job.end()

        job = HereJob(call, copy_context())
        job.context.run(self._group.start_soon, run)
        return job

    def _withdraw(self, job: RemoteJob) -> None:
        self._carry_out(self._dispatcher.withdraw(job.number, anyio.current_time()))
        self._due_added.set()

    async def _watch_dues(self) -> None:
        """End workers whose cancelled calls have used up their grace."""
        with self._shield():
            while True:
                seconds = self._dispatcher.next_due - anyio.current_time()
                with anyio.move_on_after(max(seconds, 0)):
                    await self._due_added.wait()
                    self._due_added = anyio.Event()
                self._carry_out(self._dispatcher.take_due(anyio.current_time()))

    def _carry_out(self, effects: list[Effect[str]]) -> None:
        waiting = deque(effects)
        while waiting:
            match effect := waiting.popleft():
                case Place():
                    waiting.extend(self._place(self._jobs[effect.call], effect))
                case Withdrawal():
                    put = self._connections[effect.worker].put
                    self._jobs[effect.call].call_when_written(partial(put, Withdraw(number=effect.call)))
                case Kill():
                    self._connections[effect.worker].kill()
                case End():
                    job = self._jobs.pop(effect.call)
                    job.end_placement(is_lost=True)
                    job.end(Ended(number=effect.call, is_cancelled=True), _error_of(effect, job))

    def _place(self, job: RemoteJob, place: Place[str]) -> list[Effect[str]]:
        """Send a call to a worker; what cannot be sent ends with its error."""
        connection = self._connections[place.worker]
        job.worker = place.worker

        def send(topic: str, body: bytes) -> None:
            connection.put(Order(call=job.number, topic=topic, body=body))

        self._bring_log_levels(connection)
        seconds = None if job.deadline == math.inf else max(job.deadline - anyio.current_time(), 0.0)
        try:
            job.parts = job.context.run(
                begin_services, job.environment, job.counted, place.worker, place.attempt, send
            )
            connection.place(job, place.attempt, seconds)
        except Exception as error:  # a service may be code of the user
            del self._jobs[job.number]
            job.end_placement(is_lost=False)
            job.end(None, error)
            return self._dispatcher.note_ended(job.number)
        return []

    def _bring_log_levels(self, connection: WorkerConnection) -> None:
        """Tell a worker the levels of log records, if the program has changed them within a second."""
        if anyio.current_time() >= self._log_levels_due:
            self._log_levels, self._log_levels_due = log_levels(), anyio.current_time() + 1
        if connection.log_levels != self._log_levels:
            connection.log_levels = self._log_levels
            connection.put(LogLevels(levels=self._log_levels))

    def _call_in_context(self, number: int | None, function: Callable[[], None]) -> None:
        """Call a function in the context of a call; without it if it has ended, or for None."""
        job = None if number is None else self._jobs.get(number)
        if job is None:
            function()
        else:
            job.context.run(function)

    async def _keep_worker(
        self, name: str, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep a worker: start it, serve it, and replace it when it is lost."""
        connection, unused = await self._start_worker(name, is_first=True), UnusedWorkers()
        self._keepers += 1
        task_status.started()
        failure: Exception = PlacementClosedError("the workers have ended, because their block has failed")
        try:
            with self._shield():
                for life in count(1):
                    begun_at = anyio.current_time()
                    how = await self._serve(connection)
                    if self._is_over:
                        return
                    await unused.note_end(connection, anyio.current_time() - begun_at, how)
                    connection = await self._start_worker(f"{name}.{life}", is_first=False)
        except WorkerStartError as error:
            failure = error
        finally:
            self._keepers -= 1
            if not self._keepers:
                self._give_up(failure)
                self._all_ended.set()

    async def _serve(self, connection: WorkerConnection) -> str:
        """Give calls to a worker until it has ended; return how."""
        name = connection.name
        self._connections[name] = connection
        try:
            self._carry_out(self._dispatcher.add_worker(name))
            reason = await connection.serve(lambda message: self._take(connection, message))
            self._dispatcher.close_worker(name)
        finally:
            # Its calls are placed again only now, so that none of them runs twice at once.
            how = await connection.close()
            connection.forget_all_calls()
            del self._connections[name]
        reason = reason or how
        for number in self._dispatcher.calls_of(name):
            if number in self._jobs:
                self._jobs[number].end_placement(is_lost=True, reason=reason)
        self._carry_out(self._dispatcher.lose_worker(name, reason))
        return reason

    async def _start_worker(self, name: str, *, is_first: bool) -> WorkerConnection:
        """Start a worker and wait until it is ready; see `WorkerStarts` and `connect_worker`."""
        return await self._starts.start(
            name,
            lambda: connect_worker(self.open_link, name, self._start_timeout, self._grace_seconds),
            is_first=is_first,
        )

    def _give_up(self, error: Exception) -> None:
        """End all calls, because there is no worker any more, and start no more."""
        self._failure = error
        for job in tuple(self._jobs.values()):
            self._dispatcher.withdraw(job.number, 0.0)
            del self._jobs[job.number]
            job.end_placement(is_lost=True)
            job.end(None, error)

    def _take(self, connection: WorkerConnection, message: FromWorker) -> None:
        """Take a message of a worker."""
        match message:
            case Ended(number=number) if (job := self._jobs.get(number)) and job.worker == connection.name:
                del self._jobs[number]
                connection.forget_call(number)
                job.end_placement(is_lost=False)
                job.end(message)
                self._carry_out(self._dispatcher.note_ended(number))
            case Tell(call=number, topic=topic) if self._has(connection, number, topic):
                job = self._jobs[number]
                try:
                    job.context.run(job.parts[topic].note, message.body)
                except Exception:  # the observers of the program may raise anything, and must end no call
                    _logger.exception("a report of worker %s about %s was lost", job.worker, topic)
            case Ask(call=number, topic=topic) if self._has(connection, number, topic):
                scope = anyio.CancelScope()
                connection.answering[message.number] = (number, scope)
                job, group = self._jobs[number], cast("TaskGroup", self._group)
                job.context.run(group.start_soon, connection.answer, job.parts[topic], message, scope)
            case Logged(records=records):
                handle_records(records, connection.name, self._call_in_context)
            case Forget(number=number) if number in connection.answering:
                connection.answering[number][1].cancel()
            case _:
                pass  # of a call that has ended

    def _has(self, connection: WorkerConnection, number: int, topic: str) -> bool:
        """Whether a worker has a call, which has not ended, with a service."""
        job = self._jobs.get(number)
        return job is not None and job.worker == connection.name and topic in job.parts


def _error_of(end: End[str], job: RemoteJob) -> WorkerLostError | None:
    """The error of a call that has ended without an answer; None for one that was cancelled."""
    if end.reason is None:
        return None
    return WorkerLostError(
        end.worker or "",
        end.reason,
        placements=end.placements,
        lost_alone=end.lost_alone,
        call=f"{job.function.name} at {job.place}" if job.place else job.function.name,
    )
