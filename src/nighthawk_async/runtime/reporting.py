"""Reports of events that have no duration, to tracing and to the active hooks.

Something that lasts, such as a run, a step or a request, is an activity.
"""

from dataclasses import dataclass
from typing import TypeAlias

from ..observation import find_node_writer
from ..tracing import note_event
from ..types.execution import OUTSIDE_RUNS
from .bridge import run_from_sync
from .environment import Environment, find_environment
from .error_text import describe_error
from .events import (
    BudgetThreshold,
    OversightDecided,
    PermissionDecided,
    Retry,
    ToolLoopSuspected,
    VerificationRefused,
)

Event: TypeAlias = (
    BudgetThreshold | OversightDecided | PermissionDecided | Retry | ToolLoopSuspected | VerificationRefused
)


async def report(event: Event) -> None:
    """Report an event.

    Raises:
        StepAbortedError: A hook ends the step.
        HookError: A hook failed.
    """
    note_event(event)
    environment = find_environment()
    if environment is not None:
        await environment.policies.report(event)


def report_at_once(event: Event) -> None:
    """Report an event from code that cannot await.

    Raises:
        HookError: A hook failed.
    """
    note_event(event)
    environment = find_environment()
    if environment is not None:
        environment.policies.report_at_once(event)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RetryScheduled:
    """An attempt failed, and there will be another.

    Args:
        name: The name of the function, or the id of the step or model, that is retried.
        attempt: The number of the attempt that failed, from 1.
        error: The error that it failed with.
        wait_seconds: Seconds until the next attempt.
        failed_execution_id: The id of the execution that failed; None if it was not a step.
    """

    name: str
    attempt: int
    error: Exception
    wait_seconds: float
    failed_execution_id: str | None = None


def report_retry(retry: RetryScheduled) -> None:
    """Report a retry from synchronous code; async hooks run on the loop of its steps.

    Args:
        retry: The failed attempt, and the wait for the next one.

    Raises:
        HookError: A hook failed.
    """
    _write_note(retry)
    environment = find_environment()
    event = _retry_event(environment, retry)
    note_event(event)
    if environment is None:
        return
    for policy in environment.policies.overriding["report"]:
        if policy.awaits(Retry):
            run_from_sync(policy.report, event)
        else:
            policy.report_at_once(event)


async def report_retry_async(retry: RetryScheduled) -> None:
    """Report a retry.

    Args:
        retry: The failed attempt, and the wait for the next one.

    Raises:
        HookError: A hook failed.
    """
    _write_note(retry)
    await report(_retry_event(find_environment(), retry))


async def report_retry_to_hooks(retry: RetryScheduled) -> None:
    """Report a retry to the active hooks only; the caller records it elsewhere itself.

    Args:
        retry: The failed attempt, and the wait for the next one.

    Raises:
        HookError: A hook failed.
    """
    environment = find_environment()
    if environment is not None:
        await environment.policies.report(_retry_event(environment, retry))


def _retry_event(environment: Environment | None, retry: RetryScheduled) -> Retry:
    return Retry(
        execution_ref=OUTSIDE_RUNS if environment is None else environment.execution_ref,
        name=retry.name,
        attempt=retry.attempt,
        error=retry.error,
        wait_seconds=retry.wait_seconds,
        failed_execution_id=retry.failed_execution_id,
    )


def _write_note(retry: RetryScheduled) -> None:
    node = find_node_writer()
    if node is not None:
        node.count_retry()
        wait, text = f"{retry.wait_seconds:.3g}", describe_error(retry.error)
        node.write(
            "note", f"{retry.name}: attempt {retry.attempt} failed, next one in {wait} seconds: {text}\n"
        )
