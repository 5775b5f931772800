"""The task that waits for a call on a worker."""

import anyio

from ..kernel.features import Feature

_caller = Feature[object](None)


def note_caller_task() -> None:
    """Note the current task in the context of a call, before the call leaves it."""
    _caller.set(anyio.get_current_task().coro)


def find_caller_task() -> object:
    """Return the coroutine of the task that made the call."""
    return _caller.get()
