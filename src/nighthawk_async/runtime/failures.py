"""Errors of hooks, oversight, checks and policies while they decide."""

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
def failing_as_hook(who: str, *, hook: str) -> Generator[None, None, None]:
    """Raise what the block raises as the failure of code that was to decide, so that no model is told of it.

    Args:
        who: The name of the one that decides, for the message.
        hook: The name of the function that is asked.

    Raises:
        HookError: The block raised.
        BudgetExceededError: It raised this: the budget ends the step, whoever asked for more.
        TaskCancelledError: It raised this, and the task was asked to end.
        InterceptionError: A model request in it was intercepted, in vain.
    """
    try:
        yield
    except BudgetExceededError:
        raise
    except Exception as error:
        if wants_value():
            raise  # who decides is asked again
        if isinstance(error, TaskCancelledError) and cancel_requested():
            raise
        if (interception := find_interception_error(error)) is not None:
            raise interception from interception.__cause__
        failed = HookError(f"{who} failed: {describe_error(error)}", hook=hook)
        raise failed.without_content(f"{who} failed: {type(error).__name__}") from error


def failing_as_rewriter(rewriter: Rewriter) -> AbstractContextManager[None]:
    """Raise what the block raises as the failure of who changed a commit; see `failing_as_hook`.

    Args:
        rewriter: The rewriter that changed it.
    """
    return failing_as_hook(_CHANGED.get(rewriter, f"the commit as {rewriter} changed it"), hook=rewriter)


@contextmanager
def failing_as_policy(method: str) -> Generator[None, None, None]:
    """Let errors of a policy leave as they are, except those that executors would tell a model of.

    Args:
        method: The method that is called.

    Raises:
        HookError: The block raised what a bad answer raises.
    """
    try:
        yield
    except (AnnotationError, StepRejectedError, VerificationError):
        raise  # no model is told of these
    except (ExecutionError, ToolValidationError):
        with failing_as_hook(method, hook=method):
            raise
