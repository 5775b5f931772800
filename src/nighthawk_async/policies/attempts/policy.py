"""A resilience baseline as a policy: several attempts at a step, each in its time."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias, TypeVar

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from ...causes import leaves_of
from ...errors import ExecutionError, ModelError, StepLimitError
from ...kernel.commands import is_awaitable
from ...kernel.conclude import StepResult
from ...kernel.environment import Environment, get_environment, using_environment
from ...kernel.events import RetryScheduled, report_retry_async
from ...kernel.fold import StepEnd, StepProceed
from ...kernel.policy import InnerScope, Policies, Position, Repeating
from ...kernel.step import ExecuteAttempt, Step, StepAttempt
from ...parallel import raise_if_cancel_requested
from ...parallel.decided_limits import run_within
from ...tracing import note_named_event
from ...types.unset import Unset
from ...values.error_text import describe_error
from .resilience import (
    StepBaseline,
    StepResilience,
    active_resilience,
    may_be_retried,
    model_of,
    note_earlier_errors,
)
from .samples import using_sample

Result = TypeVar("Result")

Adapt: TypeAlias = Callable[[Environment, StepResilience], Environment]
"""Returns an environment in which another baseline is active, with its executor."""


async def execute_attempts(
    step_id: str, resilience: StepResilience, execute: ExecuteAttempt, adapt: Adapt
) -> StepResult:
    """Run a step until it succeeds or is not retried any more.

    Args:
        step_id: The step.
        resilience: The number of attempts, and their models.
        execute: Runs one attempt.
        adapt: Returns the environment for attempts with another model.

    Raises:
        HookError: A hook failed that was notified of a retry.
        TaskCancelledError: Another attempt was due, but the task of the step was asked to end.
        Exception: The error of the last attempt, with a note on the earlier ones.
    """
    attempts = _Attempts(step_id, resilience, adapt)
    try:
        while True:
            try:
                with using_environment(attempts.environment), using_sample(attempts.attempt.number - 1):
                    return await execute(attempts.attempt)
            except Exception as error:
                if not await attempts.prepare_retry(error):
                    raise
    except Exception as error:
        attempts.note(error)
        raise


async def within_timeout(seconds: float, work: Callable[[], Awaitable[Result]]) -> Result:
    """Run one attempt at an admitted step within its time limit.

    Args:
        seconds: The time limit, in seconds.
        work: The work.

    Raises:
        StepLimitError: The time is over.
    """
    done = await run_within(seconds, work, kind="timeout")
    if done is not None:
        return done[0]
    raise StepLimitError(
        f"step {get_environment().execution_ref.step_id}: no outcome after {seconds:g} seconds "
        "(timeout of its resilience)"
    )


class _Attempts:
    """The attempts so far, and the next one."""

    def __init__(self, step_id: str, resilience: StepResilience, adapt: Adapt) -> None:
        self.attempt = StepAttempt(number=1)
        self.environment = get_environment()
        self._adapt = adapt
        self._step_id = step_id
        self._resilience: StepResilience = resilience
        self._before: StepResilience = resilience
        self._names_models = bool(resilience.fallbacks)
        self._attempts_with_model = 1
        self._waits: list[float] = []
        self._earlier: list[str] = []  # texts, because errors would keep their frames alive

    async def prepare_retry(self, error: Exception) -> bool:
        """Prepare and report another attempt; return False when there is none.

        Args:
            error: The error of the last attempt.

        Raises:
            TaskCancelledError: Another attempt was due, but the task of the step was asked to end.
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
        self._set_next_attempt(retry)
        await report_retry_async(retry)
        answer = None if self._resilience.on_retry is None else self._resilience.on_retry(retry)
        if is_awaitable(answer):
            await answer
        await checkpoint()
        return True

    def note(self, error: Exception) -> None:
        """Add a note about the earlier attempts to the last error.

        Args:
            error: The error.
        """
        if self._earlier:
            waits = ", ".join(f"{wait:.3g}" for wait in self._waits)
            title = f"{self.attempt.number} attempts at step {self._step_id}, with waits of {waits} seconds"
            note_earlier_errors(error, title, self._earlier)

    def _decide(self, error: Exception) -> float | None:
        """Return the seconds until the next attempt; None when there is none."""
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

    def _set_next_attempt(self, retry: RetryScheduled) -> None:
        failed = self.attempt
        executor, text = self.environment.step_executor, describe_error(retry.error)
        self._earlier.append(f"{model_of(executor)}: {text}" if self._names_models else text)
        self._waits.append(retry.wait_seconds)
        if self._resilience is not self._before:
            _record_fallback(self._step_id, self._before, retry.error)
            self._before = self._resilience
            self.environment = self._adapt(self.environment, self._resilience)
        self.attempt = StepAttempt(
            number=failed.number + 1,
            begins_at=anyio.current_time() + retry.wait_seconds,
            before=failed.steered,
        )


def _leads_to_another_model(error: Exception) -> bool:
    return may_be_retried(error) and all(
        isinstance(each, ExecutionError | ModelError) for each in leaves_of(error)
    )


def _record_fallback(step_id: str, resilience: StepResilience, error: Exception) -> None:
    attributes = {
        "nighthawk.retry.name": step_id,
        "nighthawk.fallback.from": str(model_of(resilience.executor)),
        "nighthawk.fallback.to": resilience.fallbacks[0].model,
        "error.type": type(error).__name__,
    }
    note_named_event("nighthawk.fallback.taken", attributes)


@dataclass(frozen=True, slots=True, eq=False)
class AttemptsPolicy(Repeating):
    """Applies retries, fallbacks and a timeout to each step.

    Args:
        resilience: The number of attempts, their models, and their time limit.
    """

    resilience: StepResilience

    position: ClassVar[Position] = Position.ATTEMPTS

    def execute_block(self, step_id: str, execute: ExecuteAttempt) -> Awaitable[StepResult]:
        """Run a block until a step succeeds or is not retried any more."""
        return execute_attempts(step_id, self.resilience, execute, _adapted)

    async def around_step(self, step: Step, proceed: StepProceed) -> StepEnd:
        """Run one step within its time limit."""
        timeout = self.resilience.timeout
        return await (proceed() if timeout is None else within_timeout(timeout, proceed))


def _adapted(environment: Environment, resilience: StepResilience) -> Environment:
    policies = environment.policies.with_policy(AttemptsPolicy(resilience))
    return replace(environment, step_executor=resilience.executor, policies=policies)


def with_resilience(policies: Policies, given: StepBaseline | Unset | None, inner: InnerScope) -> Policies:
    """Add the `resilience` argument of `run` and `scope` to the policies.

    Args:
        policies: The policies before.
        given: The given baseline; None for none, unset for no change besides the executor.
        inner: The run or scope.

    Raises:
        NighthawkError: The argument is not a baseline.
        ConfigurationError: A model is not available.
    """
    parent = policies.find(AttemptsPolicy)
    resilience = active_resilience(
        None if parent is None else parent.resilience, given, inner.executor, is_added=inner.is_added
    )
    if resilience is None:
        return policies.without(AttemptsPolicy)
    return policies.with_policy(AttemptsPolicy(resilience))
