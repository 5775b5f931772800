"""A store of journals."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from ..errors import ConfigurationError, NighthawkError
from ..observe import TaskTree
from ..ports import OpenedJournal
from ..recording.redaction import Redaction, Redactor
from . import tables
from .active_replay import find_replay
from .addresses import read_address
from .database import Database
from .export import export_lines
from .mailboxes import Mailboxes
from .opened_run import OpenedRun
from .recorder import Durability, NewCode
from .records import Record
from .run_journal import RunJournal
from .store_thread import StoreThread
from .tables import RunRow


class JournalStore:
    """A store of journals in a database. Made by `nighthawk_async.journal.open`.

    It may be made before any event loop runs and be shared by all runs of the process. Its thread begins with
    the first run. Close it with `close`, or use it as a context manager.

    Args:
        address: The address of the database, without a password.
        connect: Opens the database.
        durability: See `open`.
        new_code: See `open`.
    """

    def __init__(
        self, address: str, connect: Callable[[], Database], *, durability: Durability, new_code: NewCode
    ) -> None:
        self.address = address
        self.durability: Durability = durability
        self.new_code: NewCode = new_code
        self.thread = StoreThread(address, connect)
        self.mailboxes = Mailboxes(self.thread)

    def __repr__(self) -> str:
        return f"JournalStore({self.address!r})"

    def __enter__(self) -> "JournalStore":
        return self

    def __exit__(self, *exc_details: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what is waiting and end the thread. Closing again has no effect."""
        self.thread.close()

    def runs(self) -> list[RunRow]:
        """Return the runs of the store, in the order of their first lives. Blocks while it reads.

        Raises:
            JournalStoreError: The store cannot be read.
        """
        return self.thread.perform(lambda: tables.read_runs(self.thread.opened())).wait_in_thread()

    def records(self, run_id: str, *, after: int = 0) -> list[Record]:
        """Return the records of a run, in order. Blocks while it reads.

        Args:
            run_id: The run.
            after: The number of the last record to leave out; 0 for none.

        Raises:
            JournalStoreError: The store cannot be read.
        """
        return self.thread.perform(
            lambda: tables.read_records(self.thread.opened(), run_id, after=after)
        ).wait_in_thread()

    def tree(self, run_id: str, *, at: str | None = None) -> TaskTree:
        """Return the tree of a run, as `nighthawk_async.observe` shows it live. Blocks while it reads.

            print(nh.observe.view_as_text(store.tree("order-17").snapshot(), outputs=True))

        It is made of the records: inputs of functions and blocks are names alone, and what was not recorded,
        as the bindings that a model has set, is missing.

        Args:
            run_id: The run.
            at: The moment to show: the number of a record, a time in ISO format (in UTC without a zone), or a
                place, for the first record in it. None for the present.

        Raises:
            NighthawkError: There is no such run, or no such moment.
            JournalStoreError: The store cannot be read.
        """
        from .run_tree import records_until, tree_of  # here, because programs that run need no trees

        row, records = self._row(run_id), self.records(run_id)
        shown = records if at is None else records_until(records, at)
        return tree_of(shown, row, is_whole=len(shown) == len(records))

    def export(self, run_id: str, *, redact: tuple[Redaction, ...] = ()) -> Iterator[str]:
        """Return the records of a run as lines of JSON. Blocks while it reads.

        Secrets are replaced as in cassettes: values with the name of a secret, the credentials in the
        environment variables of the providers, texts that look like a key. Types that JSON lacks are texts,
        and bytes are digests.

        Args:
            run_id: The run.
            redact: More texts to remove, and functions that return a text without its secrets.

        Raises:
            JournalStoreError: The store cannot be read.
        """
        return export_lines(self.records(run_id), redact)

    async def send(self, run_id: str, name: str, value: object, *, id: str | None = None) -> None:
        """Send a message to a run, which receives it with `nighthawk_async.journal.receive`.

        The run may be in progress here or in another process, may have been interrupted, or may begin later.

        Args:
            run_id: The run.
            name: The name of the mailbox.
            value: The message: plain data, or of a type that is registered with `register`.
            id: The identity of the message, for senders that may send it again: of messages with the same id,
                a mailbox takes the first one only. None for one of its own.

        Raises:
            JournalValueError: The value cannot be stored.
            JournalStoreError: The store cannot be written.
            NighthawkError: A name or the id is empty.
        """
        if find_replay() is None:  # a replay writes nothing
            await self.mailboxes.send(run_id, name, value, id)

    def copy(self, run_id: str, path: str | os.PathLike[str], *, redact: tuple[Redaction, ...] = ()) -> None:
        """Copy a run into a file of its own, a store with this run alone. Blocks meanwhile.

        `nighthawk_async.testing.replay` makes a test of the file. Secrets are replaced as by `export`, and
        the types of values stay. A program that depends on a text that was replaced does something else in
        the replay. Mailboxes are left out: the records have the messages that the run has received.

        Args:
            run_id: The run.
            path: The file, which must not exist.
            redact: More texts to remove, and functions that return a text without its secrets.

        Raises:
            NighthawkError: There is no such run, or there is a file already.
            JournalStoreError: One of the stores cannot be used.
        """
        from .copies import write_copy

        target = Path(path)
        row = self._row(run_id)
        if target.exists():
            raise NighthawkError(f"{target} exists already; a run is copied into a new file")
        records, redactor = self.records(run_id), Redactor(redact)
        with open(f"sqlite:///{quote(str(target))}") as copy:
            write = partial(write_copy, row=row, records=records, redactor=redactor)
            try:
                copy.thread.perform(lambda: write(copy.thread.opened())).wait_in_thread()
            except BaseException:
                copy.close()
                target.unlink(missing_ok=True)
                raise

    def _row(self, run_id: str) -> RunRow:
        row = self.thread.perform(lambda: tables.find_run(self.thread.opened(), run_id)).wait_in_thread()
        if row is None:
            raise NighthawkError(f"{self.address} has no run {run_id!r}")
        return row

    def fork(
        self, run_id: str, *, at: str, to: str | None = None, set: Mapping[str, object] | None = None
    ) -> str:
        """Copy the beginning of a run to a new run, which the next process continues. Blocks meanwhile.

        The copy has what was recorded before something first happened in a place, in all tasks, and the
        results of calls that had begun by then. From the place on, the new run is live: models are asked, and
        calls that are effects are made with keys of the new run. Its mailboxes have the messages of the run.

        Args:
            run_id: The run.
            at: The place, `run/…`.
            to: The id of the new run; None for the id of the run with `-fork-1` and so on.
            set: Values to replace at the place, which then counts as ended with them: `result` of a call that
                is an effect, `value` of `now`, `random` and `sleep`, `message` of `receive`, `answer` of a
                question, or a binding of a step whose executor asked no model. Plain data, of the recorded
                type; where the type was declared, what pydantic makes the value from.

        Returns:
            The id of the new run.

        Raises:
            NighthawkError: There is no such run or place, there is a run with the new id, or a value cannot
                be set.
            CallInDoubtError: A call that would be copied is in doubt.
            JournalValueError: A value cannot be stored.
            JournalStoreError: The store cannot be written.
        """
        from .forks import fork_run  # here, because programs that run need no forks

        return self.thread.perform(
            lambda: fork_run(self.thread.opened(), run_id, at=at, to=to, values=set or {})
        ).wait_in_thread()

    def open_run(self, run_id: str) -> OpenedJournal:
        """Open the journal of a run; see `ports.JournalStore`."""
        if (open_replay := find_replay()) is not None:
            return open_replay(run_id)
        make_journal = partial(
            RunJournal, durability=self.durability, new_code=self.new_code, mailboxes=self.mailboxes
        )
        return OpenedRun(self.thread, run_id, make_journal)


def open(
    url: str,
    *,
    durability: Durability = "response",
    changes: Literal["error", "insert"] = "error",
) -> JournalStore:
    """Open a store of journals: a database in which runs are recorded, to be continued by later processes.

        store = nh.journal.open("sqlite:///runs.db")
        async with nh.run(executor, journal=store, run_id="order-17"): ...

    Args:
        url: The address: `sqlite:///` and a path, relative or (with a fourth slash) absolute; or
            `postgresql://user:password@host:5432/database`, which needs the extra `postgresql`.
        durability: The time at which a run waits for its records: `response` after each response of a model,
            before anything that it asks for is done; `effect` only before each call that is an effect. The
            latter is faster, and loses the latest responses in a crash.
        changes: The handling of code that the records do not have: `error` raises `JournalDivergenceError`,
            `insert` runs it.

    Raises:
        ConfigurationError: The address or an option is not one of these, or the extra is not installed.
    """
    if durability not in ("response", "effect"):
        raise ConfigurationError(f"durability must be 'response' or 'effect', not {durability!r}")
    if changes not in ("error", "insert"):
        raise ConfigurationError(f"changes must be 'error' or 'insert', not {changes!r}")
    address, connect = read_address(url)
    return JournalStore(address, connect, durability=durability, new_code=changes)
