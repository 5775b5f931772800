"""Log records for errors that only a client sees."""

import logging

from ..prompt.plain_text import single_line
from .problems import CANCELLED, Problem, find_problem

__all__ = ["is_cancellation", "log_problem"]

_LOGGER = logging.getLogger("nighthawk")

_MAX_LOGGED_CHARACTERS = 1_000
_SERVER_ERROR = 500
_BROKEN = (500, 502)
"""The statuses of what somebody has to fix; others are what somebody wanted, or what passes."""


def is_cancellation(error: Exception) -> bool:
    """Whether an error only says that somebody has ended the work, as `TaskCancelledError` does.

    Args:
        error: What the work has raised.
    """
    return find_problem(error) == CANCELLED


def log_problem(what: str, problem: Problem, error: Exception, *, is_expected: bool = False) -> None:
    """Log an error on one line: with its traceback when somebody has to fix it.

    Args:
        what: What has happened.
        problem: What the client is told.
        error: The error.
        is_expected: Whether it is what happens when a client leaves, which is nothing to be told of.
    """
    said = single_line(str(error), _MAX_LOGGED_CHARACTERS)  # it may quote what a model or a client said
    is_broken = problem.status in _BROKEN and not is_expected
    level = logging.WARNING if problem.status >= _SERVER_ERROR else logging.INFO
    level = logging.ERROR if is_broken else logging.DEBUG if is_expected else level
    message = "%s with the status %d: %s: %s"
    _LOGGER.log(
        level,
        message,
        what,
        problem.status,
        type(error).__name__,
        said,
        exc_info=error if is_broken else None,
    )
