"""The processes that append to a life of a run beside its own, as the process of the run sees them."""

from . import tables, writer_table
from .acknowledgement import Acknowledgement
from .errors import JournalError
from .records import Record
from .store_thread import StoreThread


class Writers:
    """The writers of one life of a run; see `writer_table`.

    The store's thread works in order: whoever waits for what is returned here has waited for all that was
    recorded before.

    Args:
        thread: The thread of the store.
        run_id: The run.
        epoch: The life.
    """

    def __init__(self, thread: StoreThread, run_id: str, epoch: int) -> None:
        self._thread = thread
        self._run_id = run_id
        self._epoch = epoch
        self._admitted: dict[str, Acknowledgement[None]] = {}

    def admit(self, writer: str) -> Acknowledgement[None]:
        """Let a writer append to the life. Returns the acknowledgement that it may."""
        admitted = self._admitted.get(writer)
        if admitted is None:
            admitted = self._thread.transact(
                writer_table.admit_writer, run_id=self._run_id, epoch=self._epoch, writer=writer
            )
            self._admitted[writer] = admitted
        return admitted

    def dismiss(self, writer: str) -> None:
        """Take nothing more from a writer, from before whatever this process records next."""
        if self._admitted.pop(writer, None) is not None:
            self._thread.transact(writer_table.dismiss_writer, run_id=self._run_id, writer=writer)

    def find_records(self, place: str) -> Acknowledgement[list[Record]]:
        """Read what was recorded in a place in this life, by whomever."""
        return self._thread.transact(tables.read_part, run_id=self._run_id, epoch=self._epoch, place=place)

    def lose_life(self, error: JournalError) -> None:
        """Let this life record nothing more, because a writer could not record what belongs to it."""
        self._thread.lose(self._run_id, self._epoch, error)
