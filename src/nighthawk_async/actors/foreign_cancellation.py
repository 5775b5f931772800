"""Cancellations that nobody meant for the task that gets them.

On asyncio, whoever awaits a future or task that others cancel gets their `CancelledError`. It looks like a
cancellation of the waiting task and would end that task, and all that it serves, without a word. Trio has no
such thing, unless a caught `Cancelled` is raised again later.

A task that `asyncio.Task.cancel` ends directly, and no cancel scope, looks the same from here: it fails.
When asyncio cancels the host of an actor too, in the body of its block, the host ends cancelled all the same.
"""

from collections.abc import Generator
from contextlib import contextmanager

import anyio

from .errors import ActorError

__all__ = ["ForeignCancellationError", "is_cancelled", "raising_foreign_cancellations"]


class ForeignCancellationError(ActorError):
    """Something that was awaited was cancelled, and not the task that awaited it."""

    def __init__(self) -> None:
        super().__init__("something that was awaited was cancelled, and not the task that awaited it")


def is_cancelled() -> bool:
    """Whether a cancellation of the current task is under way, by a scope around the caller."""
    return anyio.get_current_task().has_pending_cancellation()


@contextmanager
def raising_foreign_cancellations() -> Generator[None, None, None]:
    """Turn a cancellation that is none of the current task's own into an error.

    Raises:
        ForeignCancellationError: A cancellation came out, and no scope around the caller is cancelled.
    """
    try:
        yield
    except anyio.get_cancelled_exc_class() as cancelled:
        if is_cancelled():
            raise
        raise ForeignCancellationError from cancelled
