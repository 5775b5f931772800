"""Running one task to its end, whatever that is."""

import math
from collections.abc import Callable
from typing import Any, cast

import anyio
from anyio import get_cancelled_exc_class
from anyio.lowlevel import checkpoint_if_cancelled

from ..observation import using_node_writer
from .calling import call_any
from .errors import CallCancelledError
from .failures import without_cancellations
from .task_current import enter_node
from .task_errors import TaskCancelledError
from .task_state import TaskState

__all__ = ["run_task"]

_FROM_OUTSIDE = "its block was cancelled"


async def run_task(state: TaskState[Any], function: Callable[..., Any], args: tuple[object, ...]) -> None:
    """Run a task. How it ends is kept in its state; only a cancellation from outside goes further."""
    try:
        with state.scope:
            await _run(state, function, args)
    except get_cancelled_exc_class():
        if anyio.current_effective_deadline() != -math.inf:
            state.fail(CallCancelledError("something that the task awaited was cancelled"))
            return
        state.end_cancelled(_FROM_OUTSIDE)
        raise
    except Exception as error:
        _end_with(state, error)
    except BaseException as error:
        # On Trio, errors raised during a cancellation from outside come in one group with it.
        rest = without_cancellations(error)
        if rest is None:
            state.end_cancelled(_FROM_OUTSIDE)
            raise
        state.fail(rest)
    if not state.is_ended:  # its own scope has caught the cancellation
        state.end_cancelled()


async def _run(state: TaskState[Any], function: Callable[..., Any], args: tuple[object, ...]) -> None:
    if state.is_ended:
        return
    await checkpoint_if_cancelled()  # what is around the block may be cancelled before the task begins
    state.begin()
    enter_node(state.node)
    if state.node.writer is None:
        state.complete(await call_any(function, *args))
        return
    with using_node_writer(state.node.writer):
        state.complete(await call_any(function, *args))


def _end_with(state: TaskState[Any], error: Exception) -> None:
    """A task that was asked to end, and then raises that some task was cancelled, has ended for that."""
    if state.node.request is not None and _says_cancelled(error):
        state.end_cancelled()
    else:
        state.fail(error)


def _says_cancelled(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return all(_says_cancelled(each) for each in group.exceptions)
    return isinstance(error, TaskCancelledError)
