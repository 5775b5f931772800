"""`RemoteJob`: a call on a worker, as the program sees it."""

from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from ..journal.frames import lost_place
from ..kernel.environment import Environment
from ..parallel.errors import CallCancelledError
from .contents import HeldContent
from .counting import Counted
from .crossing import CrossingFunction
from .crossing_errors import decode_error
from .errors import WorkerLostError
from .messages import Ended
from .services import ProgramPart


class RemoteJob:
    """A call on a worker; a `PlacedJob`.

    Args:
        number: Its number in the life of the placement.
        function: Its function.
        args: The positional arguments, encoded.
        keywords: The keyword arguments, encoded.
        task_values: The task-local values of the caller, encoded.
        scope: The scope of the caller, encoded.
        place: The place of the call.
        trace_parent: The trace context of the caller.
        environment: The environment of the caller; None outside every run.
        context: The context variables of the caller.
        deadline: The deadline of the caller, on the clock of the event loop.
        withdraw: Asks the placement to cancel it.
    """

    def __init__(
        self,
        number: int,
        function: CrossingFunction,
        *,
        args: list[HeldContent],
        keywords: Mapping[str, HeldContent],
        task_values: dict[str, bytes],
        scope: HeldContent,
        place: str,
        trace_parent: str | None,
        environment: Environment | None,
        context: Context,
        deadline: float,
        withdraw: Callable[["RemoteJob"], None],
    ) -> None:
        self.number = number
        self.function = function
        self.args = args
        self.keywords = keywords
        self.task_values = task_values
        self.scope = scope
        self.place = place
        self.trace_parent = trace_parent
        self.environment = environment
        self.context = context
        self.deadline = deadline
        self.worker: str | None = None
        self.parts: dict[str, ProgramPart] = {}
        self.counted = Counted()
        self._withdraw = withdraw
        self._ended = anyio.Event()
        self._end: Ended | None = None
        self._error: BaseException | None = None

    def cancel(self) -> None:
        """Ask it to end."""
        if not self._ended.is_set():
            self._withdraw(self)

    async def wait(self) -> Any:
        """Wait until it has ended, and return its result; see `PlacedJob.wait`."""
        await self._ended.wait()
        journal = None if self.environment is None else self.environment.journal
        if self._error is not None:
            if journal is not None and isinstance(self._error, WorkerLostError):
                journal.keep_failure(lost_place(self.place), self._error)
            raise self._error
        if journal is not None:
            journal.raised(self.place)
        end = self._end
        assert end is not None, "a call has ended with an answer or an error"
        if end.error is not None:
            raise decode_error(end.error)
        if end.is_cancelled:
            if end.is_late:  # on the worker, whose clock may be ahead
                await anyio.sleep_until(self.deadline)
            await checkpoint_if_cancelled()
            raise CallCancelledError(f"the call of {self.function.name} was cancelled")
        return self.function.decode_result(end.value)

    async def wait_ended(self) -> None:
        """Wait until it has ended, in whatever way."""
        await self._ended.wait()

    def end_placement(self, *, is_lost: bool, reason: str | None = None) -> None:
        """End the services of its placement on a worker; without effect if they have ended.

        Args:
            is_lost: Whether the worker was lost, or what it did is unknown.
            reason: How the worker was lost; None if it was not.
        """
        parts, self.parts, self.worker = self.parts, {}, None
        for part in parts.values():
            if reason is not None:
                self.context.run(part.note_lost, reason)
            self.context.run(part.end, is_lost=is_lost)

    def call_when_written(self, send: Callable[[], object]) -> None:
        """Send something that a worker may record after; see `journal_ports.RunJournal`."""
        if self.environment is None or self.environment.journal is None:
            send()
        else:
            self.environment.journal.call_when_written(send)

    def end(self, end: Ended | None, error: BaseException | None = None) -> None:
        """Note its end: by the answer of a worker, or by an error of the placement."""
        self._end, self._error = end, error
        if self.environment is not None and self.environment.journal is not None:
            self.environment.journal.exit(self.place)
        self._ended.set()
