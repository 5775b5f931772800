"""Who can steer a step, and from when to when. Floor 3.

While its executor works, a step can be steered from the handle of the task it runs in; when the executor has
its outcome, the step is past its last turn boundary.
"""

import warnings
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from ..parallel import controlled_by
from ..parallel.task_current import find_node
from ..parallel.task_node import TaskNode
from .steering import UndeliveredSteeringWarning
from .step_actor import StepActor

__all__ = ["on_foreign_loop", "steerable"]

_task_of_caller: ContextVar[TaskNode | None] = ContextVar("nighthawk_async_task_of_caller", default=None)


@asynccontextmanager
async def steerable(actor: StepActor) -> AsyncGenerator[None, None]:
    """Let a step be steered during the `with` statement, in which its executor works.

    Leaving normally is the last turn boundary: it waits while the step is suspended. Then the step accepts
    nothing more, and warns about messages that no turn took.

    Raises:
        ExecutionError: The step was stopped.
    """
    try:
        with _controllable(actor):
            yield
            await actor.may_end()
    finally:
        undelivered = actor.end_steering()
    if undelivered:
        said = ", ".join(map(repr, undelivered))
        warnings.warn(
            f"step {actor.context.step_id} has ended, and its model never saw these messages: {said}",
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


@contextmanager
def _controllable(actor: StepActor) -> Generator[None, None, None]:
    if find_node() is _task_of_caller.get():
        yield
        return
    with controlled_by(actor):
        yield
