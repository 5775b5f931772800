"""A store of journals."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ..errors import ConfigurationError, NighthawkError
from ..journal_ports import OpenedJournal
from ..observe import TaskTree
from ..recording.redaction import Redaction, Redactor
from . import tables
from .active_replay import find_replay, is_replaying
from .addresses import is_shared_address, read_address
from .audit import Audit
from .database import Database
from .diverged_lives import records_that_count
from .encryption import Key, read_codec, read_key
from .export import export_lines
from .mailboxes import Mailboxes
from .names import check_id
from .opened_run import OpenedRun
from .people import Questions
from .pruning import EndedStatus, PruneReport, prune_runs
from .queues import Queues
from .recorder import ROOT, Durability, NewCode
from .records import Record
from .reencryption import reencrypt_runs
from .run_journal import RunJournal
from .run_writes import refuse_after_divergence, send_message
from .store_budgets import StoreBudgets
from .store_mark import mark_path
from .store_questions import StoreQuestions
from .store_queues import StoreQueues
from .store_thread import StoreThread
from .store_topics import StoreTopics
from .tables import RunRow
from .values import DEFAULT_RULES, MAX_VALUE_BYTES, ValueRules, decode_value
from .verification import VerifiedRun, verify_runs

_MOST_VALUE_BYTES = 256 * 1024 * 1024  # of which PostgreSQL can store one
_LEAST_KEY_BYTES = 16


class JournalStore(StoreQueues, StoreQuestions, StoreBudgets, StoreTopics):
    """A store of journals in a database. Made by `nighthawk_async.journal.open`.

    It may be made before any event loop runs and be shared by all runs of the process. Its thread begins with
    the first run. Close it with `close`, or use it as a context manager.

    Args:
        address: The address of the database, without a password.
        connect: Opens the database.
        durability: See `open`.
        new_code: See `open`.
        rules: The rules for values and records.
        admits_writers: Whether the workers of a run may append to it themselves.
    """

    def __init__(
        self,
        address: str,
        connect: Callable[[], Database],
        *,
        durability: Durability,
        new_code: NewCode,
        rules: ValueRules = DEFAULT_RULES,
        admits_writers: bool = False,
    ) -> None:
        self.address = address
        self._admits_writers = admits_writers
        self.durability: Durability = durability
        self.new_code: NewCode = new_code
        self.rules = rules
        thread = StoreThread(address, connect)
        self.mailboxes = Mailboxes(thread, rules)
        StoreQueues.__init__(self, thread, Queues(thread, rules))
        StoreQuestions.__init__(self, Questions(thread, rules))

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
        check_id(run_id)
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

    def verify(self, run_id: str | None = None) -> list[VerifiedRun]:
        """Check that no record was changed, removed or inserted since it was recorded. Blocks while it reads.

        Without an audit key, this finds accidents and careless changes: who can write the file can make the
        chain fit. With one, only who has the key can do that. Earlier states of whole runs, and runs that
        were removed with their row, are not noticed.

        Args:
            run_id: The run; None for all of them.

        Returns:
            The runs.

        Raises:
            JournalAuditError: A record does not fit; or the run has the chain of another audit key.
            JournalKeyError: A large encrypted body cannot be read without its key.
            JournalStoreError: The store cannot be read.
        """
        if run_id is not None:
            check_id(run_id)
        return verify_runs(self.thread, run_id)

    def prune(
        self,
        older_than: timedelta,
        *,
        statuses: Collection[EndedStatus] = ("ended",),
        dry_run: bool = False,
    ) -> PruneReport:
        """Delete the records of runs that have ended, their messages, calls in queues and questions. Blocks.

        It works in small pieces. The rows of the runs stay, so that no run is repeated by accident: entering
        one of them, sending a message to it, enqueueing its key, and asking for its result raise
        `RunPrunedError`. Runs in progress, parked, or in a queue that a worker has still to serve are never
        touched.

        Args:
            older_than: The time since they have ended.
            statuses: The statuses of runs to prune. Runs that have `failed` or were `cancelled` can continue,
                until they are pruned.
            dry_run: Whether nothing is deleted, to see what would be.

        Returns:
            The deleted runs, and how much it was.

        Raises:
            ConfigurationError: A status is another one.
            JournalAuditError: A run has the chain of another audit key.
            JournalStoreError: The store cannot be written.
        """
        unknown = set(statuses) - {"ended", "failed", "cancelled"}
        if unknown or not statuses or older_than < timedelta(0):
            raise ConfigurationError(
                "prune takes the statuses 'ended', 'failed' and 'cancelled', and a time that is not negative"
            )
        is_trial = dry_run or is_replaying()
        if not is_trial:
            refuse_after_divergence("store.prune()")
        return prune_runs(self.thread, older_than, tuple(statuses), is_trial=is_trial)

    def reencrypt(self) -> int:
        """Encrypt everything that is stored with the active key, and chain it with the audit key. Blocks.

        For a store that was written without keys or with other ones. Stop all programs that use the store
        first. Each run is written in one transaction. The chain of a run is checked before; where it is one
        of another audit key, or none, what is there is trusted, so call `verify` with the old key first.

        Returns:
            The number of runs.

        Raises:
            JournalAuditError: Records of a run do not fit their chain.
            JournalKeyError: A key is missing, or is another one.
            RunInProgressError: A process works on a run.
            JournalStoreError: The store cannot be written.
        """
        return reencrypt_runs(self.thread)

    async def send(self, run_id: str, name: str, value: object, *, id: str | None = None) -> None:
        """Send a message to a run, which receives it with `nighthawk_async.journal.receive`.

        The run may be in progress here or in another process, may have been interrupted, or may begin later.

        Args:
            run_id: The run.
            name: The name of the mailbox.
            value: The message: plain data, or of a type that is registered with `register`.
            id: The identity of the message, for senders that may send it again: of messages with the same id,
                a mailbox takes the first one only. None for one of its own; within a durable run, for one
                that is the same in all lives.

        Raises:
            JournalValueError: The value or a name cannot be stored, or the value is too large.
            JournalKeyError: A key of the encryption is missing, or is another one.
            JournalDivergenceError: The active run has sent something else there, or its program has changed.
            RunPrunedError: The records of the run were deleted.
            JournalStoreError: The store cannot be written.
            NighthawkError: A name or the id is empty.
        """
        await send_message(self.mailboxes, run_id, name, value, id)

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
        with open(target) as copy:
            try:
                copy.thread.perform(
                    lambda: write_copy(copy.thread.opened(), row=row, records=records, redactor=redactor)
                ).wait_in_thread()
            except BaseException:
                copy.close()
                target.unlink(missing_ok=True)
                raise
            finally:
                copy.close()
                mark_path(target).unlink(missing_ok=True)  # a copy has no log to lose

    def _row(self, run_id: str) -> RunRow:
        check_id(run_id)
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
        It is in no queue: enter it with `nighthawk_async.run`, or enqueue the call with its id as the key.

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

        check_id(run_id)
        refuse_after_divergence("store.fork()")
        return self.thread.perform(
            lambda: fork_run(self.thread.opened(), run_id, at=at, to=to, values=set or {})
        ).wait_in_thread()

    async def find_values(self, run_id: str, names: Collection[str]) -> Mapping[str, Any]:
        """Return values that a run has kept; see `journal_ports.JournalStore`."""
        check_id(run_id)
        read = self.thread.perform(lambda: tables.read_records(self.thread.opened(), run_id))
        records = records_that_count(await read.wait())
        bodies = {record.place: record.body for record in records if record.kind == "value"}
        places = {name: f"{ROOT}/{name}" for name in names}
        return {
            name: decode_value(bodies[place], place=place)
            for name, place in places.items()
            if place in bodies
        }

    def open_run(self, run_id: str, park_after: float | None = None) -> OpenedJournal:
        """Open the journal of a run; see `journal_ports.RunOpener`."""
        if (open_replay := find_replay()) is not None:
            return open_replay(run_id)
        make_journal = partial(
            RunJournal,
            durability=self.durability,
            new_code=self.new_code,
            mailboxes=self.mailboxes,
            rules=self.rules,
            questions=self._questions,
        )
        return OpenedRun(self.thread, run_id, make_journal, park_after, admits_writers=self._admits_writers)


def open(
    location: str | os.PathLike[str],
    *,
    durability: Durability = "response",
    changes: Literal["error", "insert"] = "error",
    keys: Mapping[str, Key] | None = None,
    active_key: str | None = None,
    audit_key: Key | None = None,
    max_value_bytes: int = MAX_VALUE_BYTES,
    strict: bool = False,
) -> JournalStore:
    """Open a store of journals: a database in which runs are recorded, to be continued by later processes.

        store = nh.journal.open("runs.db")
        async with nh.run(executor, journal=store, run_id="order-17"): ...

    Args:
        location: The path of a SQLite file; or an address: `sqlite:///` and a path, relative or (with a
            fourth slash) absolute; or `postgresql://user:password@host:5432/database`, which needs the extra
            `postgresql`.
        durability: The time at which a run waits for its records: `response` after each response of a model,
            before anything that it asks for is done; `effect` only before each call that is an effect. The
            latter is faster, and loses the latest responses in a crash.
        changes: The handling of code that the records do not have: `error` raises `JournalDivergenceError`,
            `insert` runs it.
        keys: The keys of the encryption by their ids, of 32 bytes each, which needs the extra `encryption`;
            None for no encryption. A text is the name of an environment variable that has the key in Base64.
        active_key: The id of the key that new bodies are encrypted with; None for the only one.
        audit_key: The key of the chains that `JournalStore.verify` checks, of at least 16 bytes, or the name
            of an environment variable that has it in Base64; None for chains without a key.
        max_value_bytes: The greatest size of one value and one record, in bytes. A larger one raises
            `JournalValueError` before it is stored.
        strict: Whether a block or an effect that depends on an object of which nobody knows what it is raises
            `JournalIdentityError` before it begins. Otherwise the run goes on, with a
            `JournalIdentityWarning`. See `register`.

    Raises:
        ConfigurationError: The address or an option is not one of these, or an extra is not installed.
    """
    if durability not in ("response", "effect"):
        raise ConfigurationError(f"durability must be 'response' or 'effect', not {durability!r}")
    if changes not in ("error", "insert"):
        raise ConfigurationError(f"changes must be 'error' or 'insert', not {changes!r}")
    if not 0 < max_value_bytes <= _MOST_VALUE_BYTES:
        raise ConfigurationError(f"max_value_bytes is from 1 to {_MOST_VALUE_BYTES:,}, not {max_value_bytes}")
    chain_key = None if audit_key is None else read_key(audit_key, "audit_key")
    if chain_key is not None and len(chain_key) < _LEAST_KEY_BYTES:
        raise ConfigurationError(f"audit_key has {len(chain_key)} bytes, and at least {_LEAST_KEY_BYTES}")
    codec = read_codec(keys, active_key, chain_key)
    address, connect = read_address(location)

    def connect_protected() -> Database:
        database = connect()
        database.codec, database.audit = codec, Audit(chain_key)
        return database

    return JournalStore(
        address,
        connect_protected,
        durability=durability,
        new_code=changes,
        rules=ValueRules(max_bytes=max_value_bytes, keeps_secrets=bool(codec.active_key), is_strict=strict),
        # They have no keys. Nor could a chain with a key tell what they append from what others do.
        admits_writers=is_shared_address(location) and not codec.active_key and chain_key is None,
    )
