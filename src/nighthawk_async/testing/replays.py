"""Recorded runs as tests: the program has to do what it did."""

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from ..journal import JournalError, JournalStore, open as open_store, replay as replay_run
from ..journal.copies import is_redacted, single_run

_MOST_PLACES = 5


class RunReplay:
    """A recorded run that a test goes through again. Made by `replay`."""

    def __init__(self, store: JournalStore, run_id: str) -> None:
        self.run_id = run_id
        self._replay = replay_run(store, run_id)
        records = store.records(run_id)
        self._redacted = list(dict.fromkeys(record.place for record in records if is_redacted(record)))

    def __repr__(self) -> str:
        return f"<replay of run {self.run_id!r}>"

    def __enter__(self) -> Self:
        self._replay.__enter__()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._replay.__exit__(exc_type, exc, traceback)
            if exc is None:
                self._replay.check_complete()
        except JournalError as error:
            self._explain(error)
            raise
        if isinstance(exc, JournalError):
            self._explain(exc)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(exc_type, exc, traceback)

    def _explain(self, error: JournalError) -> None:
        """Say that texts of the records were replaced, which may be the difference."""
        if self._redacted:
            places = ", ".join(self._redacted[:_MOST_PLACES])
            more = len(self._redacted) - _MOST_PLACES
            error.add_note(
                f"Secrets in these records were replaced by [redacted], which may be the difference: {places}"
                + (f" and {more} more" if more > 0 else "")
            )


def replay(source: JournalStore | str | os.PathLike[str], run_id: str | None = None) -> RunReplay:
    """Make a test of a recorded run: the program has to do what it did, with the answers that it got.

        def test_order_17():
            with nh.testing.replay("tests/runs/order-17.journal"):
                assert anyio.run(main) == "shipped"  # nh.run(..., journal=store, run_id="order-17")

    Inside, runs get the records in place of their store, as in `nighthawk_async.journal.replay`: no model, no
    key and no network are needed, and nothing is written.

    Args:
        source: A file that `JournalStore.copy` or `nighthawk-async journal export --to FILE.journal` has
            written, or another store or its address.
        run_id: The run; None for the only one there.

    Returns:
        A context manager, for `with` and for `async with`.

    Raises:
        NighthawkError: There is no such file or run.
        JournalDivergenceError: Inside, or on leaving: the program does something else than what was recorded,
            with the first place that differs and the names of the inputs.
        ReplayEndError: The program does more than what was recorded, or the recorded run had not ended.
        JournalError: On leaving: no run was begun.
    """
    if isinstance(source, JournalStore):
        run_id = run_id or single_run(source.runs(), source.address)
        return RunReplay(source, run_id)
    if isinstance(source, str) and "://" in source:
        with open_store(source) as store:
            return replay(store, run_id)
    path = Path(source)
    if not path.is_file():
        raise JournalError(f"{path}: No such file")
    with TemporaryDirectory() as folder:  # a copy, because opening may update the tables
        copy = Path(folder) / "run.journal"
        for ending in ("", "-wal"):
            if (part := path.with_name(path.name + ending)).exists():
                shutil.copyfile(part, f"{copy}{ending}")
        with open_store(copy) as store:
            return replay(store, run_id)
