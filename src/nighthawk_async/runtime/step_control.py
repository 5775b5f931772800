"""Who can steer a step, and from when to when. Floor 3.

While its executor works, a step can be steered from the handle of the task it runs in; when the executor has
its outcome, the step is past its last turn boundary.
"""

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType

from ..parallel.task_current import find_node
from ..parallel.task_node import TaskNode
from .steering import UndeliveredSteeringWarning
from .step_actor import StepActor

__all__ = ["on_foreign_loop", "steerable"]

_task_of_caller: ContextVar[TaskNode | None] = ContextVar("nighthawk_async_task_of_caller", default=None)


class steerable:  # noqa: N801  (a context manager that reads as a function at its call)
    """Let a step be steered during the `async with` statement, in which its executor works.

    Leaving normally is the last turn boundary: it waits while the step is suspended. Then the step accepts
    nothing more, and warns about messages that no turn took.

    Args:
        actor: The actor of the step.

    Raises:
        ExecutionError: The step was stopped.
    """

    __slots__ = ("_actor", "_node")

    def __init__(self, actor: StepActor) -> None:
        self._actor = actor
        self._node: TaskNode | None = None

    async def __aenter__(self) -> None:
        node = find_node()
        if node is not _task_of_caller.get():
            node.add_control(self._actor)
            self._node = node

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if exc is None:
                await self._actor.may_end()
        finally:
            if self._node is not None:
                self._node.remove_control(self._actor)
            undelivered = self._actor.end_steering()
        if undelivered and exc is None:
            said = ", ".join(map(repr, undelivered))
            warnings.warn(
                f"step {self._actor.context.step_id} has ended, its model never saw these messages: {said}",
                UndeliveredSteeringWarning,
                stacklevel=1,
            )


@contextmanager
def on_foreign_loop() -> Generator[None, None, None]:
    """Carry something out on a portal thread for its caller.

    The task of the caller belongs to another event loop, so its handle must not touch what happens here.
    """
    token = _task_of_caller.set(find_node())
    try:
        yield
    finally:
        _task_of_caller.reset(token)
