"""Parking of runs with a journal: when everything waits, the tasks are cancelled, as at a shutdown."""

from contextlib import AsyncExitStack
from types import TracebackType

import anyio
from anyio.abc import TaskGroup

from ..actors import BareTaskGroup
from ..journal_ports import RunJournal


class ParkableTasks:
    """The task group of a run that is parked when everything in it waits.

    Args:
        journal: The journal of the run.
    """

    def __init__(self, journal: RunJournal) -> None:
        self._journal = journal
        self._stack = AsyncExitStack()
        self._scope = anyio.CancelScope()

    async def __aenter__(self) -> TaskGroup:
        async with AsyncExitStack() as stack:
            watching = anyio.CancelScope()
            watchers = await stack.enter_async_context(BareTaskGroup())
            stack.callback(watching.cancel)  # a scope of its own, which takes no cancellation of the run
            stack.push(self._raise_signal)
            tasks = await stack.enter_async_context(BareTaskGroup())
            self._scope = tasks.cancel_scope
            watchers.start_soon(self._watch, watching)
            self._stack = stack.pop_all()
            return tasks
        raise AssertionError("nothing that was entered suppresses exceptions")

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(exc_type, exc, traceback)

    async def _watch(self, watching: anyio.CancelScope) -> None:
        with watching:
            await self._journal.wait_idle()
            self._scope.cancel("the run is parked")

    def _raise_signal(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the run as parked, if its tasks have ended for that reason."""
        signal = self._journal.parking_signal() if exc is None and self._scope.cancelled_caught else None
        if signal is not None:
            raise signal
