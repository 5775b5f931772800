"""Marks on errors and log records that identify their execution."""

import logging

from ..errors import NighthawkError
from ..types.execution import OUTSIDE_RUNS, ExecutionRef
from .environment import find_environment


def mark_with_execution(error: BaseException | None, execution_ref: ExecutionRef) -> None:
    """Record on an error of the library which execution raised it, unless a nested step already did.

    Args:
        error: The error; None for none.
        execution_ref: The identity of the execution that it leaves.
    """
    if isinstance(error, NighthawkError) and error.execution_id is None:
        error.execution_id = execution_ref.execution_id


class _Marks(logging.Filter):
    """Adds the identity of the execution to records, for formatters: `%(execution_id)s`."""

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
    """Add the identity of the execution to the records of the library's logger; idempotent."""
    logging.getLogger("nighthawk").addFilter(_MARKS)  # adds the same filter only once
