"""Depth of nested steps: its limit, and cancellation at any depth.

A step that a model starts within a step, through a tool, keeps its parents waiting. A model that calls the
function that it works for would recurse for ever; so a run has a limit.

Each level holds task groups, cancel scopes and stack frames. On asyncio, AnyIO delivers a cancellation to
nested scopes by recursion, and Python resumes coroutines that await each other by recursion. A few hundred
levels would exceed Python's recursion limit, and then nothing would ever end. So each stretch of levels
begins in a task of its own, in a shielded cancel scope; the code that waits for the task passes the
cancellation on (`test_step_nesting.test_deep_steps_are_cancelled`). The default limit is one stretch.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

from ..actors import BareTaskGroup
from ..errors import NestedStepLimitError, NighthawkError
from ..executions import find_execution_in_progress

Result = TypeVar("Result")

DEFAULT_MAX_DEPTH = 16

_STRETCH = 16
"""The greatest number of levels that share a task, if only Python code is between them."""


def current_depth() -> int:
    """Return the number of steps that the caller is nested in, in all nested runs.

    Steps that have ended do not count: a task that outlives its step is no longer nested in it.
    """
    innermost = find_execution_in_progress()
    return 0 if innermost is None else innermost.depth


def inner_max_depth(outer: int | None, given: object) -> int:
    """Return the limit of nested steps in a run or scope, counting enclosing steps.

    Args:
        outer: The limit of the enclosing scope; None for none.
        given: The limit given for this one.

    Raises:
        NighthawkError: The given limit is not a positive integer.
    """
    if not isinstance(given, int) or isinstance(given, bool) or given <= 0:
        raise NighthawkError(f"max_depth must be a positive integer, not {given!r}")
    inner = current_depth() + given
    return inner if outer is None else min(outer, inner)


def too_deep(depth: int, max_depth: int, *, step_id: str) -> NestedStepLimitError:
    """Make the error for a step that would be nested too deep.

    Args:
        depth: The number of steps that it is nested in.
        max_depth: The greatest depth, including the step itself.
        step_id: The step.
    """
    return NestedStepLimitError(
        f"step {step_id}: not begun, because it would be number {depth + 1} of steps within steps, and "
        f"max_depth allows {max_depth}; do without it, or give the run a higher max_depth"
    )


def begins_stretch(depth: int) -> bool:
    """Whether a step begins a stretch of levels, and so needs a task of its own; see `in_own_task`.

    Args:
        depth: The number of steps that it is nested in.
    """
    return depth > 0 and depth % _STRETCH == 0


async def in_own_task(work: Callable[[], Awaitable[Result]]) -> Result:
    """Run work in a task of its own, and wait for it as if it were awaited directly.

    The context variables of the caller flow in. A cancellation of the caller is passed on.

    Args:
        work: The work.

    Raises:
        BaseException: The error of the work, unchanged.
    """
    hosted = _Hosted(work)
    try:
        async with BareTaskGroup() as task_group:
            task_group.start_soon(hosted.run)
            await hosted.wait()
    finally:
        hosted.raise_error()
    return hosted.result()


class _Hosted(Generic[Result]):
    """Work in a task of its own."""

    __slots__ = ("_ended", "_error", "_results", "_scope", "_work")

    def __init__(self, work: Callable[[], Awaitable[Result]]) -> None:
        self._work = work
        self._scope = anyio.CancelScope(shield=True)
        self._ended = anyio.Event()
        self._results: list[Result] = []
        self._error: BaseException | None = None

    async def run(self) -> None:
        try:
            with self._scope:
                self._results.append(await self._work())
        except anyio.get_cancelled_exc_class():
            raise  # this very task is cancelled, as asyncio does with all tasks when its loop ends
        except BaseException as error:  # also KeyboardInterrupt and the like: raised again in the caller
            self._error = error
        finally:
            self._ended.set()

    async def wait(self) -> None:
        """Wait until it has ended, and cancel it when the caller is cancelled."""
        try:
            await self._ended.wait()
        except BaseException:
            self._scope.cancel()
            raise

    def raise_error(self) -> None:
        """Raise the error of the work; it replaces a cancellation, as in a `finally` clause."""
        error = self._error
        if error is None:
            return
        self._error = None  # breaks the reference cycle of the error with its traceback
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context

    def result(self) -> Result:
        """The result of the work.

        Raises:
            BaseException: Only its task was cancelled.
        """
        if not self._results:
            raise anyio.get_cancelled_exc_class()
        return self._results[0]
