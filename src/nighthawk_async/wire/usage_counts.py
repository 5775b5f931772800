"""Counts of tokens that an endpoint reports in parts."""

__all__ = ["total_count"]


def total_count(*parts: int) -> int:
    """The sum of the parts; below zero where one of them is, since then the others are worth nothing either.

    Args:
        parts: The parts.
    """
    return sum(parts) if min(parts) >= 0 else -1
