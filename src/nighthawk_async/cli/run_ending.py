"""End of a script: its exit status, and the report of an error that nobody caught.

As Python itself does it, except that an interrupted script needs no traceback.
"""

import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import cast

from .run_arguments import ArgumentError
from .run_interrupts import EXIT_INTERRUPTED

__all__ = ["EXIT_ARGUMENTS", "status_after"]

EXIT_ARGUMENTS = 2
"""The script has no such function, or cannot be called like this."""


def status_after(script: Callable[[], None], *, file: str) -> int:
    """Carry a script out.

    Args:
        script: What to carry out.
        file: The file of the script; in tracebacks, what called it is left out.

    Returns:
        The exit status.

    Raises:
        ArgumentError: The script has no such function, or cannot be called like this.
    """
    try:
        script()
    except SystemExit as end:
        return _status_of_exit(end)
    except ArgumentError:
        raise
    except BaseException as error:
        if any(isinstance(leaf, KeyboardInterrupt) for leaf in _leaves(error)):
            return EXIT_INTERRUPTED
        sys.excepthook(type(error), error.with_traceback(_traceback_from(error, file)), error.__traceback__)
        return 1
    return 0


def _status_of_exit(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    print(end.code, file=sys.stderr)
    return 1


def _traceback_from(error: BaseException, file: str) -> TracebackType | None:
    """The traceback from the script on; all of it for an error in compiling the script."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename != file:
        traceback = traceback.tb_next
    if traceback is None and not isinstance(error, SyntaxError):
        return error.__traceback__
    return traceback


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
        yield from _leaves(inner)
