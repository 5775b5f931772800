"""One life of a run in its store."""

from collections.abc import Callable
from functools import partial
from types import TracebackType

import anyio

from ..ports import OpenedJournal
from .acknowledgement import Acknowledgement
from .errors import JournalError
from .records import Record
from .run_journal import RunJournal
from .store_thread import StoreThread
from .tables import RunStatus


class OpenedRun(OpenedJournal):
    """One life of a run, from its claim to its end.

    Args:
        thread: The thread of the store.
        run_id: The run.
        make_journal: Makes the journal of the life.
    """

    def __init__(self, thread: StoreThread, run_id: str, make_journal: Callable[..., RunJournal]) -> None:
        self._thread = thread
        self._run_id = run_id
        self._make_journal = make_journal
        self._recorder: RunJournal | None = None

    def _begin(self, claimed: tuple[int, list[Record]]) -> RunJournal:
        epoch, records = claimed
        self._recorder = self._make_journal(
            run_id=self._run_id,
            epoch=epoch,
            records=records,
            append=partial(self._thread.append, self._run_id, epoch),
            hold=partial(self._thread.hold, self._run_id, epoch),
        )
        return self._recorder

    def __enter__(self) -> RunJournal:
        return self._begin(self._thread.claim(self._run_id).wait_in_thread())

    async def __aenter__(self) -> RunJournal:
        claim = self._thread.claim(self._run_id)
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
            else:
                recorder.fail(error)
                if status == "cancelled":
                    recorder.interrupt()
            return self._thread.end(self._run_id, recorder.epoch, status, text), divergence
        except JournalError as failure:
            failed: Acknowledgement[None] = Acknowledgement()
            failed.fail(failure)
            return failed, divergence
