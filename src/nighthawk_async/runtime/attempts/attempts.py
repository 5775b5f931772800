"""The attempts at one step, where a baseline allows several. Floor 3.

    attempt -> failed -> retry told -> wait -> attempt -> … -> another model: attempt -> …

Each attempt is a step of its own: it is prepared from the same Python variables, admitted, counted and traced
anew, and what failed has committed nothing. So the place of a step is free while the next attempt waits, and
the one that waits can be steered, suspended and stopped like a step that waits for a place.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from math import inf
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from opentelemetry import trace

from ...errors import ExecutionError, ModelError, StepLimitError
from ...parallel import raise_if_cancel_requested
from ..awaitable import is_awaitable
from ..conclude import StepResult
from ..environment import Environment
from ..error_text import describe_error
from ..steering import Steering
from ..step_actor import StepActor
from .error_notes import note_earlier_errors
from .other_models import model_of
from .resilience import StepResilience
from .retry_policy import leaves_of, may_be_retried
from .retry_report import RetryScheduled, report_retry_async

__all__ = ["StepAttempt", "carry_out_attempts", "within_timeout"]

Result = TypeVar("Result")


class StepAttempt:
    """One of the attempts at a step.

    Args:
        number: Which it is, from 1.
        environment: What surrounds it.
        begins_at: When it may begin, by the clock of the event loop.
        before: Who was steered in the attempt before; None for nobody.
    """

    __slots__ = ("_before", "_begins_at", "environment", "execution_id", "number", "steered")

    def __init__(
        self,
        *,
        number: int,
        environment: Environment,
        begins_at: float = -inf,
        before: Steering | None = None,
    ) -> None:
        self.number = number
        self.environment = environment
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


async def carry_out_attempts(
    outer: Environment,
    step_id: str,
    resilience: StepResilience,
    carry_out: Callable[[Environment, StepAttempt], Awaitable[StepResult]],
) -> StepResult:
    """Carry out a step until it succeeds, or fails for good.

    Args:
        outer: What is in force around the step.
        step_id: The step.
        resilience: What says how often, and with which models.
        carry_out: Carries out one attempt.

    Raises:
        HookError: A hook failed that was told of a retry.
        TaskCancelledError: There would be another attempt, but the task of the step was asked to end.
        Exception: What the last attempt raised, with a note that tells of those before.
    """
    attempts = _Attempts(outer, step_id, resilience)
    try:
        while True:
            try:
                return await carry_out(attempts.attempt.environment, attempts.attempt)
            except Exception as error:
                if not await attempts.go_on_after(error):
                    raise
    except Exception as error:
        attempts.note(error)
        raise


async def within_timeout(environment: Environment, work: Callable[[], Awaitable[Result]]) -> Result:
    """Carry out one attempt at a step that was admitted, in the time that it has.

    Args:
        environment: The environment of the step.
        work: What carries it out.

    Raises:
        StepLimitError: The time is over.
    """
    resilience = environment.policies.resilience
    if resilience is None or resilience.timeout is None:
        return await work()
    with anyio.move_on_after(resilience.timeout) as scope:
        return await work()
    assert scope.cancelled_caught
    raise StepLimitError(
        f"step {environment.execution_ref.step_id}: no outcome after {resilience.timeout:g} seconds "
        "(timeout of its resilience)"
    )


class _Attempts:
    """The attempts so far, and the next one."""

    def __init__(self, outer: Environment, step_id: str, resilience: StepResilience) -> None:
        self.attempt = StepAttempt(number=1, environment=outer)
        self._step_id = step_id
        self._resilience = resilience
        self._names_models = bool(resilience.fallbacks)
        self._attempts_with_model = 1
        self._waits: list[float] = []
        self._earlier: list[str] = []  # texts, because errors would keep everything around them alive

    async def go_on_after(self, error: Exception) -> bool:
        """Get ready for another attempt, and tell of it; False when there is none.

        Args:
            error: Why the last one failed.

        Raises:
            TaskCancelledError: There would be one, but the task of the step was asked to end.
        """
        wait_seconds = self._decide(error)
        if wait_seconds is None:
            return False
        await checkpoint_if_cancelled()
        raise_if_cancel_requested()
        retry = RetryScheduled(
            name=self._step_id,
            attempt=self.attempt.number,
            error=error,
            wait_seconds=wait_seconds,
            failed_execution_id=self.attempt.execution_id,
        )
        self._get_ready(retry)
        await report_retry_async(retry)
        answer = None if self._resilience.on_retry is None else self._resilience.on_retry(retry)
        if is_awaitable(answer):
            await answer
        await checkpoint()
        return True

    def note(self, error: Exception) -> None:
        """Tell on the last error of the attempts before.

        Args:
            error: The error.
        """
        if self._earlier:
            waits = ", ".join(f"{wait:.3g}" for wait in self._waits)
            title = f"{self.attempt.number} attempts at step {self._step_id}, with waits of {waits} seconds"
            note_earlier_errors(error, title, self._earlier)

    def _decide(self, error: Exception) -> float | None:
        """Seconds until the next attempt; None when there is none."""
        resilience = self._resilience
        wait_seconds = resilience.policy.wait_after(error, self._attempts_with_model)
        if wait_seconds is not None:
            self._attempts_with_model += 1
            return wait_seconds
        if not resilience.fallbacks or not _leads_to_another_model(error):
            return None
        self._attempts_with_model = 1
        self._resilience = resilience.after_fallback
        return 0.0

    def _get_ready(self, retry: RetryScheduled) -> None:
        failed, resilience = self.attempt, self._resilience
        environment = failed.environment
        executor, text = environment.step_executor, describe_error(retry.error)
        self._earlier.append(f"{model_of(executor)}: {text}" if self._names_models else text)
        self._waits.append(retry.wait_seconds)
        before = environment.policies.resilience
        if before is not None and resilience is not before:
            _record_fallback(self._step_id, before, retry.error)
            policies = replace(environment.policies, resilience=resilience)
            environment = replace(environment, step_executor=resilience.executor, policies=policies)
        self.attempt = StepAttempt(
            number=failed.number + 1,
            environment=environment,
            begins_at=anyio.current_time() + retry.wait_seconds,
            before=failed.steered,
        )


def _leads_to_another_model(error: Exception) -> bool:
    return may_be_retried(error) and all(
        isinstance(each, ExecutionError | ModelError) for each in leaves_of(error)
    )


def _record_fallback(step_id: str, resilience: StepResilience, error: Exception) -> None:
    span = trace.get_current_span()
    if span.is_recording():
        attributes = {
            "nighthawk.retry.name": step_id,
            "nighthawk.fallback.from": str(model_of(resilience.executor)),
            "nighthawk.fallback.to": resilience.fallbacks[0].model,
            "error.type": type(error).__name__,
        }
        span.add_event("nighthawk.fallback.taken", attributes)
