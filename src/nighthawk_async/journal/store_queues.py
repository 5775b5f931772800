"""The queues of a store, as programs use them."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from . import queue_table, schedule_table
from .active_replay import is_replaying
from .queue_table import QueueEntry
from .queues import EnqueueOptions, Queues
from .run_writes import refuse_after_divergence, written_by_programs
from .schedule_table import ScheduleRow
from .store_thread import StoreThread

DEFAULT_MAX_LIVES = 5
"""The number of lives of a run of a queue that may end without an end."""


class StoreQueues:
    """The part of a store that has queues and schedules; see `JournalStore`.

    Args:
        thread: The thread of the store.
        queues: The queues.
    """

    def __init__(self, thread: StoreThread, queues: Queues) -> None:
        self.thread = thread
        self.queues = queues

    async def enqueue(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        queue: str = "default",
        key: str | None = None,
        priority: int = 0,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        max_lives: int = DEFAULT_MAX_LIVES,
        **keywords: Any,
    ) -> str:
        """Enqueue the call of a function, which a worker makes in a durable run of its own.

        Enqueueing the same call with the same key again has no effect. A key that is the id of a run that was
        not enqueued, as a fork, has a worker continue that run.

        Args:
            function: The function, natural or not, async or not, at the top level of a module.
            args: Its positional arguments: plain data, and what its annotations declare. Arguments with the
                names of the options below are passed by position.
            queue: The queue.
            key: The id of the run, for callers that may enqueue the call again. None for a new one; within a
                durable run, for one that is the same in all lives.
            priority: The priority; of the calls that are due, those with the greatest are made first, then
                those that are due for the longest time.
            delay: The seconds after which the call is due; None for at once.
            at: The time at which the call is due, with a time zone, instead.
            max_lives: The number of lives in a row that may end without an end, because their process crashed
                or an error was transient. Afterwards the run is stuck, or has failed with that error.
            keywords: Its keyword arguments.

        Returns:
            The id of the run.

        Raises:
            NighthawkError: No worker can import the function, an option has a bad value, or the key is that
                of another call.
            TypeError: The function does not take the arguments.
            JournalValueError: An argument or a name cannot be stored, or the arguments are too large.
            JournalKeyError: A key of the encryption is missing, or is another one.
            JournalDivergenceError: The active run has enqueued something else there, or its program has
                changed.
            RunPrunedError: The run has ended, and its records were deleted.
            JournalStoreError: The store cannot be written.
        """
        options = EnqueueOptions(queue=queue, priority=priority, max_lives=max_lives)
        return await self.queues.enqueue(function, args, keywords, options, key=key, delay=delay, at=at)

    async def result(self, run_id: str, timeout: float | None = None) -> Any:  # noqa: ASYNC109  (names the run)
        """Wait for the result of a run that was enqueued.

        Args:
            run_id: The run.
            timeout: The seconds to wait; None for any number.

        Returns:
            The result of its function.

        Raises:
            Exception: The error that the run has failed with.
            TimeoutError: It did not end in time.
            RunStuckError: Too many of its lives crashed.
            RunPrunedError: Its result was deleted with its records.
            JournalKeyError: A key of the encryption is missing, or is another one.
            JournalValueError: The result cannot be read here, because its type is not imported or registered.
            JournalStoreError: The store cannot be read.
            JournalError: No such run was enqueued.
        """
        return await self.queues.result(run_id, timeout)

    @written_by_programs
    async def requeue(self, run_id: str) -> None:
        """Put a run back into its queue that has failed or is stuck. It continues from its records.

        Args:
            run_id: The run.

        Raises:
            RunPrunedError: Its records were deleted.
            JournalStoreError: The store cannot be written.
            JournalError: It is no such run.
        """
        await self.queues.requeue(run_id)

    def queue_entries(self) -> list[QueueEntry]:
        """Return the entries of all queues, in the order in which they were enqueued. Blocks while it reads.

        Raises:
            JournalStoreError: The store cannot be read.
        """
        return self.thread.perform(lambda: queue_table.read_entries(self.thread.opened())).wait_in_thread()

    @written_by_programs
    async def schedule(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        cron: str,
        timezone: str = "UTC",
        queue: str = "default",
        priority: int = 0,
        max_lives: int = DEFAULT_MAX_LIVES,
        **keywords: Any,
    ) -> None:
        """Have a call enqueued at each time of a cron expression. Needs the extra `worker`.

        The workers of the queue enqueue it, each time once, however many they are. If none ran for a while,
        the latest of the missed times is made up for. The id of each run is the name of the schedule and the
        time, as in `nightly@2026-11-26T03:00:00Z`.

        Args:
            name: The name of the schedule. A schedule of the same name is replaced; with the same times, it
                keeps its next one.
            function: The function; see `enqueue`.
            args: Its positional arguments.
            cron: The expression: minute, hour, day of the month, month, day of the week.
            timezone: The time zone of the expression, by its IANA name.
            queue: The queue.
            priority: The priority of the runs.
            max_lives: See `enqueue`.
            keywords: Its keyword arguments.

        Raises:
            ConfigurationError: The extra is not installed.
            NighthawkError: It is no cron expression or time zone, or as in `enqueue`.
            TypeError: The function does not take the arguments.
            JournalValueError: An argument or a name cannot be stored, or the arguments are too large.
            JournalKeyError: A key of the encryption is missing, or is another one.
            JournalStoreError: The store cannot be written.
        """
        options = EnqueueOptions(queue=queue, priority=priority, max_lives=max_lives)
        await self.queues.schedule(name, function, args, keywords, options, cron=cron, timezone=timezone)

    async def unschedule(self, name: str) -> bool:
        """Remove a schedule. Runs that it has enqueued stay.

        Args:
            name: The name of the schedule.

        Returns:
            Whether there was such a schedule.

        Raises:
            JournalStoreError: The store cannot be written.
        """
        if is_replaying():
            return False
        refuse_after_divergence("store.unschedule()")
        return await self.queues.unschedule(name)

    def schedules(self) -> list[ScheduleRow]:
        """Return the schedules, by name. Blocks while it reads.

        Raises:
            JournalKeyError: A key of the encryption is missing, or is another one.
            JournalStoreError: The store cannot be read.
        """
        return self.thread.perform(
            lambda: schedule_table.read_schedules(self.thread.opened())
        ).wait_in_thread()
