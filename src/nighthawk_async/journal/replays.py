"""Replays of runs: the program again, from the records alone."""

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import Self

from ..errors import NighthawkError
from ..journal_ports import OpenedJournal
from ..kernel.environment import SourcePolicy, find_source, using_policy
from ..kernel.fold import Events, ModelCall, OpenRequest
from .active_replay import using_replay
from .errors import JournalError, ReplayEndError
from .frames import is_within
from .recorder import NewCode
from .records import Record
from .replay_journal import RecordedModel, ReplayJournal, find_bridged_frame, find_program_frame
from .store import JournalStore, open as open_store

Stopped = Callable[[FrameType], None]


class Replay:
    """A replay of a run. Made by `replay`.

    Attributes:
        run_id: The run.
        has_stopped: Whether it has come to the place to stop before.
        error: The error that has ended it; None for none.
    """

    def __init__(
        self,
        run_id: str,
        records: Sequence[Record],
        *,
        new_code: NewCode,
        until: str | None,
        stopped: Stopped | None,
    ) -> None:
        self.run_id = run_id
        self._new_code: NewCode = new_code
        self._records = records
        self._until = until
        self._stopped = stopped
        self._journal: ReplayJournal | None = None
        self._stack = ExitStack()
        self.has_stopped = False
        self.error: JournalError | None = None

    def __repr__(self) -> str:
        return f"<replay of run {self.run_id!r}, {len(self._records)} records>"

    def open_run(self, run_id: str, park_after: float | None = None) -> OpenedJournal:
        """Open the replay in place of a store; see `journal_ports.RunOpener`.

        Args:
            run_id: Any id.
            park_after: Without effect: a replay waits for nothing.
        """
        return _OpenedReplay(self)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(using_policy(_NoModels(find_source())))
            stack.enter_context(using_replay(self._open_recorded))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
        if self.error is not None and exc is not self.error and (exc is None or isinstance(exc, Exception)):
            raise self.error from exc

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(exc_type, exc, traceback)

    def check_complete(self) -> None:
        """Check that the program has come through everything that was recorded.

        Raises:
            JournalError: It has begun no run, or something is left.
        """
        if self._journal is None:
            raise JournalError(f"the program has begun no run, and this is a replay of run {self.run_id!r}")
        self._journal.check_end()

    def _open_recorded(self, run_id: str) -> OpenedJournal:
        if run_id != self.run_id:
            raise JournalError(
                f"the program begins run {run_id!r}, and this is a replay of run {self.run_id!r}: give it "
                "the same run_id."
            )
        return self.open_run(run_id)

    def make_journal(self) -> ReplayJournal:
        """Make the journal of a life that is replayed."""
        self._journal = ReplayJournal(
            run_id=self.run_id,
            records=self._records,
            new_code=self._new_code,
            reached=self._reach,
            keep_error=self.keep_error,
        )
        return self._journal

    def is_latest(self, journal: ReplayJournal) -> bool:
        """Whether the program has begun no run inside of this one, which has the records then."""
        return journal is self._journal

    def keep_error(self, error: JournalError) -> None:
        """Keep the first error that ends the replay, for the case that the program handles it."""
        self.error = self.error or error

    def _reach(self, place: str) -> None:
        """Stop at the place to stop before."""
        if self._until is None or self.has_stopped or not is_within(place, self._until):
            return
        self.has_stopped = True
        frame = self._find_frame(place)
        if self._stopped is not None and frame is not None:
            self._stopped(frame)
            return
        where = "" if frame is None else f": {frame.f_code.co_filename}:{frame.f_lineno}"
        name = "" if frame is None else f", in {frame.f_code.co_name}"
        error = ReplayEndError(f"the replay has stopped before {self._until}{where}{name}", place=self._until)
        self.keep_error(error)
        raise error

    def _find_frame(self, place: str) -> FrameType | None:
        """The frame of the program that has led to a place; None where it is in no thread of the program."""
        frames = {} if self._journal is None else self._journal.frames
        steps = sorted((step for step in frames if is_within(place, step)), key=len)
        here = find_program_frame(inspect.currentframe())
        return here or (frames[steps[-1]] if steps else find_bridged_frame())


class _OpenedReplay(OpenedJournal):
    """One life of a run that is replayed.

    Args:
        replay: The replay.
    """

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    def __enter__(self) -> ReplayJournal:
        self._journal = self._replay.make_journal()
        return self._journal

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._journal.frames.clear()
        if exc is None and self._replay.is_latest(self._journal):
            self._journal.check_end()

    async def __aenter__(self) -> ReplayJournal:
        return self.__enter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(exc_type, exc, traceback)


class _NoModels(SourcePolicy):
    """Refuses requests to models. Recorded responses pass through a cassette that records.

    Args:
        outer: The source that is active outside of the replay; None for none.
    """

    def __init__(self, outer: SourcePolicy | None) -> None:
        self._outer = outer

    @property
    def is_offline(self) -> bool:
        """True: keys of models are not needed."""
        return True

    def around_request(self, call: ModelCall, open_request: OpenRequest) -> Events:
        """Return a recorded response."""
        if not isinstance(call.model, RecordedModel):
            raise ReplayEndError(
                f"a replay asks no model, and {call.model.name} is asked outside of the run that is replayed",
                place="",
            )
        if self._outer is None or self._outer.is_offline:
            return open_request()
        return self._outer.around_request(call, open_request)


def replay(
    store: JournalStore | str | os.PathLike[str], run_id: str, *, until: str | None = None, pdb: bool = False
) -> Replay:
    """Replay a run: the program goes through it again, without models, without effects, and without writing.

        with nh.journal.replay("runs.db", "order-17"):
            anyio.run(main)  # its line nh.run(..., journal=store, run_id="order-17") gets the records

    Runs that begin inside get the records in place of their store. A replay may also be given as the
    `journal` of a run. Keys of models are not needed. Plain Python runs as in every life of a run, and so do
    tools with `every_life`. Waits are skipped; `patched` is true only where it was recorded as true. What has
    no record ends the replay with `ReplayEndError`: a request, a call that was in progress, a question
    without an answer. In an active cassette that records, the responses are recorded.

    What programs write to stores has no effect: `send`, `answer`, `vote`, `enqueue`, `requeue`, `schedule`,
    `unschedule`, `prune`. `enqueue` returns the id that it has returned in the run. `result` reads the store.

    Args:
        store: The store, its path or its address. All records are read here, and nothing is written.
        run_id: The run.
        until: The place to stop before, `run/…`; None for the end of the records.
        pdb: Whether to open the debugger there, in the frame of the program, and go on afterwards.

    Returns:
        A context manager, for `with` and for `async with`.

    Raises:
        NighthawkError: There is no such run.
        JournalStoreError: The store cannot be read.
        ReplayEndError: On leaving: the replay has come to its end before the program has.
        JournalDivergenceError: Inside: the program does something else than what was recorded.
    """
    if isinstance(store, str | os.PathLike):
        with open_store(store) as opened:
            return replay(opened, run_id, until=until, pdb=pdb)
    records = store.records(run_id)
    if not records:
        raise NighthawkError(f"{store.address} has no run {run_id!r}, or it has no records")
    return Replay(run_id, records, new_code=store.new_code, until=until, stopped=_debug if pdb else None)


def _debug(frame: FrameType) -> None:
    """Open the debugger in a frame; when it goes on step by step, follow the frame and its callers."""
    from pdb import Pdb

    debugger = Pdb()
    debugger.reset()
    debugger.botframe = None
    debugger.interaction(frame, None)
    if debugger.quitting:
        raise KeyboardInterrupt
    if debugger.stoplineno == -1:  # it goes on
        return
    caller: FrameType | None = frame
    while caller is not None:
        caller.f_trace = debugger.trace_dispatch
        debugger.botframe, caller = caller, caller.f_back
    sys.settrace(debugger.trace_dispatch)
