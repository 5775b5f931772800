"""One task from pending to its end: plain state, and waiting for its end.

    pending ──► running ──► completed | failed | cancelled
       └──────────────────────────────────────► cancelled

Whoever runs the task says what happened (`task_runner`); whoever holds its handle asks (`task_handle`).
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..observation import NodeWriter
from .task_errors import TaskAwaitsItselfError, TaskCancelledError
from .task_node import TaskNode

__all__ = ["TaskState", "TaskStatus"]

Result = TypeVar("Result")

TaskStatus: TypeAlias = Literal["pending", "running", "suspended", "completed", "failed", "cancelled"]
"""`suspended`: what the task runs is parked and waits to be resumed."""


class TaskState(Generic[Result]):
    """The state of one task. Not for several threads.

    Args:
        node: Who it is.
        on_end: Called with the state when the task has ended.
        on_claim: Called with the state when somebody has learned by awaiting it how the task ended.
        on_abandon: Called with the state when those who awaited it went without learning how it ended,
            whether it has ended or not.
    """

    def __init__(
        self,
        node: TaskNode,
        *,
        on_end: "Callable[[TaskState[Any]], None]",
        on_claim: "Callable[[TaskState[Any]], None]",
        on_abandon: "Callable[[TaskState[Any]], None]",
    ) -> None:
        self.node = node
        self.scope = anyio.CancelScope()
        self.is_claimed = False
        self.error: BaseException | None = None
        self._on_end = on_end
        self._on_claim = on_claim
        self._on_abandon = on_abandon
        self._phase: Literal["pending", "running", "completed", "failed", "cancelled"] = "pending"
        self._result: Result | None = None
        self._traceback: TracebackType | None = None
        self._reason: str | None = None
        self._is_forced = False
        self._waiting = 0
        self._ended: anyio.Event | None = None
        self._delivered: anyio.Event | None = None
        self._anyio_task_id: int | None = None

    @property
    def status(self) -> TaskStatus:
        """The state of the task."""
        if self._phase == "running":
            control = self.node.control
            return "running" if control is None or not control.is_suspended else "suspended"
        return self._phase

    @property
    def is_ended(self) -> bool:
        """Whether the task has ended, in whatever way."""
        return self._phase not in ("pending", "running")

    @property
    def is_awaited(self) -> bool:
        """Whether somebody awaits how the task ends, at this moment or earlier."""
        return self.is_claimed or self._waiting > 0

    def cancel(self, reason: str | None, *, forced: bool = False) -> bool:
        """Cancel the task; one that has not begun never will. False when it has ended already.

        Args:
            reason: Why. Only the first reason that somebody gives counts.
            forced: Whether the task had its time to end by itself.
        """
        if self.is_ended:
            return False
        self.note_reason(reason)
        self._is_forced = self._is_forced or forced
        if self._phase == "pending":
            self.end_cancelled()
        else:
            self.scope.cancel(self._reason)
        # Last, so that what is parked is cancelled where it stands and not woken.
        self.node.ask_to_end(self._reason)
        return True

    def note_reason(self, reason: str | None) -> None:
        """Remember why the task is cancelled, unless a reason is known, from what asked it to end before."""
        if self._reason is None and self.node.request is not None:
            self._reason = self.node.request.reason
        if self._reason is None:
            self._reason = reason

    def begin(self) -> None:
        """The task begins, in the task of the caller."""
        self._phase = "running"
        if self.node.writer is not None:
            self.node.writer.change_state("running")
        self._anyio_task_id = anyio.get_current_task().id

    def complete(self, result: Result) -> None:
        """The task has returned."""
        self._result = result
        self._end("completed")

    def fail(self, error: BaseException) -> None:
        """The task has raised."""
        self.error, self._traceback = error, error.__traceback__
        self._end("failed")

    def end_cancelled(self, reason: str | None = None) -> None:
        """The task has ended because it was cancelled, or never begins for that reason.

        Args:
            reason: Why, when nobody who cancelled it has said.
        """
        self.note_reason(reason)
        self._end("cancelled")

    def refuse_own_task(self) -> None:
        """Refuse to wait for the end of the task in the task itself.

        Raises:
            TaskAwaitsItselfError: The caller is the task, and has not ended.
        """
        if not self.is_ended and anyio.get_current_task().id == self._anyio_task_id:
            raise TaskAwaitsItselfError(f"task {self.node.id} waits for its own end, which would never come")

    async def wait_ended(self) -> None:
        """Wait until the task has ended.

        Raises:
            TaskAwaitsItselfError: The caller is the task.
        """
        if self.is_ended:
            await checkpoint()
            return
        self.refuse_own_task()
        if self._ended is None:
            self._ended = anyio.Event()
        await self._ended.wait()
        await checkpoint_if_cancelled()  # what cancelled the task may have cancelled the caller, too

    async def wait_result(self) -> Result:
        """Wait until the task has ended, and learn how.

        Raises:
            TaskCancelledError: It was cancelled.
            TaskAwaitsItselfError: The caller is the task.
            BaseException: Whatever it raised.
        """
        self._waiting += 1
        try:
            await self.wait_ended()
        except BaseException:  # cancelled, maybe in the moment in which the task failed
            self._leave()
            if not self.is_awaited:
                self._on_abandon(self)
            raise
        self._leave()
        self.is_claimed = True
        self._on_claim(self)
        if self._phase == "cancelled":
            raise self._cancelled_error()
        if self.error is not None:
            # Each who awaits it sees where it was raised, and not the way it took to others.
            raise self.error.with_traceback(self._traceback)
        return cast("Result", self._result)

    async def wait_delivered(self) -> None:
        """Wait until nobody waits any more; soon, once the task has ended."""
        while self._waiting:
            if self._delivered is None:
                self._delivered = anyio.Event()
            await self._delivered.wait()

    def _leave(self) -> None:
        self._waiting -= 1
        if self._waiting == 0 and self._delivered is not None:
            self._delivered.set()
            self._delivered = None

    def _end(self, phase: Literal["completed", "failed", "cancelled"]) -> None:
        self._phase = phase
        self.node.end()
        if self.node.writer is not None:
            self._tell_end(self.node.writer, phase)
        if self._ended is not None:
            self._ended.set()
        self._on_end(self)

    def _tell_end(self, node: NodeWriter, phase: Literal["completed", "failed", "cancelled"]) -> None:
        if phase == "completed":
            node.end(phase, outputs={"return": self._result})
        else:
            node.end(phase, error=self._cancelled_error() if phase == "cancelled" else self.error)

    def _cancelled_error(self) -> TaskCancelledError:
        return TaskCancelledError(task_id=self.node.id, reason=self._reason, forced=self._is_forced)
