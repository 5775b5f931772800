"""A store of journals."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

from ..errors import ConfigurationError
from ..policies.people.request import HumanHandler
from ..ports import OpenedJournal
from ..recording.redaction import Redaction
from . import tables
from .addresses import read_address
from .database import Database
from .export import export_lines
from .mailboxes import Mailboxes
from .opened_run import OpenedRun
from .people import Questions, StorePeople
from .question_table import QuestionRow
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
        self._questions = Questions(self.thread)

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

    def records(self, run_id: str) -> list[Record]:
        """Return the records of a run, in order. Blocks while it reads.

        Args:
            run_id: The run.

        Raises:
            JournalStoreError: The store cannot be read.
        """
        return self.thread.perform(lambda: tables.read_records(self.thread.opened(), run_id)).wait_in_thread()

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
        await self.mailboxes.send(run_id, name, value, id)

    def questions(self, run_id: str | None = None) -> list[QuestionRow]:
        """Return the questions and requests for approval that wait for people. Blocks while it reads.

        Args:
            run_id: The run; None for all runs of the store.

        Raises:
            JournalStoreError: The store cannot be read.
        """
        return self._questions.read(run_id).wait_in_thread()

    async def answer(self, question_id: str, value: object) -> None:
        """Answer a question of a run, which may be in progress in any process, or parked: then it is due.

        The first answer counts. The run validates it by the type of the question; if it does not fit, the
        question stays open.

        Args:
            question_id: The `id` of the question.
            value: The answer, as plain data.

        Raises:
            RequestClosedError: The question was answered, its time is over, or its run does not wait for it.
            AnswerRefusedError: The value does not match the schema of the question, or it is a request for
                approval.
            JournalValueError: The value is no plain data.
            JournalStoreError: The store cannot be written.
            NighthawkError: There is no such question.
        """
        await self._questions.answer(question_id, value)

    async def vote(
        self, question_id: str, *, approve: bool, voter: str, digest: str | None = None, reason: str = ""
    ) -> None:
        """Vote on a request for approval of a run, which may be in progress in any process, or parked.

        Args:
            question_id: The `id` of the request.
            approve: Whether the person approves. Denying withdraws the approval of the same person, or else
                denies the request.
            voter: The person. The host must authenticate them.
            digest: The digest of what that person saw; needed to approve.
            reason: The reason of a denial.

        Raises:
            RequestClosedError: The votes have decided, the time is over, or the run does not wait for it.
            WrongDigestError: The person saw another action or other arguments.
            UnknownApproverError: That person is not an approver.
            AnswerRefusedError: That person has approved already, or it is a question.
            JournalStoreError: The store cannot be written.
            NighthawkError: There is no such request.
        """
        await self._questions.vote(question_id, approve=approve, voter=voter, digest=digest, reason=reason)

    def people(self) -> HumanHandler:
        """Return a handler for runs of this store in which people answer through `answer` and `vote` alone.

            async with nh.run(executor, journal=store, run_id="order-17", human=store.people()): ...

        With another handler, answers through the store count as well: whichever comes first.
        """
        return StorePeople(self._questions)

    def open_run(self, run_id: str, park_after: float | None = None) -> OpenedJournal:
        """Open the journal of a run; see `ports.JournalStore`."""
        make_journal = partial(
            RunJournal,
            durability=self.durability,
            new_code=self.new_code,
            mailboxes=self.mailboxes,
            questions=self._questions,
        )
        return OpenedRun(self.thread, run_id, make_journal, park_after)


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
