"""Errors of hooks, oversight, checks and policies."""

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager

from ..errors import (
    AnnotationError,
    BudgetExceededError,
    ExecutionError,
    HookError,
    StepRejectedError,
    ToolValidationError,
    VerificationError,
)
from ..parallel import TaskCancelledError, cancel_requested
from .conclude import Rewriter
from .error_text import describe_error
from .late_value import wants_value
from .model_access import find_interception_error

_CHANGED: Mapping[Rewriter, str] = {
    "BeforeCommit": "the commit as hooks modified it",
    "inspect_step_commit": "the commit as oversight rewrote it",
}


@contextmanager
def failing_as_hook(subject: str, *, hook: str) -> Generator[None, None, None]:
    """Turn errors of deciding code into `HookError`, so that no model sees them.

    Args:
        subject: The name of the deciding code, for the message.
        hook: The name of the function that is called.

    Raises:
        HookError: The block raised.
        BudgetExceededError: The block raised it: the budget ends the step, whoever exceeded it.
        TaskCancelledError: The block raised it, and the task was asked to end.
        InterceptionError: The interception of a model request in it failed.
    """
    try:
        yield
    except BudgetExceededError:
        raise
    except Exception as error:
        if wants_value():
            raise  # the deciding code is asked again
        if isinstance(error, TaskCancelledError) and cancel_requested():
            raise
        if (interception := find_interception_error(error)) is not None:
            raise interception from interception.__cause__
        failed = HookError(f"{subject} failed: {describe_error(error)}", hook=hook)
        raise failed.without_content(f"{subject} failed: {type(error).__name__}") from error


def failing_as_rewriter(rewriter: Rewriter) -> AbstractContextManager[None]:
    """Turn errors about a changed commit into `HookError` of its rewriter; see `failing_as_hook`.

    Args:
        rewriter: The rewriter that changed the commit.
    """
    return failing_as_hook(_CHANGED.get(rewriter, f"the commit as {rewriter} changed it"), hook=rewriter)


@contextmanager
def failing_as_policy(method: str) -> Generator[None, None, None]:
    """Let errors of a policy through unchanged, except those that executors would show to a model.

    Args:
        method: The method that is called.

    Raises:
        HookError: The block raised an error that executors would take for a bad answer.
    """
    try:
        yield
    except (AnnotationError, StepRejectedError, VerificationError):
        raise  # no model sees these
    except (ExecutionError, ToolValidationError):
        with failing_as_hook(method, hook=method):
            raise
