"""Exponential backoff: the wait before a failed operation is retried."""

import math


def backoff_seconds(earlier: int, *, first: float, longest: float, factor: float = 2.0) -> float:
    """Return the wait before the next retry, without jitter, in seconds.

    Args:
        earlier: The number of waits before this one.
        first: The first wait, in seconds.
        longest: The longest wait, in seconds.
        factor: The growth from one wait to the next.
    """
    if first == 0:
        return 0.0
    try:
        growth = float(factor) ** earlier
    except OverflowError:
        growth = math.inf
    return min(first * growth, longest)
