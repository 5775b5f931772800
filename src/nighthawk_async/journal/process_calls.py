"""The calls of queues that this process has in progress, by worker.

Workers of one process, of any store and queue, have to know of each other: when the process ends, all of
their calls are lost with it.
"""

import os

from msgspec import Struct


class _WorkerCalls(Struct, frozen=True):
    """The calls of one worker."""

    number: int
    is_alone: bool


_calls: dict[str, _WorkerCalls] = {}


def note_calls(holder: str, number: int, *, is_alone: bool) -> None:
    """Note the calls of a worker.

    Args:
        holder: The worker.
        number: The number of its calls in progress; nothing is kept for none.
        is_alone: Whether it has, or waits for, a call that is to be alone in the process.
    """
    if number or is_alone:
        _calls[holder] = _WorkerCalls(number, is_alone)
    else:
        _calls.pop(holder, None)


def has_others(holder: str) -> bool:
    """Whether other workers of this process have calls in progress."""
    return any(each.number for each in _others(holder))


def must_wait(holder: str) -> bool:
    """Whether a worker may claim nothing, because another one of this process is to be alone."""
    return any(each.is_alone for each in _others(holder))


def _others(holder: str) -> list[_WorkerCalls]:
    here = f"{os.getpid()}:"  # a forked process has none of its parent's
    return [each for name, each in list(_calls.items()) if name != holder and name.startswith(here)]
