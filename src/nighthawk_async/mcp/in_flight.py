"""The calls of a session in flight: their time limits, and the contexts of their callers."""

import math
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

import anyio

from ..actors import BareTaskGroup
from ..observation import find_node_writer

Result = TypeVar("Result")

_MAX_NOTES = 100


class CallInFlight:
    """One call, in the task that makes it.

    Args:
        calls: The calls of the session.
    """

    def __init__(self, calls: "CallsInFlight") -> None:
        self._calls = calls
        self._node = find_node_writer()
        self._notes = 0
        self.scope = anyio.CancelScope()
        self.context = copy_context()

    def note_alive(self) -> None:
        """Begin its time limit anew."""
        self.scope.deadline = anyio.current_time() + self._calls.seconds

    async def note_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report its progress: as attributes of its node, and messages as notes."""
        self.note_alive()
        if self._node is None:
            return
        of_total = {} if total is None else {"mcp.progress.total": total}
        self._node.set_attributes({"mcp.progress": progress, **of_total})
        if self._notes < _MAX_NOTES:
            self._notes += 1
            shown = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            self._node.write("note", f"{shown} {message or ''}".rstrip() + "\n")


class CallsInFlight:
    """The calls of a session in flight.

    Args:
        limit: The seconds in which a call has to give a sign of life; None for no limit.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit = math.inf if limit is None else limit
        self._calls: set[CallInFlight] = set()
        self._pauses = 0

    @property
    def seconds(self) -> float:
        """The seconds that a call has from now on."""
        return math.inf if self._pauses else self._limit

    async def run(self, make: Callable[[CallInFlight], Awaitable[Result]]) -> Result:
        """Make a call within its time limit.

        Raises:
            TimeoutError: It gave no sign of life in time; it was cancelled at the server.
        """
        call = CallInFlight(self)
        self._calls.add(call)
        call.note_alive()
        try:
            with call.scope:
                return await make(call)
        finally:
            self._calls.discard(call)
        raise TimeoutError

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Let no time limit run, because the server waits for this side."""
        self._pauses += 1
        self._begin_anew()
        try:
            yield
        finally:
            self._pauses -= 1
            self._begin_anew()

    def _begin_anew(self) -> None:
        for call in self._calls:
            call.note_alive()

    async def in_context_of_call(self, function: Callable[[], Awaitable[Result]]) -> Result:
        """Call a function in the context of the call that causes it, if there is only one in flight.

        Messages do not say which call they belong to. Otherwise it is the context of the caller: that of the
        run, or, in later versions of the protocol, that of the call.
        """
        if len(self._calls) != 1:
            return await function()
        (call,) = self._calls
        results: list[Result] = []

        async def run() -> None:
            results.append(await function())

        async with BareTaskGroup() as group:
            call.context.copy().run(group.start_soon, run)
        return results[0]
