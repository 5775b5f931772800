"""A task group whose one error leaves as it is."""

from types import TracebackType
from typing import cast

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

__all__ = ["BareTaskGroup"]


class BareTaskGroup:
    """A task group that raises the error of its only failing task bare, not in an exception group.

    Entering gives the task group, leaving waits for its tasks. When several tasks failed, the exception group
    is the honest answer. Only the outermost layer is taken off: an exception group that a task raised on
    purpose stays as it is. An error takes the place of a cancellation, as it does in a `finally` clause.
    """

    def __init__(self) -> None:
        self._task_group = anyio.create_task_group()

    async def __aenter__(self) -> TaskGroup:
        return await self._task_group.__aenter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            is_caught = await self._task_group.__aexit__(exc_type, exc, traceback)
        except BaseExceptionGroup as group:
            error = _bare(group)
        else:
            if exc is None:
                # On asyncio, leaving does not raise the cancellation with which its tasks have ended.
                await checkpoint_if_cancelled()
            return is_caught
        if error is exc or _is_copy(error, exc):
            return False  # what the body raised goes on by itself
        # Raised outside the handler, so that it does not refer to the group. What the body raised, maybe the
        # cancellation for this very error, would take the place of its context.
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context


def _is_copy(error: BaseException, original: BaseException | None) -> bool:
    """Whether an error is what Trio makes of a group that it has looked through for cancellations."""
    if not isinstance(error, BaseExceptionGroup) or not isinstance(original, BaseExceptionGroup):
        return False
    groups = cast("list[BaseExceptionGroup[BaseException]]", [error, original])
    return groups[0].exceptions == groups[1].exceptions


def _bare(group: BaseExceptionGroup[BaseException]) -> BaseException:
    cancelled = anyio.get_cancelled_exc_class()
    errors = [error for error in group.exceptions if not isinstance(error, cancelled)]
    if len(errors) == 1:
        return errors[0]
    return group.derive(errors) if errors else group
