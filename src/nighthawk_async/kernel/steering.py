"""Steering of a running step: messages for its model, suspending, stopping, ending.

It is plain state that changes at once; the step reads it at its turn boundaries:

    begin() -> turn_boundary() -> model request, tool calls -> turn_boundary() -> … -> may_end() -> the end

At a boundary the step waits while it is suspended; then it fails if it was stopped, and ends if its task was
asked to end. Every step has the first boundary, so a task that was asked to end begins no further step,
with any executor; for an executor without turns the whole step is one turn. Messages are delivered at the
next boundary, in the order of their arrival, each once. A message that arrives while the model ends the block
causes one more turn, so that the model sees it before anything is committed. Once the end is certain, nothing
more is accepted.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias, TypeVar, cast

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from ..errors import NighthawkError, StepStoppedError
from ..observation import NodeState, NodeWriter
from ..parallel import Parking, TaskCancelledError, TaskEndedError, current_task, raise_if_cancel_requested
from ..pickling import PicklableError, set_public_module
from ..types.messages import BinaryContent, FileUrl, UploadedFile, UserContent

ParkingMoment: TypeAlias = Literal["suspended", "resumed"]
"""The moments at which a step is about to park, and goes on."""

Result = TypeVar("Result")


class UndeliveredSteeringWarning(PicklableError, RuntimeWarning):  # noqa: N818  (not an error)
    """A step has succeeded, and messages that it had accepted never reached a model.

    The executor or agent has no turns, or its last allowed turn had ended.
    """


class Steering:
    """Steering of one step. Everything happens on the event loop of the step.

    `StepActor` derives from it, so that tools inside the step can steer it as the handle of its task can.
    Requests take effect at the next turn boundary, when the tools of the current turn have finished; the end
    of the step, before anything is committed, is one too.

    Args:
        step_id: The block, for errors.

    Attributes:
        node: The node of the step; None while it is not observed.
        task_node: The node of its task, which is suspended with it; None for none.
        on_suspended: Called with True when it parks, and with False when it goes on; None for none.
    """

    __slots__ = (
        "_accepted",
        "_cancel_request",
        "_interruptible",
        "_is_closed",
        "_parking",
        "_parking_observer",
        "_stands",
        "_step_id",
        "_taken",
        "_was_to_park",
        "node",
        "on_suspended",
        "stop_reason",
        "task_node",
    )

    def __init__(self, step_id: str) -> None:
        self._step_id = step_id
        self._accepted: list[UserContent] = []
        self._taken = 0
        self._was_to_park = False
        self._parking = Parking("step")
        self._cancel_request: tuple[str | None] | None = None
        self._interruptible: anyio.CancelScope | None = None
        self._is_closed = False
        self._parking_observer: Callable[[ParkingMoment], Awaitable[None]] | None = None
        self.stop_reason: str | None = None
        self.node: NodeWriter | None = None
        self.task_node: NodeWriter | None = None
        self.on_suspended: Callable[[bool], object] | None = None
        self._stands: NodeState = "waiting"

    @property
    def accepted(self) -> tuple[UserContent, ...]:
        """Every message that has arrived so far, delivered or not."""
        return tuple(self._accepted)

    @property
    def is_to_park(self) -> bool:
        """Whether it was asked to park, now or when it ended."""
        return self._was_to_park or self._parking.state in ("suspending", "suspended")

    @property
    def is_suspended(self) -> bool:
        """Whether the step is parked and waits to be resumed."""
        return self._parking.is_suspended

    def steer(self, *content: UserContent) -> None:
        """Deliver a message to the model at its next turn, in the order of the messages, exactly once.

        A message that arrives during the turn in which the model ends the block gives it one more turn.
        Empty texts are ignored.

        Raises:
            TaskEndedError: The step has ended.
            NighthawkError: It is not content.
        """
        self._refuse_ended()
        self._accepted += _checked_content(content)

    def stop(self, reason: str) -> None:
        """Ask the step to fail at its next boundary, parked or not. The first reason counts.

        Raises:
            TaskEndedError: The step has ended.
        """
        self._refuse_ended()
        self.stop_reason = self.stop_reason or reason
        self._parking.release()
        self._interrupt()

    def suspend(self) -> None:
        """Ask the step to park at its next boundary. Asking again changes nothing.

        Raises:
            TaskEndedError: The step has ended.
        """
        self._parking.suspend()
        self._interrupt()

    async def wait_suspended(self) -> None:
        """Wait until the step is parked. Do not call it in the step's own tools: it parks after they finish.

        Raises:
            TaskEndedError: The step ended before it parked.
        """
        await self._parking.wait_suspended()

    def resume(self, input: UserContent | Sequence[UserContent] | None = None) -> None:
        """Let the step go on, or withdraw the request to park.

        Args:
            input: A message for its model, after those that arrived before; None for none.

        Raises:
            NotSuspendedError: It was not suspended.
            AlreadyResumedError: It was resumed already and has not gone on yet.
            TaskEndedError: The step has ended.
            NighthawkError: The input is not content.
        """
        items = tuple(cast("Sequence[Any]", input)) if isinstance(input, list | tuple) else (input,)
        message = [] if input is None else _checked_content(items)
        self._parking.resume()
        self._accepted += message

    def request_cancel(self, reason: str | None) -> None:
        """Ask the step to end at its next boundary, parked or not, as cancelled.

        If there is an outcome already, it counts.
        """
        self._cancel_request = self._cancel_request or (reason,)
        self._parking.release()
        self._interrupt()

    def observe_parking(self, observer: Callable[[ParkingMoment], Awaitable[None]]) -> None:
        """Call an observer when the step is about to park and when it goes on; not when it is cancelled."""
        self._parking_observer = observer

    def note_admitted(self) -> None:
        """Report to observers that it no longer waits."""
        self._stands = "running"
        if self.node is not None:
            self.node.change_state("running")

    async def begin(self) -> None:
        """Wait while the step is suspended, before it begins.

        Raises:
            StepStoppedError: The step was stopped.
            TaskCancelledError: The task of the step was asked to end.
        """
        await self._park()
        self._raise_if_stopped()
        self._raise_if_cancel_requested()

    async def interruptible(self, waiting: Awaitable[Result]) -> Result | None:
        """Wait for something before the step begins, until the step is asked to park, stop or end.

        Returns:
            The result of waiting; None if the wait was cancelled, because the step was asked to park, stop or
            end. If both happen at the same moment, either is possible.
        """
        try:
            with anyio.CancelScope() as self._interruptible:
                return await waiting
        finally:
            self._interruptible = None
        return None

    async def turn_boundary(self) -> tuple[UserContent, ...]:
        """Begin a turn: wait while the step is suspended, then take the messages for the model.

        Returns:
            The messages that arrived since the last turn, in order.

        Raises:
            StepStoppedError: The step was stopped.
            TaskCancelledError: The task of the step was asked to end.
        """
        await checkpoint_if_cancelled()  # a call in a worker thread may have outlasted a cancellation
        await self.begin()
        return self._take()

    async def may_end(self) -> bool:
        """Wait while the step is suspended, before it ends with its model's outcome.

        Returns:
            False if messages wait for the model, so that another turn is needed. A step whose task was asked
            to end may always end.

        Raises:
            StepStoppedError: The step was stopped.
        """
        await self._park()
        self._raise_if_stopped()
        return self._taken == len(self._accepted) or self._cancel_request is not None

    def end_steering(self) -> tuple[UserContent, ...]:
        """Accept nothing more, and return the messages that were not delivered. Idempotent."""
        if self._is_closed:
            return ()
        self._is_closed = True
        self._was_to_park = self.is_to_park
        self._parking.close()
        return self._take()

    def _take(self) -> tuple[UserContent, ...]:
        messages = tuple(self._accepted[self._taken :])
        self._taken = len(self._accepted)
        return messages

    async def _park(self) -> None:
        if self._parking.state == "running":  # it was not asked to park
            return
        observer = self._parking_observer if self._parking.state == "suspending" else None
        if observer is not None:
            await observer("suspended")
        if self._parking.state != "suspending":
            await self._parking.park()
        else:
            with self._shown_parked():
                await self._parking.park()
        if observer is not None:
            await observer("resumed")

    @contextmanager
    def _shown_parked(self) -> Generator[None, None, None]:
        if self.node is not None:
            self.node.change_state("suspended")
        if self.task_node is not None:
            self.task_node.change_state("suspended")
        if self.on_suspended is not None:
            self.on_suspended(True)
        try:
            yield
        finally:
            if self.node is not None:
                self.node.change_state(self._stands)
            if self.task_node is not None:
                self.task_node.change_state("running")
            if self.on_suspended is not None:
                self.on_suspended(False)

    def _interrupt(self) -> None:
        if self._interruptible is not None:
            self._interruptible.cancel()

    def _raise_if_stopped(self) -> None:
        if self.stop_reason is not None:
            what = f"step {self._step_id} was stopped"
            raise StepStoppedError(f"{what}: {self.stop_reason}").without_content(what)

    def _raise_if_cancel_requested(self) -> None:
        raise_if_cancel_requested()
        if self._cancel_request is not None:
            (reason,) = self._cancel_request
            raise TaskCancelledError(task_id=current_task().id, reason=reason, forced=False)

    def _refuse_ended(self) -> None:
        if self._is_closed:
            raise TaskEndedError(f"step {self._step_id} has ended")


def _checked_content(content: Sequence[object]) -> list[UserContent]:
    for item in content:
        if not isinstance(item, str | BinaryContent | FileUrl | UploadedFile):
            raise NighthawkError(f"A step is steered with texts and other content, not with {item!r}.")
    return [cast("UserContent", item) for item in content if item != ""]


set_public_module("runtime", globals())
