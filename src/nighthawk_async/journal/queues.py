"""Queues of a store: calls that are enqueued, their results, and schedules."""

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import anyio
from msgspec import Struct

from ..errors import NighthawkError
from ..parallel.event_loop import LoopEvent
from ..types.json import is_number
from . import queue_table, schedule_table
from .active_replay import is_replaying
from .cron_times import latest_time, next_time
from .database import Database
from .effect_call import Effect
from .errors import JournalError, RunPrunedError, RunStuckError
from .listeners import FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS, Listeners
from .names import check_id, check_name
from .queue_suspects import stuck_text
from .queue_table import NewEntry
from .queued_call import decode_end, encode_arguments, function_name, is_same_call
from .recorder import find_recorder
from .run_writes import RunWrite, refuse_after_divergence
from .schedule_table import ScheduleRow
from .store_thread import StoreThread
from .values import ValueRules

Result = TypeVar("Result")
Given = ParamSpec("Given")

_MOST_PRIORITY = 2**31 - 1


class EnqueueOptions(Struct, frozen=True, kw_only=True):
    """Options of calls that are enqueued; see `JournalStore.enqueue`."""

    queue: str
    priority: int
    max_lives: int

    def check(self) -> None:
        """Check the options.

        Raises:
            NighthawkError: One of them has a bad value.
        """
        check_queue(self.queue)
        if type(self.priority) is not int or abs(self.priority) > _MOST_PRIORITY:
            raise NighthawkError(
                f"priority is a whole number of at most {_MOST_PRIORITY:,}, not {self.priority!r}"
            )
        if type(self.max_lives) is not int or not 1 <= self.max_lives <= _MOST_PRIORITY:
            raise NighthawkError(f"max_lives is a whole number of at least 1, not {self.max_lives!r}")


def check_queue(queue: object) -> None:
    """Check the name of a queue.

    Raises:
        NighthawkError: It is no text, empty, or cannot be stored.
    """
    check_name(queue, "the name of a queue")


class Queues:
    """The queues of a store.

    Args:
        thread: The thread of the store.
        rules: The rules for the arguments of a call.
    """

    def __init__(self, thread: StoreThread, rules: ValueRules) -> None:
        self._thread = thread
        self._rules = rules
        self._listeners = Listeners()

    async def read(self, function: Callable[[Database], Result]) -> Result:
        """Call a function that only reads in the thread of the store."""
        return await self._thread.perform(lambda: function(self._thread.opened())).wait()

    async def transact(
        self,
        function: Callable[Concatenate[Database, Given], Result],
        *args: Given.args,
        **keywords: Given.kwargs,
    ) -> Result:
        """Call a function in the thread of the store, within a transaction."""
        return await self._thread.transact(function, *args, **keywords).wait()

    async def transact_shielded(
        self,
        function: Callable[Concatenate[Database, Given], Result],
        *args: Given.args,
        **keywords: Given.kwargs,
    ) -> Result:
        """The same to its end, also where the caller is cancelled: what was claimed has to be given back."""
        with anyio.CancelScope(shield=True):
            return await self.transact(function, *args, **keywords)
        raise AssertionError("a shielded scope is not cancelled")

    def listening(self, queue: str) -> AbstractContextManager[LoopEvent]:
        """Yield an event that is set when this process changes a queue."""
        return self._listeners.listening(("queue", queue))

    def wake(self, queue: str) -> None:
        """Set the events of all that listen to a queue."""
        self._listeners.wake(("queue", queue))

    def wake_result(self, run_id: str) -> None:
        """Set the events of all that wait for the result of a run."""
        self._listeners.wake(("result", run_id))

    async def enqueue(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        keywords: Mapping[str, Any],
        options: EnqueueOptions,
        *,
        key: str | None,
        delay: float | timedelta | None,
        at: datetime | None,
    ) -> str:
        """Enqueue a call; see `JournalStore.enqueue`."""
        options.check()
        if key is not None:
            check_name(key, "the key, which is the id of the run,")
        name = function_name(function)
        arguments = encode_arguments(function, name, args, keywords, rules=self._rules)
        seconds, due_at = _due(delay, at)
        recorder, given = find_recorder(), (options.queue, name, args, keywords)
        if recorder is not None and key == recorder.run_id:  # it hands itself over: whoever goes on is it
            refuse_after_divergence("store.enqueue()")
            recorder = None
        write = None
        if recorder is not None:
            inputs = {
                "the function": name,
                "the queue": options.queue,
                **({} if key is None else {"the key": key}),
                **Effect(function, "repeatable").inputs_of(args, keywords),
            }
            if key is None:
                write = RunWrite(recorder, "enqueue()", given, inputs)
            else:  # at places of their own: earlier versions recorded nothing of them
                write = RunWrite(recorder, "store.enqueue()", (*given, key), inputs)
        entry = NewEntry(
            run_id=key or (uuid.uuid4().hex if write is None else write.key),
            queue=options.queue,
            function=name,
            arguments=arguments,
            priority=options.priority,
            max_lives=options.max_lives,
            enqueued_at=time.time(),
        )

        async def add() -> str:
            def is_same(known: bytes) -> bool:
                return known == arguments or is_same_call(function, name, args, keywords, known)

            may_be_pruned = write is not None and key is None
            return await self._add(entry, seconds, due_at, is_same, may_be_pruned=may_be_pruned)

        if write is None:
            return entry.run_id if is_replaying() else await add()
        return await write.make(
            _ENQUEUEING,
            add,
            was_made=lambda: self._is_enqueued(entry.run_id),
            in_replays=entry.run_id,
        )

    async def _is_enqueued(self, run_id: str) -> bool:
        try:
            return await self.read(lambda database: queue_table.find_call(database, run_id)) is not None
        except RunPrunedError:
            return True

    async def _add(
        self,
        entry: NewEntry,
        delay: float,
        due_at: float | None,
        is_same: Callable[[bytes], bool],
        *,
        may_be_pruned: bool,
    ) -> str:
        """Add a call to its queue, once; return the id of its run."""

        def add(database: Database) -> tuple[str, bytes] | None:
            if queue_table.add_entry(database, entry, delay=delay, due_at=due_at):
                return None
            return queue_table.read_call(database, entry.run_id)

        try:
            known = await self.transact(add)
        except RunPrunedError:
            if not may_be_pruned:
                raise
            return entry.run_id  # an earlier life of the active run has enqueued it
        if known is None:
            self.wake(entry.queue)
            return entry.run_id
        known_name, known_arguments = known
        if known_name != entry.function:
            raise NighthawkError(
                f"run {entry.run_id!r} was enqueued before, and calls {known_name}, not {entry.function}; "
                "give each piece of work a key of its own"
            )
        if not is_same(known_arguments):
            raise NighthawkError(
                f"run {entry.run_id!r} was enqueued before, with other arguments of {entry.function}; give "
                "each piece of work a key of its own"
            )
        return entry.run_id

    async def result(self, run_id: str, seconds: float | None) -> Any:
        """Wait for the result of a run; see `JournalStore.result`."""
        check_id(run_id)
        ends_at = None if seconds is None else anyio.current_time() + seconds
        pause = FIRST_PAUSE_SECONDS
        while True:
            with self._listeners.listening(("result", run_id)) as ended:
                call = await self.read(lambda database: queue_table.find_call(database, run_id))
                if call is None:
                    raise JournalError(f"no run {run_id!r} was enqueued in this store")
                if call.result is not None:
                    return decode_end(call.function, run_id, call.result)
                if call.status == "stuck":
                    raise RunStuckError(f"run {run_id!r} of {call.function} is stuck: {_stuck_reason(call)}")
                left = pause if ends_at is None else ends_at - anyio.current_time()
                if left <= 0:
                    raise TimeoutError(f"run {run_id!r} did not end within {seconds:g} seconds")
                with anyio.move_on_after(min(pause, left)):
                    await ended.wait()
            pause = min(2 * pause, MOST_PAUSE_SECONDS)

    async def requeue(self, run_id: str) -> None:
        """Repeat a run that failed or is stuck; see `JournalStore.requeue`."""
        check_id(run_id)
        queue = await self.transact(lambda database: queue_table.requeue_entry(database, run_id))
        if queue is None:
            raise JournalError(f"run {run_id!r} is none of those in a queue that failed or are stuck")
        self.wake(queue)

    async def schedule(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        keywords: Mapping[str, Any],
        options: EnqueueOptions,
        *,
        cron: str,
        timezone: str,
    ) -> None:
        """Enqueue a call again and again; see `JournalStore.schedule`."""
        options.check()
        check_name(name, "the name of a schedule")
        check_name(cron, "the cron expression")
        check_name(timezone, "the name of the time zone")
        called = function_name(function)
        arguments = encode_arguments(function, called, args, keywords, rules=self._rules)
        now = await self.read(schedule_table.read_now)
        row = ScheduleRow(
            name=name,
            queue=options.queue,
            function=called,
            cron=cron,
            timezone=timezone,
            next_at=next_time(cron, timezone, now),
            priority=options.priority,
            max_lives=options.max_lives,
            arguments=arguments,
        )
        await self.transact(lambda database: schedule_table.put_schedule(database, row))

    async def unschedule(self, name: str) -> bool:
        """Remove a schedule; see `JournalStore.unschedule`."""
        check_name(name, "the name of a schedule")
        return await self.transact(lambda database: schedule_table.remove_schedule(database, name))


def _stuck_reason(call: queue_table.StoredCall) -> str:
    crashed = stuck_text(call.lives, call.losses_alone)
    if call.error not in ("", crashed):
        return f"{call.error}."
    return (
        f"{crashed}. Find the reason (what started the workers knows how they ended: SIGKILL is the kernel's "
        "for want of memory), then call store.requeue."
    )


def enqueue_scheduled(database: Database, queue: str) -> dict[str, str]:
    """Enqueue the calls of the schedules that are due, in a transaction of the caller.

    Of the times that were missed, the latest one counts. Its run has an id of the schedule and the time, so
    that it is enqueued once.

    Returns:
        The schedules that were changed, or whose times cannot be found here, and the reasons.
    """
    due, problems = schedule_table.due_schedules(database, queue)
    for each in due:
        now = schedule_table.read_now(database)
        try:  # one schedule that has no time here does not hold up the others
            due_at = max(each.next_at, latest_time(each.cron, each.timezone, now))
            next_at = next_time(each.cron, each.timezone, now)
        except NighthawkError as error:
            problems[each.name] = str(error)
            continue
        entry = NewEntry(
            run_id=scheduled_run_id(each.name, due_at),
            queue=queue,
            function=each.function,
            arguments=each.arguments,
            priority=each.priority,
            max_lives=each.max_lives,
            enqueued_at=time.time(),
        )
        with suppress(RunPrunedError):  # then the time was enqueued before
            queue_table.add_entry(database, entry, delay=0.0, due_at=due_at)
        schedule_table.advance_schedule(database, each.name, next_at)
    return problems


def scheduled_run_id(name: str, due_at: float) -> str:
    """The id of the run of a schedule at a time: its name and the time in UTC."""
    return f"{name}@{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(due_at))}"


async def _enqueue() -> str:
    """The call that puts another one into a queue, as the run that makes it records it."""
    raise NotImplementedError


_enqueue.__name__ = "enqueue"
_ENQUEUEING = Effect(_enqueue, "repeatable")


def _due(delay: float | timedelta | None, at: datetime | None) -> tuple[float, float | None]:
    """The delay in seconds, and the time in seconds since 1970 that holds instead, if any."""
    if delay is not None and at is not None:
        raise NighthawkError("give a delay or a time, not both")
    if at is not None:
        if not isinstance(cast("object", at), datetime) or at.tzinfo is None:
            raise NighthawkError(f"at is a datetime with a time zone, not {at!r}")
        return 0.0, at.timestamp()
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay or 0.0
    if not is_number(seconds):
        raise NighthawkError(f"delay is a number of seconds or a timedelta, not {delay!r}")
    if not 0 <= seconds < float("inf"):
        raise NighthawkError(f"delay is a time of at least 0 seconds, not {seconds:g}")
    return float(seconds), None
