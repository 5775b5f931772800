"""One life of a run in its store."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType

import anyio

from ..causes import leaves_of
from ..journal_ports import OpenedJournal
from .acknowledgement import Acknowledgement
from .activity import Activity, IsDue, ParkedSignal
from .errors import JournalError, RunParked
from .open_lives import note_closed, note_open
from .records import Record
from .run_journal import RunJournal
from .store_thread import StoreThread
from .tables import RunStatus
from .writers import Writers


class OpenedRun(OpenedJournal):
    """One life of a run, from its claim to its end.

    Args:
        thread: The thread of the store.
        run_id: The run.
        make_journal: Makes the journal of the life.
        park_after: The seconds after which the run is parked when everything in it waits; None for never.
        admits_writers: Whether other processes may append to the run themselves.
    """

    def __init__(
        self,
        thread: StoreThread,
        run_id: str,
        make_journal: Callable[..., RunJournal],
        park_after: float | None = None,
        *,
        admits_writers: bool = False,
    ) -> None:
        self._admits_writers = admits_writers
        self._activity = None if park_after is None else Activity(park_after, self._find_due)
        self._thread = thread
        self._run_id = run_id
        self._make_journal = make_journal
        self._recorder: RunJournal | None = None

    def _begin(self, claimed: tuple[int, list[Record]]) -> RunJournal:
        epoch, records = claimed

        def append_later(later: Sequence[Record]) -> Acknowledgement[None]:
            return self._thread.append_later(self._run_id, epoch, later)

        self._recorder = self._make_journal(
            run_id=self._run_id,
            epoch=epoch,
            records=records,
            append=partial(self._thread.append, self._run_id, epoch),
            hold=partial(self._thread.hold, self._run_id, epoch),
            activity=self._activity,
            writers=Writers(self._thread, self._run_id, epoch) if self._admits_writers else None,
        )
        if not self._admits_writers:  # these are given a call when what came before it is written
            self._recorder.append_later = append_later
        note_open(self, self._run_id)
        return self._recorder

    async def _find_due(self, checks: Sequence[IsDue]) -> bool:
        """Whether something that the run waits for is in the store: also what its wait cannot read."""
        try:
            return await self._thread.perform(
                lambda: any(is_due(self._thread.opened()) for is_due in checks)
            ).wait()
        except JournalError:  # which the wait raises, too: in one place, so that it leaves the run bare
            return True

    def __enter__(self) -> RunJournal:
        if self._activity is not None:
            self._activity.cancels_run = False
        return self._begin(self._thread.claim(self._run_id).wait_in_thread())

    async def __aenter__(self) -> RunJournal:
        claim = self._thread.claim(self._run_id)
        with anyio.CancelScope(shield=True):  # a claim that was made has to be given back
            return self._begin(await claim.wait())
        raise AssertionError("a shielded scope is not cancelled")

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end = self._end(exc)
        try:
            wakes_at = end.ended.wait_in_thread()
        except JournalError:
            if exc is None or end.parked is not None:
                raise
        else:
            end.note_parked(wakes_at)
        self._raise(end, exc)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end = self._end(exc)
        try:
            with anyio.CancelScope(shield=True):
                end.note_parked(await end.ended.wait())
        except JournalError:
            if exc is None or end.parked is not None:
                raise
        self._raise(end, exc)

    def _raise(self, end: "_End", exc: BaseException | None) -> None:
        if end.divergence is not None:
            raise end.divergence
        if end.parked is not None and end.parked is not exc:
            raise end.parked from None

    def _end(self, exc: BaseException | None) -> "_End":
        note_closed(self)
        recorder = self._recorder
        assert recorder is not None
        error: BaseException | None = exc
        divergence: JournalError | None = None
        parked = self._parking_of(recorder, exc)
        if exc is None:
            try:
                recorder.check_end()
            except JournalError as found:
                error = divergence = found
        status: RunStatus = "ended" if error is None else "failed"
        if parked is not None:
            status, error = "parked", None
        elif error is not None and not isinstance(error, Exception):
            status = "cancelled"
        text = "" if error is None else f"{type(error).__name__}: {error}"[:2_000]
        try:
            if parked is not None:
                recorder.park()
            elif error is None:
                recorder.end()
            else:
                recorder.fail(error)
                if status == "cancelled":
                    recorder.interrupt()
            ended = self._thread.end(
                self._run_id,
                recorder.epoch,
                status,
                text,
                None if parked is None else parked.wakes_at,
                () if parked is None else recorder.due_checks(),
            )
        except JournalError as failure:
            ended = Acknowledgement[float | None]()
            ended.fail(failure)
        return _End(ended=ended, divergence=divergence, parked=parked)

    def _parking_of(self, recorder: RunJournal, exc: BaseException | None) -> RunParked | None:
        """Return how the run is parked, if all that it ended with are signs of that; None otherwise."""
        parked = None if exc is None else recorder.parking_error()
        if exc is None or parked is None:
            return None
        leaves = list(leaves_of(exc))
        is_parked = all(
            isinstance(each, ParkedSignal) or (isinstance(each, RunParked) and each.run_id == recorder.run_id)
            for each in leaves
        )
        if not is_parked:
            return None
        if isinstance(exc, RunParked):
            exc.wakes_at = parked.wakes_at  # something may have been recorded since it was raised
            return exc
        return parked


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """The end of a life on its way to the store.

    Args:
        ended: The time at which the run is due, when the end is durable.
        divergence: The error that the end of the program is.
        parked: The error that says that the run is parked; None where it is not.
    """

    ended: Acknowledgement[float | None]
    divergence: JournalError | None
    parked: RunParked | None

    def note_parked(self, wakes_at: float | None) -> None:
        """Note the time at which the parked run is due."""
        if self.parked is not None:
            self.parked.wakes_at = wakes_at
