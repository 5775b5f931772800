"""The calls of queues that this process has in progress, by worker.

Workers of one process, of any store and queue, have to know of each other: when the process ends, all of
their calls are lost with it.
"""

import os
import threading

from msgspec import Struct


class _WorkerCalls(Struct, frozen=True):
    """The calls of one worker."""

    number: int
    is_alone: bool


_calls: dict[str, _WorkerCalls] = {}
_claiming = threading.Lock()


def claiming() -> threading.Lock:
    """The lock of a claim, from the look at the others of this process to the note of what was claimed.

    Stores claim in threads of their own (`test_workers_of_two_stores_claim_one_after_the_other`). It is held
    within transactions. None waits for it that holds what its owner needs: it is the first step of each.
    """
    return _claiming


def _renew_lock() -> None:
    global _claiming
    _claiming = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


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
