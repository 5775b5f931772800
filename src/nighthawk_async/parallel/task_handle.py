"""State of a task from pending to its end, and its handle: result, status, and ways to steer and end it.

    pending ──► running ──► completed | failed | cancelled
       └──────────────────────────────────────► cancelled

The code that runs the task reports what happened (`tasks`); holders of its handle query it.
"""

from collections.abc import Callable, Generator
from contextlib import nullcontext
from types import TracebackType
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..observation import NodeWriter
from .calling import checked_seconds
from .decided_order import note_raised
from .errors import NothingToControlError, TaskAwaitsItselfError, TaskCancelledError, TaskEndedError
from .task_current import find_positions
from .task_node import TaskControl, TaskMailbox, TaskNode, get_task_hooks

Result = TypeVar("Result")

TaskStatus: TypeAlias = Literal["pending", "running", "suspended", "completed", "failed", "cancelled"]
"""`suspended`: the work of the task is parked and waits to be resumed."""


class TaskState(Generic[Result]):
    """The state of one task. Not for several threads.

    Args:
        node: The node of the task.
        on_end: Called with the state when the task has ended.
        on_claim: Called with the state when an awaiting task has learned how the task ended.
        on_abandon: Called with the state when all awaiting tasks left without learning how it ended, whether
            it has ended or not.
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
        """Whether the task is, or was, awaited."""
        return self.is_claimed or self._waiting > 0

    def cancel(self, reason: str | None, *, forced: bool = False) -> bool:
        """Cancel the task; one that has not started never will. Return False when it has already ended.

        Args:
            reason: The reason. Only the first one given counts.
            forced: Whether the task had time to end by itself.
        """
        if self.is_ended:
            return False
        self.note_reason(reason)
        self._is_forced = self._is_forced or forced
        if self._phase == "pending":
            self.end_cancelled()
        else:
            self.scope.cancel(self._reason)
        # Last, so that parked work is cancelled where it is and not woken.
        self.node.ask_to_end(self._reason)
        return True

    def note_reason(self, reason: str | None) -> None:
        """Remember the reason for the cancellation, unless an earlier request to end already gave one."""
        if self._reason is None and self.node.request is not None:
            self._reason = self.node.request.reason
        if self._reason is None:
            self._reason = reason

    def begin(self) -> None:
        """Mark the task as started, in the task of the caller."""
        self._phase = "running"
        if self.node.writer is not None:
            self.node.writer.change_state("running")
        self._anyio_task_id = anyio.get_current_task().id

    def complete(self, result: Result) -> None:
        """Record that the task has returned."""
        self._result = result
        self._end("completed")

    def fail(self, error: BaseException) -> None:
        """Record that the task has raised."""
        self.error, self._traceback = error, error.__traceback__
        self._end("failed")

    def end_cancelled(self, reason: str | None = None) -> None:
        """Record that the task ended because it was cancelled, or never starts for that reason.

        Args:
            reason: The reason to use when the cancellation gave none.
        """
        self.note_reason(reason)
        self._end("cancelled")

    def refuse_own_task(self) -> None:
        """Raise if the task would wait for its own end.

        Raises:
            TaskAwaitsItselfError: The caller is the task, and it has not ended.
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
        decisions = get_task_hooks().find_decisions()
        with nullcontext() if decisions is None else decisions.depending(find_positions().path):
            await self._ended.wait()
        await checkpoint_if_cancelled()  # the cancellation of the task may have cancelled the caller, too

    async def wait_result(self) -> Result:
        """Wait until the task has ended, and return or raise its outcome.

        Raises:
            TaskCancelledError: It was cancelled.
            TaskAwaitsItselfError: The caller is the task.
            BaseException: Any exception that it raised.
        """
        self._waiting += 1
        try:
            await self.wait_ended()
        except BaseException:  # cancelled, maybe at the moment when the task failed
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
            note_raised(self.node.id)
            # Each caller sees where the error was raised, without the frames of other callers.
            raise self.error.with_traceback(self._traceback)
        return cast("Result", self._result)

    async def wait_delivered(self) -> None:
        """Wait until no task awaits it any more; soon, once the task has ended."""
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
            self._report_end(self.node.writer, phase)
        if self._ended is not None:
            self._ended.set()
        self._on_end(self)

    def _report_end(self, node: NodeWriter, phase: Literal["completed", "failed", "cancelled"]) -> None:
        if phase == "completed":
            node.end(phase, outputs={"return": self._result})
        else:
            node.end(phase, error=self._cancelled_error() if phase == "cancelled" else self.error)

    def _cancelled_error(self) -> TaskCancelledError:
        return TaskCancelledError(task_id=self.node.id, reason=self._reason, forced=self._is_forced)


Result_co = TypeVar("Result_co", covariant=True)


class TaskHandle(Generic[Result_co]):
    """Handle of a started task. `start` returns it.

    `await handle` returns what the task returned, or raises what it raised; any number of tasks may await it,
    at any time, also after the block of the task has ended. A cancelled await does not cancel the task.
    Awaiting a cancelled task raises `TaskCancelledError`, which cancels nothing.

    The handle steers, suspends and stops the work of the task. If the task runs several pieces of such work
    at once, for instance two natural steps in a `gather`, the handle controls the most recent one that still
    runs: start each in a task of its own to control each.

    A handle belongs to the event loop of its task.
    """

    __slots__ = ("_state",)

    def __init__(self, state: TaskState[Result_co]) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"<task {self.id}, {self.status}>"

    def __await__(self) -> Generator[Any, Any, Result_co]:
        return self._state.wait_result().__await__()

    @property
    def id(self) -> str:
        """The id of the task, by its position: `run/tasks[0]/fetch[3]`. Assigned by `start`, in order."""
        return self._state.node.id

    @property
    def name(self) -> str:
        """The name of the task."""
        return self._state.node.name

    @property
    def parent_id(self) -> str | None:
        """The id of the task that started it."""
        return self._state.node.parent_id

    @property
    def status(self) -> TaskStatus:
        """The state of the task."""
        return self._state.status

    @property
    def mailbox(self) -> TaskMailbox:
        """The mailbox of the task, also available as `current_task().mailbox`. Closed when it has ended.

        Raises:
            TaskError: No hooks for mailboxes are installed.
        """
        return self._state.node.mailbox

    async def wait_ended(self) -> None:
        """Wait until the task has ended, in whatever way. This does not count as awaiting its failure.

        Raises:
            TaskAwaitsItselfError: The caller is the task.
        """
        await self._state.wait_ended()

    def cancel(self, reason: str | None = None) -> bool:
        """Cancel the task at its next checkpoint. One that has not started never will.

        A task that returns or raises anyway ends that way. A worker thread cannot be interrupted: it may
        check `cancel_requested`.

        Args:
            reason: The reason, for those who await the task. The first reason counts.

        Returns:
            Whether it was in time: False when the task had already ended.
        """
        return self._state.cancel(reason)

    async def cancel_gracefully(self, grace_seconds: float, reason: str | None = None) -> TaskStatus:
        """Ask the task to end by itself, and cancel it if it has not ended after its grace.

        The task sees `cancel_requested()`, as do the tasks it owns; a natural step finishes its turn. A task
        that has not started never starts. If the caller is cancelled meanwhile, the request to end remains,
        and the task is not cancelled.

        Args:
            grace_seconds: The time before it is cancelled, in seconds.
            reason: The reason, for those who await the task. The first reason counts.

        Returns:
            The final status of the task.

        Raises:
            InvalidLimitError: The grace is not a number of seconds, or is negative.
            TaskAwaitsItselfError: The caller is the task.
        """
        checked_seconds(grace_seconds, what="the grace")
        state = self._state
        state.refuse_own_task()
        if state.status == "pending":
            state.cancel(reason)
        if not state.is_ended:
            state.node.ask_to_end(reason)
        with anyio.move_on_after(grace_seconds):
            await state.wait_ended()
        if state.cancel(reason, forced=True):
            await state.wait_ended()
        return state.status

    def steer(self, *content: Any) -> None:
        """Deliver content to the work of the task, at its next boundary: for a step its next turn.

        Raises:
            NothingToControlError: The task currently runs nothing that can be steered.
            TaskEndedError: The task has ended.
        """
        self._control().steer(*content)

    async def snapshot(self) -> Any:
        """Return an immutable view of the work of the task.

        Raises:
            NothingToControlError: The task currently runs nothing that can be inspected.
            TaskEndedError: The task has ended.
        """
        await checkpoint_if_cancelled()  # the end of the task may have cancelled the caller, too
        return await self._control().snapshot()

    def suspend(self) -> None:
        """Park the work of the task at its next boundary. Doing so again has no effect.

        Raises:
            NothingToControlError: The task currently runs nothing that can be suspended.
            TaskEndedError: The task has ended.
        """
        self._control().suspend()

    async def wait_suspended(self) -> None:
        """Wait until the work of the task is parked, and before that until it runs any, such as a step.

        Raises:
            TaskEndedError: The task has ended, or its work ended before it was parked.
        """
        await checkpoint_if_cancelled()  # the end of the task may have cancelled the caller, too
        if self._state.node.control is None and not self._state.is_ended:
            await self._wait_controlled()
        await self._control().wait_suspended()

    async def _wait_controlled(self) -> None:
        """Wait until the task runs something that can be controlled, or ends."""
        node, controlled = self._state.node, anyio.Event()
        former = node.on_controlled

        def note(is_controlled: bool) -> None:
            if former is not None:
                former(is_controlled)
            if is_controlled:
                controlled.set()

        async def wait_ended() -> None:
            await self._state.wait_ended()
            controlled.set()

        self._state.refuse_own_task()
        node.on_controlled = note
        try:
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(wait_ended)
                await controlled.wait()
                waiting.cancel_scope.cancel()
        finally:
            if node.on_controlled is note:
                node.on_controlled = former

    def resume(self, input: Any = None) -> None:
        """Let the work of the task continue.

        Args:
            input: The message to deliver when it continues; None for none.

        Raises:
            NotSuspendedError: It is not suspended.
            AlreadyResumedError: It was already resumed and has not continued yet.
            NothingToControlError: The task currently runs nothing that can be resumed.
            TaskEndedError: The task has ended.
        """
        self._control().resume(input)

    def stop(self, reason: str) -> None:
        """Ask the work of the task to fail at its next boundary.

        Raises:
            NothingToControlError: The task currently runs nothing that can be stopped.
            TaskEndedError: The task has ended.
        """
        self._control().stop(reason)

    def _control(self) -> TaskControl:
        if self._state.is_ended:
            raise TaskEndedError(f"task {self.id} has ended: it is {self.status}")
        control = self._state.node.control
        if control is None:
            raise NothingToControlError(f"task {self.id} runs nothing at present that can be controlled")
        return control
