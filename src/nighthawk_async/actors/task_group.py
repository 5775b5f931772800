"""A task group that raises a single error bare, and cancellations that were not meant for their task.

On asyncio, a task that awaits a future or task that others cancel gets their `CancelledError`. It looks like
a cancellation of the waiting task and would silently end that task, and everything that it serves. Trio has
no such thing, unless a caught `Cancelled` is raised again later.

A task that is ended directly by `asyncio.Task.cancel`, and not by a cancel scope, looks the same from here:
it fails. If asyncio cancels the host of an actor too, in the body of its block, the host still ends
cancelled.
"""

from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from ..causes import is_group
from ..pickling import set_public_module
from .errors import ActorError


class ForeignCancellationError(ActorError):
    """Something that a task awaited was cancelled, but not the task itself."""

    def __init__(self) -> None:
        super().__init__("something that was awaited was cancelled, and not the task that awaited it")


def is_cancelled() -> bool:
    """Whether the current task is being cancelled, by a scope around the caller."""
    return anyio.get_current_task().has_pending_cancellation()


@contextmanager
def raising_foreign_cancellations() -> Generator[None, None, None]:
    """Turn a cancellation that is not the current task's own into an error.

    Raises:
        ForeignCancellationError: A cancellation was raised, and no scope around the caller is cancelled.
    """
    try:
        yield
    except anyio.get_cancelled_exc_class() as cancelled:
        if is_cancelled():
            raise
        raise ForeignCancellationError from cancelled


class BareTaskGroup:
    """A task group that raises the error of its only failing task bare, not in an exception group.

    Entering returns the task group, leaving waits for its tasks. If several tasks failed, the exception group
    is raised. Only the outermost layer is removed: an exception group that a task raised on purpose stays as
    it is. An error replaces a cancellation, as it does in a `finally` clause.
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
            return False  # the exception of the body propagates by itself
        # Raised outside the handler, so that it does not refer to the group. An exception of the body, maybe
        # the cancellation for this very error, would otherwise replace its context.
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context


def _is_copy(error: BaseException, original: BaseException | None) -> bool:
    """Whether an error is Trio's copy of a group from which it has filtered cancellations."""
    return is_group(error) and is_group(original) and error.exceptions == original.exceptions


def _bare(group: BaseExceptionGroup[BaseException]) -> BaseException:
    cancelled = anyio.get_cancelled_exc_class()
    errors = [error for error in group.exceptions if not isinstance(error, cancelled)]
    if len(errors) == 1:
        return errors[0]
    return group.derive(errors) if errors else group


set_public_module("actors", globals())
