"""One of several attempts at a step."""

from collections.abc import Awaitable
from math import inf
from typing import Protocol

import anyio
from opentelemetry import trace

from .conclude import StepResult
from .steering import Steering
from .step_actor import StepActor

__all__ = ["CarryOutAttempt", "StepAttempt"]


class StepAttempt:
    """One of the attempts at a step.

    Args:
        number: Which it is, from 1.
        begins_at: When it may begin, by the clock of the event loop.
        before: Who was steered in the attempt before; None for nobody.

    Attributes:
        execution_id: The id of its execution; None before it was prepared.
        steered: Who was steered last.
    """

    __slots__ = ("_before", "_begins_at", "execution_id", "number", "steered")

    def __init__(self, *, number: int, begins_at: float = -inf, before: Steering | None = None) -> None:
        self.number = number
        self.execution_id: str | None = None
        self.steered = before
        self._begins_at = begins_at
        self._before = before

    def prepare(self, actor: StepActor, span: trace.Span) -> None:
        """Take the actor of the step, and hand on to it what was wanted of the attempts before.

        Args:
            actor: The actor.
            span: The span of the step.
        """
        span.set_attribute("nighthawk.step.attempt", self.number)
        if self._before is not None:
            actor.steer(*self._before.accepted)
            if self._before.is_to_park:
                actor.suspend()
        self.steered, self._before = actor, None
        self.execution_id = actor.context.execution_ref.execution_id

    async def wait(self, actor: StepActor) -> None:
        """Wait until it may begin, while the step can be steered. It is not admitted yet.

        Args:
            actor: The actor of the step.

        Raises:
            StepStoppedError: The step was stopped.
            TaskCancelledError: The task of the step was asked to end.
        """
        await actor.begin()
        while (seconds := self._begins_at - anyio.current_time()) > 0:
            await actor.interruptible(anyio.sleep(seconds))
            await actor.begin()


class CarryOutAttempt(Protocol):
    """Carries a block out once, in the environment that is active when it is called."""

    def __call__(self, attempt: StepAttempt | None = None, /) -> Awaitable[StepResult]:
        """Carry it out.

        Args:
            attempt: Which of several attempts it is; None for the only one.
        """
        ...
