"""A store of journals, and the thread that reads and writes it.

One thread per store owns the database. It works the same on Trio and on asyncio, and in programs without an
event loop. Records are written in the order in which they were handed in, all that wait in one transaction,
so a durable record implies every earlier one of the same process.
"""

import os
import queue
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeAlias, TypeVar, cast
from urllib.parse import unquote

import anyio
from msgspec import Struct

from ..errors import ConfigurationError
from ..ports import OpenedJournal
from . import sqlite
from .acknowledgement import Acknowledgement
from .errors import JournalError, JournalStoreError
from .recorder import Durability, NewCode
from .records import Record
from .run_journal import RunJournal
from .sqlite import RunRow, RunStatus

Result = TypeVar("Result")

_MOST_BATCH = 1_000
_RENEW_SECONDS = sqlite.LEASE_SECONDS / 3
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

    function: Callable[[sqlite3.Connection], Any]
    done: Acknowledgement[Any]


_Job: TypeAlias = _Append | _Task


class JournalStore:
    """A store of journals in a SQLite file. Made by `nighthawk_async.journal.open`.

    It may be made before any event loop runs and be shared by all runs of the process. Its thread begins with
    the first run. Close it with `close`, or use it as a context manager.

    Args:
        path: The file.
        durability: See `open`.
        new_code: See `open`.
    """

    def __init__(self, path: Path, *, durability: Durability, new_code: NewCode) -> None:
        self.path = path
        self.durability: Durability = durability
        self.new_code: NewCode = new_code
        self._token = uuid.uuid4().hex[:8]
        self._process = 0  # of the thread
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._failure: JournalStoreError | None = None
        self._leases: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"JournalStore({str(self.path)!r})"

    def __enter__(self) -> "JournalStore":
        return self

    def __exit__(self, *exc_details: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what is waiting and end the thread. Closing again has no effect."""
        with self._lock:
            thread, self._is_closed = self._thread, True
            self._thread = None
        if thread is not None and self._process == os.getpid():  # a forked process has no such thread
            self._jobs.put(None)
            thread.join(_CLOSE_SECONDS)

    def runs(self) -> list[RunRow]:
        """Return the runs of the store, in the order of their first lives. Blocks while it reads.

        Raises:
            JournalStoreError: The store cannot be read.
        """
        return self._perform(sqlite.read_runs).wait_in_thread()

    def records(self, run_id: str) -> list[Record]:
        """Return the records of a run, in order. Blocks while it reads.

        Args:
            run_id: The run.

        Raises:
            JournalStoreError: The store cannot be read.
        """
        return self._perform(lambda connection: sqlite.read_records(connection, run_id)).wait_in_thread()

    def open_run(self, run_id: str) -> OpenedJournal:
        """Open the journal of a run; see `ports.JournalStore`."""
        return _OpenedRun(self, run_id)

    def claim(self, run_id: str) -> Acknowledgement[tuple[int, list[Record]]]:
        """Begin a life of a run; see `sqlite.claim_run`."""

        def claim_run(connection: sqlite3.Connection) -> tuple[int, list[Record]]:
            claimed = sqlite.claim_run(connection, run_id, sqlite.process_name(self._token))
            self._leases[run_id] = claimed[0]
            return claimed

        return self._perform(claim_run)

    def append(self, run_id: str, epoch: int, records: Sequence[Record]) -> Acknowledgement[None]:
        """Hand records in.

        Returns:
            Their acknowledgement, when they are durable.
        """
        written: Acknowledgement[None] = Acknowledgement()
        self._put(_Append(run_id=run_id, epoch=epoch, records=records, written=written))
        return written

    def end(self, run_id: str, epoch: int, status: RunStatus, error: str) -> Acknowledgement[None]:
        """End a life of a run; see `sqlite.end_run`."""

        def end_run(connection: sqlite3.Connection) -> None:
            sqlite.end_run(connection, run_id, epoch, status, error)
            self._leases.pop(run_id, None)

        return self._perform(end_run)

    def _perform(self, function: Callable[[sqlite3.Connection], Result]) -> Acknowledgement[Result]:
        done: Acknowledgement[Result] = Acknowledgement()
        self._put(_Task(function=function, done=done))
        return done

    def _put(self, job: _Job) -> None:
        with self._lock:
            if self._is_closed:
                raise JournalStoreError(f"the journal {self.path} is closed")
            if self._thread is not None and self._process != os.getpid():
                raise JournalStoreError(
                    f"the journal {self.path} was in use when this process was forked from process "
                    f"{self._process}; open it again here."
                )
            if self._thread is None:
                self._process = os.getpid()
                name = f"nighthawk_async journal {self.path.name}"
                self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._thread.start()
            self._jobs.put(job)

    def _work(self) -> None:
        """Do the jobs, until the store is closed. After a failure to write, every further job fails."""
        connection: sqlite3.Connection | None = None
        renewed_at = time.monotonic()
        while True:
            batch = self._next_batch(renewed_at)
            if batch is None:
                break
            if time.monotonic() - renewed_at >= _RENEW_SECONDS:
                renewed_at = time.monotonic()
                self._renew(connection)
            for appends in _grouped(batch):
                try:
                    if self._failure is not None:
                        raise self._failure
                    if connection is None:
                        connection = sqlite.open_database(self.path)
                    self._do(connection, appends)
                except JournalError as error:
                    _fail(appends, error)
                except Exception as error:
                    self._failure = JournalStoreError(f"the journal {self.path} cannot be used: {error}")
                    self._failure.__cause__ = error
                    _fail(appends, self._failure)
        if connection is not None:
            self._give_back(connection)
            connection.close()

    def _next_batch(self, renewed_at: float) -> list[_Job] | None:
        """The next jobs, maybe none; None at the end."""
        wait = max(0.0, renewed_at + _RENEW_SECONDS - time.monotonic()) if self._leases else None
        try:
            first = self._jobs.get(timeout=wait)
        except queue.Empty:
            return []
        batch: list[_Job] = []
        job: _Job | None = first
        while job is not None:
            batch.append(job)
            if len(batch) == _MOST_BATCH:
                return batch
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return batch
        if batch:
            self._jobs.put(None)  # the end comes after these
            return batch
        return None

    def _do(self, connection: sqlite3.Connection, jobs: Sequence[_Job]) -> None:
        if isinstance(jobs[0], _Task):
            jobs[0].done.succeed(jobs[0].function(connection))
            return
        appends = cast("Sequence[_Append]", jobs)
        refused: dict[int, JournalError] = {}
        records = [record for job in appends for record in job.records] if commit_listeners else []
        for listener in commit_listeners:
            listener("before", records)
        with sqlite.transaction(connection):
            for number, job in enumerate(appends):
                try:
                    sqlite.append_records(connection, job.run_id, job.epoch, job.records)
                except JournalError as error:  # of this run alone; nothing of it was written
                    refused[number] = error
        for listener in commit_listeners:
            listener("after", records)
        for number, job in enumerate(appends):
            if number in refused:
                self._leases.pop(job.run_id, None)
                job.written.fail(refused[number])
            else:
                job.written.succeed(None)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        """Give back the leases of runs that could not be ended, so that the next process need not wait."""
        for run_id, epoch in self._leases.items():
            with suppress(sqlite3.Error, JournalError):
                sqlite.end_run(
                    connection, run_id, epoch, "failed", str(self._failure or "the store was closed")
                )

    def _renew(self, connection: sqlite3.Connection | None) -> None:
        """Renew the leases of all runs in progress; a run that was taken over fails when it records next."""
        if connection is None:
            return
        with suppress(sqlite3.Error), sqlite.transaction(connection):
            for run_id, epoch in tuple(self._leases.items()):
                try:
                    sqlite.renew_lease(connection, run_id, epoch)
                except JournalError:
                    self._leases.pop(run_id, None)


def _grouped(batch: Sequence[_Job]) -> list[list[_Job]]:
    """The jobs of a batch, in order: appends that follow each other together, everything else by itself."""
    groups: list[list[_Job]] = []
    for job in batch:
        if groups and isinstance(job, _Append) and isinstance(groups[-1][0], _Append):
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups


def _fail(jobs: Sequence[_Job], error: Exception) -> None:
    for job in jobs:
        waiter: Acknowledgement[Any] = job.written if isinstance(job, _Append) else job.done
        waiter.fail(error)


class _OpenedRun(OpenedJournal):
    """One life of a run, from its claim to its end."""

    def __init__(self, store: JournalStore, run_id: str) -> None:
        self._store = store
        self._run_id = run_id
        self._recorder: RunJournal | None = None

    def _begin(self, claimed: tuple[int, list[Record]]) -> RunJournal:
        epoch, records = claimed
        store = self._store
        self._recorder = RunJournal(
            run_id=self._run_id,
            epoch=epoch,
            records=records,
            append=partial(store.append, self._run_id, epoch),
            durability=store.durability,
            new_code=store.new_code,
        )
        return self._recorder

    def __enter__(self) -> RunJournal:
        return self._begin(self._store.claim(self._run_id).wait_in_thread())

    async def __aenter__(self) -> RunJournal:
        claim = self._store.claim(self._run_id)
        with anyio.CancelScope(shield=True):  # a claim that was made has to be given back
            return self._begin(await claim.wait())
        raise AssertionError("a shielded scope is not cancelled")

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        ended, divergence = self._end(exc)
        try:
            ended.wait_in_thread()
        except JournalError:
            if exc is None:
                raise
        if divergence is not None:
            raise divergence

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        ended, divergence = self._end(exc)
        try:
            with anyio.CancelScope(shield=True):
                await ended.wait()
        except JournalError:
            if exc is None:
                raise
        if divergence is not None:
            raise divergence

    def _end(self, exc: BaseException | None) -> tuple[Acknowledgement[None], JournalError | None]:
        recorder = self._recorder
        assert recorder is not None
        error: BaseException | None = exc
        divergence: JournalError | None = None
        if exc is None:
            try:
                recorder.check_end()
            except JournalError as found:
                error = divergence = found
        status: RunStatus = "ended" if error is None else "failed"
        if error is not None and not isinstance(error, Exception):
            status = "cancelled"
        text = "" if error is None else f"{type(error).__name__}: {error}"[:2_000]
        try:
            if error is None:
                recorder.end()
            return self._store.end(self._run_id, recorder.epoch, status, text), divergence
        except JournalError as failure:
            failed: Acknowledgement[None] = Acknowledgement()
            failed.fail(failure)
            return failed, divergence


def open(
    url: str,
    *,
    durability: Durability = "response",
    changes: Literal["error", "insert"] = "error",
) -> JournalStore:
    """Open a store of journals: a file in which runs are recorded, to be continued by later processes.

        store = nh.journal.open("sqlite:///runs.db")
        async with nh.run(executor, journal=store, run_id="order-17"): ...

    Args:
        url: The address: `sqlite:///` and a path, relative or (with a fourth slash) absolute.
        durability: The time at which a run waits for its records: `response` after each response of a model,
            before anything that it asks for is done; `effect` only before each call that is an effect. The
            latter is faster, and loses the latest responses in a crash.
        changes: The handling of code that the records do not have: `error` raises `JournalDivergenceError`,
            `insert` runs it.

    Raises:
        ConfigurationError: The address or an option is not one of these.
    """
    scheme, separator, path = url.partition(":///")
    if not separator or scheme != "sqlite" or not path:
        raise ConfigurationError(
            f"{url!r} is no address of a journal; write sqlite:///runs.db, or sqlite:////var/lib/app/runs.db "
            "for an absolute path."
        )
    if durability not in ("response", "effect"):
        raise ConfigurationError(f"durability must be 'response' or 'effect', not {durability!r}")
    if changes not in ("error", "insert"):
        raise ConfigurationError(f"changes must be 'error' or 'insert', not {changes!r}")
    return JournalStore(Path(unquote(path)), durability=durability, new_code=changes)
