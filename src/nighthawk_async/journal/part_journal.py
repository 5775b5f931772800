"""The journal of a part of a run, in another process than that of the run: on a worker."""

from collections.abc import Callable
from typing import NoReturn

from .errors import JournalDivergenceError, JournalError
from .known_objects import KnownObjects, said_on_worker
from .mailboxes import Choose, Inbox, Mailboxes
from .message_table import Message
from .parts import RunPart
from .people import Questions
from .recorder import Append, Hold
from .run_journal import RunJournal
from .store_thread import StoreThread


class PartJournal(RunJournal):
    """The journal of a part of a run; see `parts`.

    Args:
        part: The part.
        append: Hands records to the process of the run.
        hold: Makes sure that this life still has the run.
        blocks_for_ever: Whether synchronous code of the caller would block the event loop that is needed to
            hear from the process of the run.
        make_questions: Makes the questions of the store from a thread that opens none.
        has_counted: Whether the request of a place, relative to the run, has counted in this life.
    """

    def __init__(
        self,
        part: RunPart,
        *,
        append: Append,
        hold: Hold,
        blocks_for_ever: Callable[[], bool],
        make_questions: Callable[[StoreThread], Questions],
        has_counted: Callable[[str], bool],
    ) -> None:
        nothing = StoreThread("", _refuse_connection)
        nowhere = Mailboxes(nothing)
        super().__init__(
            run_id=part.run_id,
            epoch=part.epoch,
            records=part.records,
            append=append,
            hold=hold,
            durability=part.durability,
            new_code=part.new_code,
            mailboxes=nowhere,
            rules=part.rules,
            questions=make_questions(nothing),
            life=part.life,
            lives=part.lives,
        )
        self.identity_version = part.identity
        said = said_on_worker(part.run_id, part.lives[part.epoch].first_at)
        self.known_objects = KnownObjects(part.rules, is_replay=False, said=said)
        self._root = part.root
        self.orders = self.make_orders(part.place)
        self.delivery.on_divergence = lambda: None  # the process of the run records it; see `PartEnd`
        self._blocks_for_ever = blocks_for_ever
        self._divergence = part.divergence
        self._has_counted = has_counted
        self.inbox = _NoInbox(part.run_id, nowhere, ())

    def has_counted(self, place: str) -> bool:
        """Return whether a recorded response has counted; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        return self.has_response(place) and self._has_counted(place)

    def check_new(self, place: str) -> None:
        """Check that a place may be new; see `RunRecorder.check_new`."""
        if self._divergence is not None:
            text, where = self._divergence
            raise JournalDivergenceError(text, place=where)
        super().check_new(place)

    def _divergence_at(self, place: str) -> tuple[str, str] | None:
        return self._divergence or super()._divergence_at(place)

    def begin_new_in_thread(self, place: str, hold: Callable[[], None] | None = None) -> None:
        """Pass a place from synchronous code; see `RunRecorder.begin_new_in_thread`.

        Raises:
            JournalError: The caller blocks the event loop, which has to wait for the process of the run.
        """
        if self._blocks_for_ever():
            raise JournalError(
                f"{place}: on this worker, a synchronous call that is an effect cannot be made on the event "
                "loop, which has to wait until the program has recorded it. Make the function async, or call "
                "it in a thread, with anyio.to_thread.run_sync for example. Nothing was begun."
            )
        super().begin_new_in_thread(place, hold)


class _NoInbox(Inbox):
    """Mailboxes from which only the process of the run receives."""

    async def take(self, name: str, seconds: float | None, choose: Choose, limit: int) -> tuple[Message, ...]:
        """Refuse to receive."""
        raise JournalError(
            f"a call on a worker cannot receive messages, of the mailbox {name!r}: receive them in the "
            "program, and pass them as arguments."
        )


def _refuse_connection() -> NoReturn:
    raise JournalError("a worker opens no store of the run")
