"""The handle of a task: its result, its status, and the ways to steer and end it."""

from collections.abc import Generator
from typing import Any, Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from .limits import checked_seconds
from .task_control import TaskControl
from .task_errors import NothingToControlError, TaskEndedError
from .task_hooks import TaskMailbox
from .task_state import TaskState, TaskStatus

__all__ = ["TaskHandle"]

Result_co = TypeVar("Result_co", covariant=True)


class TaskHandle(Generic[Result_co]):
    """A task, for those who did not write it. `start` gives it.

    `await handle` gives what the task returned, or raises what it raised; any number of tasks may await it,
    at any time, also when the block of the task is over. Who is cancelled while awaiting it does not cancel
    the task. Awaiting a cancelled task raises `TaskCancelledError`, which cancels nobody.

    What the task runs is steered, suspended and stopped from here. When it runs several such things at once,
    two natural steps in a `gather` for instance, the handle controls the one that began last of those that
    still run: start each in a task of its own to control each.

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
        """The id of the task, by its position: `run/tasks[0]/fetch[3]`. Given by `start`, in its order."""
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
        """The mailbox of the task, the one it has as `current_task().mailbox`. Closed when it has ended.

        Raises:
            TaskError: Nobody has said how mailboxes are made.
        """
        return self._state.node.mailbox

    async def wait_ended(self) -> None:
        """Wait until the task has ended, in whatever way. Its failure still counts as awaited by nobody.

        Raises:
            TaskAwaitsItselfError: The caller is the task.
        """
        await self._state.wait_ended()

    def cancel(self, reason: str | None = None) -> bool:
        """Cancel the task at its next checkpoint. One that has not begun never begins.

        A task that returns or raises all the same ends so. A worker thread cannot be interrupted: it may ask
        `cancel_requested`.

        Args:
            reason: Why; told to those who await the task. The first reason counts.

        Returns:
            Whether it was in time: False when the task had ended.
        """
        return self._state.cancel(reason)

    async def cancel_gracefully(self, grace_seconds: float, reason: str | None = None) -> TaskStatus:
        """Ask the task to end by itself, and cancel it when it has not after its grace.

        The task sees `cancel_requested()`, as do the tasks it owns; a natural step finishes its turn. A task
        that has not begun never begins. When the caller is cancelled meanwhile, the task stays asked to end
        and is not cancelled.

        Args:
            grace_seconds: How many seconds it has.
            reason: Why; told to those who await the task. The first reason counts.

        Returns:
            How the task has ended.

        Raises:
            InvalidLimitError: The grace is not a number of seconds, or negative.
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
        """Deliver content to what the task runs, at its next boundary: for a step its next turn.

        Raises:
            NothingToControlError: The task runs nothing that can be steered at present.
            TaskEndedError: The task has ended.
        """
        self._control().steer(*content)

    async def snapshot(self) -> Any:
        """An immutable view of what the task runs.

        Raises:
            NothingToControlError: The task runs nothing that can be looked at at present.
            TaskEndedError: The task has ended.
        """
        await checkpoint_if_cancelled()  # what ended the task may have cancelled the caller, too
        return await self._control().snapshot()

    def suspend(self) -> None:
        """Park what the task runs at its next boundary. Doing so again changes nothing.

        Raises:
            NothingToControlError: The task runs nothing that can be suspended at present.
            TaskEndedError: The task has ended.
        """
        self._control().suspend()

    async def wait_suspended(self) -> None:
        """Wait until what the task runs is parked.

        Raises:
            NothingToControlError: The task runs nothing that can be suspended at present.
            TaskEndedError: The task has ended, or what it ran ended before it was parked.
        """
        await checkpoint_if_cancelled()  # what ended the task may have cancelled the caller, too
        await self._control().wait_suspended()

    def resume(self, input: Any = None) -> None:
        """Let what the task runs go on.

        Args:
            input: What to deliver when it goes on; None for nothing.

        Raises:
            NotSuspendedError: It is not suspended.
            AlreadyResumedError: It was resumed already and has not gone on yet.
            NothingToControlError: The task runs nothing that can be resumed at present.
            TaskEndedError: The task has ended.
        """
        self._control().resume(input)

    def stop(self, reason: str) -> None:
        """Ask what the task runs to fail at its next boundary.

        Raises:
            NothingToControlError: The task runs nothing that can be stopped at present.
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
