"""Counts of tokens that an endpoint reports in parts. Floor 1."""

__all__ = ["total_count"]


def total_count(*parts: int | None) -> int:
    """The sum of the parts; below zero where one of them is, since then the others are worth nothing either.

    Args:
        parts: The parts; None for one that was not told.
    """
    told = [part for part in parts if part is not None]
    return sum(told) if min(told, default=0) >= 0 else -1
