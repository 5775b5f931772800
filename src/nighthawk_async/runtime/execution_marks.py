"""Marks on errors and log records that say which execution they come from."""

import logging
import sys

from ..errors import NighthawkError
from ..types.execution import OUTSIDE_RUNS, ExecutionRef
from .environment import find_environment


def mark_with_execution(error: BaseException | None, execution_ref: ExecutionRef) -> None:
    """Note on an error of the library which execution raised it, unless a step within that one did.

    Args:
        error: The error; None for none.
        execution_ref: The identity of the execution that it leaves.
    """
    if isinstance(error, NighthawkError) and error.execution_id is None:
        error.execution_id = execution_ref.execution_id


_PACKAGE = __name__.partition(".")[0]


def hide_frames_from_pytest() -> None:
    """Leave the frames of the library out of the tracebacks that pytest shows, except when debugging.

    Called when a step has failed: then all modules that its traceback leads through are loaded. pytest's
    `--full-trace` shows them all the same.
    """
    if "_pytest" not in sys.modules or logging.getLogger("nighthawk").isEnabledFor(logging.DEBUG):
        return
    for name, module in tuple(sys.modules.items()):
        if name.partition(".")[0] == _PACKAGE:
            vars(module).setdefault("__tracebackhide__", True)


class _Marks(logging.Filter):
    """Gives records the identity of what is running, for formatters: `%(execution_id)s`."""

    def filter(self, record: logging.LogRecord) -> bool:
        environment = find_environment()
        ref = OUTSIDE_RUNS if environment is None else environment.execution_ref
        error = record.exc_info[1] if record.exc_info else None
        failed = error.execution_id if isinstance(error, NighthawkError) else None
        vars(record).update(
            run_id=ref.run_id or None,
            scope_id=ref.scope_id or None,
            step_id=ref.step_id,
            execution_id=ref.execution_id or failed,
            parent_execution_id=ref.parent_execution_id,
        )
        return True


_MARKS = _Marks()


def mark_log_records() -> None:
    """Give the records of the library's logger the identity of what is running; once for the program."""
    logging.getLogger("nighthawk").addFilter(_MARKS)  # which adds the same one once
