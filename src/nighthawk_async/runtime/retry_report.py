"""Telling traces and hooks that something will be tried again."""

from dataclasses import dataclass

from opentelemetry import trace

from ..observation import find_node_writer
from .bridge import run_from_sync
from .environment import Environment, find_environment
from .error_text import describe_error
from .events import Retry


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RetryScheduled:
    """An attempt failed, and there will be another.

    Args:
        name: What is tried: the name of the function, or the id of the step or of the model.
        attempt: Which attempt failed, from 1.
        error: Why.
        wait_seconds: Seconds until the next attempt.
        failed_execution_id: The id of the execution that failed; None when what is tried is no step.
    """

    name: str
    attempt: int
    error: Exception
    wait_seconds: float
    failed_execution_id: str | None = None


def report_retry(retry: RetryScheduled) -> None:
    """Tell the current span, and the hooks in force, from synchronous code: async ones where its steps are.

    Args:
        retry: What happened.

    Raises:
        HookError: A hook failed.
    """
    _tell_node(retry)
    _record(retry)
    environment = find_environment()
    if environment is None:
        return
    for policy in environment.policies.that["report"]:
        if policy.awaits(Retry):
            run_from_sync(policy.report, _event(environment, retry))
        else:
            policy.report_at_once(_event(environment, retry))


async def report_retry_async(retry: RetryScheduled) -> None:
    """Tell the current span, and the hooks in force.

    Args:
        retry: What happened.

    Raises:
        HookError: A hook failed.
    """
    _tell_node(retry)
    _record(retry)
    await tell_hooks_of_retry(retry)


async def tell_hooks_of_retry(retry: RetryScheduled) -> None:
    """Tell the hooks in force alone, for whoever tells traces in other words.

    Args:
        retry: What happened.

    Raises:
        HookError: A hook failed.
    """
    environment = find_environment()
    if environment is not None:
        await environment.policies.report(_event(environment, retry))


def _event(environment: Environment, retry: RetryScheduled) -> Retry:
    return Retry(
        execution_ref=environment.execution_ref,
        name=retry.name,
        attempt=retry.attempt,
        error=retry.error,
        wait_seconds=retry.wait_seconds,
        failed_execution_id=retry.failed_execution_id,
    )


def _tell_node(retry: RetryScheduled) -> None:
    node = find_node_writer()
    if node is not None:
        node.count_retry()
        wait, told = f"{retry.wait_seconds:.3g}", describe_error(retry.error)
        node.write(
            "note", f"{retry.name}: attempt {retry.attempt} failed, next one in {wait} seconds: {told}\n"
        )


def _record(retry: RetryScheduled) -> None:
    """The event on the current span holds no text of the error, which may quote data."""
    span = trace.get_current_span()
    if span.is_recording():
        attributes: dict[str, str | int | float] = {
            "nighthawk.retry.name": retry.name,
            "nighthawk.retry.attempt": retry.attempt,
            "nighthawk.retry.wait_seconds": retry.wait_seconds,
            "error.type": type(retry.error).__name__,
        }
        span.add_event("nighthawk.retry.scheduled", attributes)
