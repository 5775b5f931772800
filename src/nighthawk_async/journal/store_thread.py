"""The thread that reads and writes the database of a store.

It works the same on Trio and on asyncio, and in programs without an event loop. Records are written in the
order in which they were handed in, all that wait in one transaction, so a durable record implies every
earlier one of the same process.
"""

import atexit
import os
import queue
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, cast

from msgspec import Struct

from ..errors import NighthawkError
from . import tables
from .acknowledgement import Acknowledgement
from .blob_table import is_large
from .database import Database
from .errors import JournalError, JournalStoreError, RunTakenOverError
from .holders import process_name
from .records import Record
from .tables import RunStatus

Result = TypeVar("Result")
Given = ParamSpec("Given")

_MOST_BATCH = 1_000
_SOON_SECONDS = 0.1
"""The longest time for which records wait that are to be written with the next ones."""
_CLOSE_SECONDS = 60.0

CommitListener: TypeAlias = Callable[[Literal["before", "after"], Sequence[Record]], object]
"""Called in the store's thread right before and right after records become durable."""

commit_listeners: list[CommitListener] = []
"""For tests that kill a process at a record; see `testing.killing`."""


class _Append(Struct, frozen=True, kw_only=True, eq=False):
    """Records of a run to append."""

    run_id: str
    epoch: int
    records: Sequence[Record]
    written: Acknowledgement[None]


class _Task(Struct, frozen=True, kw_only=True, eq=False):
    """Anything else to do with the database."""

    function: Callable[[], Any]
    done: Acknowledgement[Any]


_Job: TypeAlias = _Append | _Task


class StoreThread:
    """The thread of a store, which begins with the first job.

    Args:
        address: The address of the database, without a password.
        connect: Opens the database.
        writer: The name by which other processes admit this one to their runs; empty for a process that has
            runs of its own. See `writer_table`.
    """

    def __init__(self, address: str, connect: Callable[[], Database], *, writer: str = "") -> None:
        self.address = address
        self._connect = connect
        self._writer = writer
        self._token = uuid.uuid4().hex[:8]
        self._process = 0  # of the thread
        self._jobs: queue.SimpleQueue[Sequence[_Job] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._later: list[_Job] = []  # what is written with the next job, or soon
        self._looks_soon = False  # whether the thread is about to look for it by itself
        self._thread: threading.Thread | None = None
        self._is_closed = False
        # Used by the thread alone:
        self._database: Database | None = None
        self._leases: dict[str, int] = {}
        self._also_renewed: list[Callable[[Database], object]] = []
        self._held_until: dict[tuple[str, int], float] = {}  # by `lease_clock`; others may read it
        self._lost: dict[tuple[str, int], NighthawkError] = {}  # lives that can record nothing more, and why
        self._abandoned: dict[str, tuple[int, str]] = {}  # leases that are to be given back

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    def close(self) -> None:
        """Write what is waiting and end the thread. Closing again has no effect."""
        if self._is_forked:  # there is no such thread, and the lock may be that of the other process
            self._is_closed = True
            atexit.unregister(self.close)
            return
        with self._lock:
            thread, self._is_closed = self._thread, True
            self._thread = None
            jobs, self._later = self._later, []
        atexit.unregister(self.close)
        if thread is not None:
            self._jobs.put(jobs)
            self._jobs.put(None)
            thread.join(_CLOSE_SECONDS)

    def claim(self, run_id: str) -> Acknowledgement[tuple[int, list[Record]]]:
        """Begin a life of a run; see `tables.claim_run`."""

        def claim_run() -> tuple[int, list[Record]]:
            begun_at = lease_clock()
            claimed = tables.claim_run(self.opened(), run_id, process_name(self._token))
            self._leases[run_id] = claimed[0]
            self._note_lease((run_id, claimed[0]), begun_at)
            return claimed

        return self.perform(claim_run)

    def append(self, run_id: str, epoch: int, records: Sequence[Record]) -> Acknowledgement[None]:
        """Hand records in.

        Returns:
            Their acknowledgement, when they are durable.
        """
        written: Acknowledgement[None] = Acknowledgement()
        self._put(_Append(run_id=run_id, epoch=epoch, records=records, written=written))
        return written

    def append_later(self, run_id: str, epoch: int, records: Sequence[Record]) -> Acknowledgement[None]:
        """Hand in records that nobody waits for: they are written with the next job, or soon.

        Returns:
            Their acknowledgement, as `append` does.
        """
        written: Acknowledgement[None] = Acknowledgement()
        self._put(_Append(run_id=run_id, epoch=epoch, records=records, written=written), is_urgent=False)
        return written

    def hold(self, run_id: str, epoch: int) -> Acknowledgement[None] | None:
        """Make sure that a life still has its run: its process may have been stopped for a while.

        Returns:
            None if its lease cannot have ended yet. Otherwise the acknowledgement that it was renewed, which
            fails if another process has taken the run over.
        """
        if self.is_held(run_id, epoch):
            return None

        def renew() -> None:
            begun_at = lease_clock()
            database = self.opened()
            with database.transaction():
                tables.renew_lease(database, run_id, epoch)
            self._note_lease((run_id, epoch), begun_at)

        return self.perform(renew)

    def is_held(self, run_id: str, epoch: int) -> bool:
        """Whether the lease of a life cannot have ended yet."""
        return lease_clock() < self._held_until.get((run_id, epoch), 0.0)

    def _note_lease(
        self, life: tuple[str, int], begun_at: float, seconds: float = tables.LEASE_SECONDS
    ) -> None:
        """Note that a transaction, which began at a time, found or made a lease of so many seconds."""
        self._held_until[life] = begun_at + seconds

    def lose(self, run_id: str, epoch: int, error: NighthawkError) -> None:
        """Let a life record nothing more, because another process could not record what belongs to it."""
        self.perform(lambda: self._lost.setdefault((run_id, epoch), error))

    def forget(self, run_id: str, epoch: int) -> None:
        """Forget a life of a run of another process."""
        self.perform(
            lambda: (self._lost.pop((run_id, epoch), None), self._held_until.pop((run_id, epoch), None))
        )

    def end(
        self,
        run_id: str,
        epoch: int,
        status: RunStatus,
        error: str,
        wakes_at: float | None = None,
        due: Sequence[Callable[[Database], bool]] = (),
    ) -> Acknowledgement[float | None]:
        """End a life of a run; see `tables.end_run`."""

        def end_run() -> float | None:
            lost = self._lost.pop((run_id, epoch), None)
            self._held_until.pop((run_id, epoch), None)
            try:
                if lost is not None:
                    raise lost
                return tables.end_run(self.opened(), run_id, epoch, status, error, wakes_at, due)
            except Exception as failure:
                if self._leases.get(run_id) == epoch:
                    self._abandoned[run_id] = epoch, str(failure)
                raise
            finally:
                if self._leases.get(run_id) == epoch:
                    del self._leases[run_id]

        return self.perform(end_run)

    def perform(
        self, function: Callable[Given, Result], *args: Given.args, **keywords: Given.kwargs
    ) -> Acknowledgement[Result]:
        """Have the thread call a function, which may use `opened`."""
        done: Acknowledgement[Result] = Acknowledgement()
        self._put(_Task(function=lambda: function(*args, **keywords), done=done))
        return done

    def transact(
        self,
        function: Callable[Concatenate[Database, Given], Result],
        *args: Given.args,
        **keywords: Given.kwargs,
    ) -> Acknowledgement[Result]:
        """Have the thread call a function with the database, within a transaction."""

        def perform() -> Result:
            database = self.opened()
            with database.transaction():
                return function(database, *args, **keywords)

        return self.perform(perform)

    def renew_also(self, renew: Callable[[Database], object]) -> None:
        """Call a function whenever leases are renewed; for the thread alone.

        Args:
            renew: Renews leases of another kind, within a transaction of its own.
        """
        self._also_renewed.append(renew)

    @property
    def _is_forked(self) -> bool:
        """Whether the thread is one of the process that this one was forked from."""
        return self._thread is not None and self._process != os.getpid()

    def _put(self, job: _Job, *, is_urgent: bool = True) -> None:
        closed = f"the journal {self.address} is closed"
        if self._is_forked:
            raise JournalStoreError(
                closed
                if self._is_closed
                else f"the journal {self.address} was in use when this process was forked from process "
                f"{self._process}; open it again here."
            )
        with self._lock:
            if self._is_closed:
                raise JournalStoreError(closed)
            if self._thread is None:
                self._process = os.getpid()
                name = f"nighthawk_async journal {self.address}"
                self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._thread.start()
                atexit.register(self.close)  # so that a file that nobody closes has no log beside it
            self._later.append(job)
            if is_urgent:
                jobs, self._later = self._later, []
                self._jobs.put(jobs)
            elif not self._looks_soon:
                self._looks_soon = True
                self._jobs.put(())  # a thread that does not wait for long needs no such call

    def _work(self) -> None:
        """Do the jobs, until the store is closed.

        A failure ends every run in progress: it records nothing more. The next run opens the database anew.
        """
        renewed_at = time.monotonic()
        while (batch := self._next_batch(renewed_at)) is not None:
            if time.monotonic() - renewed_at >= tables.LEASE_SECONDS / 3:
                renewed_at = time.monotonic()
                self._renew()
            for jobs in _grouped(batch):
                try:
                    self._do(jobs)
                except NighthawkError as error:  # nothing was written, and the database can be used
                    self._fail(jobs, error)
                except Exception as error:
                    self._fail(jobs, self._break_off(error))
        self._end()

    def opened(self) -> Database:
        """The database; for the thread alone."""
        if self._database is None:
            self._database = self._connect()
        self._give_back(self._database)
        return self._database

    def _break_off(self, error: Exception) -> JournalStoreError:
        """End all runs in progress, and close the database."""
        failure = JournalStoreError(f"the journal {self.address} cannot be used: {error}")
        failure.__cause__ = error
        for life in self._leases.items():
            self._lost.setdefault(life, failure)
        database, self._database = self._database, None
        if database is not None:
            with suppress(Exception):  # it may have been closed by the other side
                database.close()
        return failure

    def _fail(self, jobs: Sequence[_Job], error: NighthawkError) -> None:
        for job in jobs:
            if isinstance(job, _Append):
                self._lost.setdefault((job.run_id, job.epoch), error)
                job.written.fail(error)
            else:
                job.done.fail(error)

    def _next_batch(self, renewed_at: float) -> list[_Job] | None:
        """The next jobs, maybe none; None at the end."""
        has_leases = bool(self._leases or self._also_renewed)
        wait = max(0.0, renewed_at + tables.LEASE_SECONDS / 3 - time.monotonic()) if has_leases else None
        if self._looks_soon:
            wait = _SOON_SECONDS if wait is None else min(wait, _SOON_SECONDS)
        try:
            jobs = self._jobs.get(timeout=wait)
        except queue.Empty:
            return self._take_later()
        batch: list[_Job] = []
        while jobs is not None:
            batch += jobs
            if len(batch) >= _MOST_BATCH or self._jobs.empty():
                return batch
            jobs = self._jobs.get()
        if batch:
            self._jobs.put(None)  # the end comes after these
            return batch
        return None

    def _take_later(self) -> list[_Job]:
        """The jobs that no other one has come for. Where there are none, the thread need not look again."""
        with self._lock:
            jobs, self._later = self._later, []
            self._looks_soon = bool(jobs)
            return jobs

    def _do(self, jobs: Sequence[_Job]) -> None:
        if isinstance(jobs[0], _Task):
            result = jobs[0].function()
            self._note_commits()
            jobs[0].done.succeed(result)
            return
        appends = cast("Sequence[_Append]", jobs)
        lives: dict[tuple[str, int], list[Record]] = {}
        for job in appends:
            lives.setdefault((job.run_id, job.epoch), []).extend(job.records)
        if not commit_listeners:
            self._append(lives)
        else:
            records = [record for job in appends for record in job.records]
            for listener in commit_listeners:
                listener("before", records)
            self._append(lives)
            for listener in commit_listeners:
                listener("after", records)
        self._note_commits()
        for job in appends:
            lost = self._lost.get((job.run_id, job.epoch))
            if lost is None:
                job.written.succeed(None)
            else:
                job.written.fail(lost)

    def _note_commits(self) -> None:
        if self._database is not None:
            self._database.note_commits()

    def _append(self, lives: Mapping[tuple[str, int], Sequence[Record]]) -> None:
        """Append the records of lives that are not lost, all in one transaction."""
        if lives.keys() <= self._lost.keys():
            return
        begun_at = lease_clock()
        database = self.opened()
        seconds: dict[tuple[str, int], float] = {}
        with database.transaction():
            if any(is_large(record.body) for records in lives.values() for record in records):
                database.lock("blobs")
            # In order, so that no two processes wait for each other's rows.
            for life in sorted(lives.keys() - self._lost.keys()):
                try:
                    seconds[life] = self._append_to(database, life, lives[life])
                except JournalError as error:  # of this run alone; nothing of it was written
                    self._lose(life, error)
        for life, left in seconds.items():
            self._note_lease(life, begun_at, left)

    def _append_to(self, database: Database, life: tuple[str, int], records: Sequence[Record]) -> float:
        """Append records to a life, and return the seconds of its lease."""
        if self._writer:
            return tables.append_as_writer(database, *life, records, self._writer)
        tables.append_records(database, *life, records)
        return tables.LEASE_SECONDS

    def _lose(self, life: tuple[str, int], error: JournalError) -> None:
        """Note that a life can record nothing more."""
        self._lost[life] = error
        if isinstance(error, RunTakenOverError) and self._leases.get(life[0]) == life[1]:
            del self._leases[life[0]]

    def _renew(self) -> None:
        """Renew the leases of all runs in progress; one that was taken over fails when it records next."""
        database = self._database
        if database is None:
            return
        begun_at = lease_clock()
        try:
            for renew in self._also_renewed:
                renew(database)
            with database.transaction():
                for life in sorted(self._leases.items()):
                    try:
                        tables.renew_lease(database, *life)
                    except JournalError as error:
                        self._lose(life, error)
            for life in self._leases.items():
                self._note_lease(life, begun_at)
        except Exception as error:
            if database.is_broken:
                self._break_off(error)

    def _give_back(self, database: Database) -> None:
        """Give back the leases of runs that could not be ended, so that the next process need not wait."""
        while self._abandoned:
            run_id, (epoch, error) = self._abandoned.popitem()
            with suppress(RunTakenOverError):
                tables.end_run(database, run_id, epoch, "failed", error)

    def _end(self) -> None:
        """Close the database; runs in progress have failed."""
        for run_id, epoch in self._leases.items():
            lost = self._lost.get((run_id, epoch), "the store was closed")
            self._abandoned.setdefault(run_id, (epoch, str(lost)))
        with suppress(Exception):  # nobody waits for it: leases that are not given back end by themselves
            if self._abandoned:
                self.opened()
        if self._database is not None:
            self._database.close()


def lease_clock() -> float:
    """The time of this machine in seconds, which goes on while the machine is suspended, where it can be."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def _grouped(batch: Sequence[_Job]) -> list[list[_Job]]:
    """The jobs of a batch, in order: appends that follow each other together, everything else by itself."""
    groups: list[list[_Job]] = []
    for job in batch:
        if groups and isinstance(job, _Append) and isinstance(groups[-1][0], _Append):
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups
