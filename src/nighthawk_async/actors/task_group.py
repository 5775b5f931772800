"""A task group whose one error leaves as it is. Floor 1."""

from types import TracebackType

import anyio
from anyio.abc import TaskGroup

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
            return await self._task_group.__aexit__(exc_type, exc, traceback)
        except BaseExceptionGroup as group:
            error = _bare(group)
        if error is exc:
            return False  # what the body raised goes on by itself
        # Raised outside the handler, so that the error keeps its own context and does not refer to the group.
        raise error


def _bare(group: BaseExceptionGroup[BaseException]) -> BaseException:
    errors = group.split(anyio.get_cancelled_exc_class())[1] or group
    return errors.exceptions[0] if len(errors.exceptions) == 1 else errors
