"""Control of a step by handles, from its beginning to its end, and its attempts.

A step can be steered through the handle of its task from the moment it waits for admission until its executor
has its outcome, when the step is past its last turn boundary.
"""

import warnings
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager, nullcontext
from math import inf
from types import TracebackType
from typing import Protocol

import anyio

from ..parallel.task_current import find_node, find_positions, is_on_foreign_loop
from ..parallel.task_node import TaskNode, get_task_hooks
from ..types.messages import UserContent
from .admission import Slot, StepAdmission
from .conclude import StepResult
from .steering import Steering, UndeliveredSteeringWarning
from .step_actor import StepActor


class StepAttempt:
    """One of several attempts at a step.

    Args:
        number: Its number, from 1.
        begins_at: The earliest time of its beginning, in seconds of the event loop's clock.
        before: The steering of the previous attempt; None for none.

    Attributes:
        execution_id: The id of its execution; None until it is prepared.
        steered: The latest steering.
    """

    __slots__ = ("_before", "_begins_at", "execution_id", "number", "steered")

    def __init__(self, *, number: int, begins_at: float = -inf, before: Steering | None = None) -> None:
        self.number = number
        self.execution_id: str | None = None
        self.steered = before
        self._begins_at = begins_at
        self._before = before

    def prepare(self, actor: StepActor) -> None:
        """Set the actor of the step, and pass on to it what was asked of the previous attempts."""
        if self._before is not None:
            actor.steer(*self._before.accepted)
            if self._before.is_to_park:
                actor.suspend()
        self.steered, self._before = actor, None
        self.execution_id = actor.context.execution_ref.execution_id

    async def wait(self, actor: StepActor, *, is_skipped: bool) -> None:
        """Wait, before admission, until it may begin; the step can be steered meanwhile.

        Args:
            actor: The actor of the step.
            is_skipped: Whether it may begin at once, because an earlier life of the run has begun it.

        Raises:
            StepStoppedError: The step was stopped.
            TaskCancelledError: The task of the step was asked to end.
        """
        await actor.begin()
        if is_skipped:
            return
        while (seconds := self._begins_at - anyio.current_time()) > 0:
            await actor.interruptible(anyio.sleep(seconds))
            await actor.begin()


class ExecuteAttempt(Protocol):
    """Executes a block once, in the environment that is active when it is called."""

    def __call__(self, attempt: StepAttempt | None = None, /) -> Awaitable[StepResult]:
        """Execute the block.

        Args:
            attempt: The attempt, if there may be several; None otherwise.
        """
        ...


class SteerableStep:
    """Lets a step be steered during the `with` statement, or until `end`.

    After that the step accepts nothing more. It warns about undelivered messages, unless it failed.

    Args:
        actor: The actor of the step.
    """

    __slots__ = ("_actor", "_node")

    def __init__(self, actor: StepActor) -> None:
        self._actor = actor
        self._node: TaskNode | None = None

    def __enter__(self) -> "SteerableStep":
        if not is_on_foreign_loop():
            node = find_node()
            node.add_control(self._actor)
            self._actor.task_node = node.writer
            self._actor.on_suspended = node.on_suspended
            self._node = node
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    async def end(self) -> None:
        """Pass the last turn boundary, when the executor has its outcome: wait while the step is suspended.

        Raises:
            ExecutionError: The step was stopped.
        """
        await self._actor.may_end()
        undelivered = self._close()
        if undelivered:
            said = ", ".join(map(repr, undelivered))
            text = f"step {self._actor.context.step_id} has ended, its model never saw these messages: {said}"
            if self._actor.node is not None:
                self._actor.node.write("note", f"{text}\n")
            warnings.warn(text, UndeliveredSteeringWarning, stacklevel=1)

    def _close(self) -> tuple[UserContent, ...]:
        if self._node is not None:
            self._node.remove_control(self._actor)
            self._node = None
        return self._actor.end_steering()


class admitted(AbstractAsyncContextManager[None]):  # noqa: N801  (it reads as a function at its call)
    """Wait until a step may begin, and free its slot when it has ended.

    A step that waits for a slot can be steered like one in flight, with immediate effect. While it is
    suspended it does not wait for a slot; when it is resumed, it queues again.

    Args:
        actor: The actor of the step.
        admission: The admission of the run; None when any number of steps may be in flight.
        parent_slot: The slot of the parent step; None for none.

    Raises (on entering):
        ExecutionError: The step was stopped before it began.
        TaskCancelledError: The task of the step was asked to end.
    """

    __slots__ = ("_actor", "_admission", "_parent_slot", "_slot")

    def __init__(self, actor: StepActor, admission: StepAdmission | None, parent_slot: Slot | None) -> None:
        self._actor = actor
        self._admission = admission
        self._parent_slot = parent_slot
        self._slot: Slot | None = None

    async def __aenter__(self) -> None:
        await self._actor.begin()
        if self._admission is not None:
            decisions = get_task_hooks().find_decisions()
            with nullcontext() if decisions is None else decisions.depending(find_positions().path):
                await self._enter(self._admission)

    async def _enter(self, admission: StepAdmission) -> None:
        actor = self._actor
        while (slot := await actor.interruptible(admission.enter(self._parent_slot))) is None:
            await actor.begin()
        try:
            await actor.begin()  # it may have been asked to stop or park at the moment of admission
        except BaseException:
            admission.leave(slot)
            raise
        actor.slot = self._slot = slot

    async def __aexit__(self, *exc_details: object) -> None:
        if self._admission is not None and self._slot is not None:
            self._admission.leave(self._slot)
