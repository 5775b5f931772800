"""The most frequent value. Pure."""

from collections.abc import Iterable
from typing import Generic, TypeVar

from ..runtime.error_text import describe_error
from .errors import InvalidPolicyError, VoteError

__all__ = ["Votes", "plurality"]

Value = TypeVar("Value")


def plurality(values: Iterable[Value]) -> Value:
    """The value that occurs most often; of several such values, the one that got there first.

    Values are the same when they are equal, so they need not be hashable.

    Args:
        values: The values, at least one.

    Raises:
        InvalidPolicyError: There are no values.
        VoteError: Two values do not say whether they are equal.
    """
    votes = Votes[Value]()
    for value in values:
        votes.add(value)
    return votes.leader


class Votes(Generic[Value]):
    """Counts values, equal ones together."""

    __slots__ = ("_counts", "_leading", "_values")

    def __init__(self) -> None:
        self._values: list[Value] = []
        self._counts: list[int] = []
        self._leading = 0

    @property
    def leader(self) -> Value:
        """The value with the most votes; of several, the one that got there first.

        Raises:
            InvalidPolicyError: There is none yet.
        """
        if not self._values:
            raise InvalidPolicyError("plurality needs at least one value")
        return self._values[self._leading]

    def add(self, value: Value) -> None:
        """Count a vote.

        Args:
            value: What it is for.

        Raises:
            VoteError: It does not say whether it is equal to another.
        """
        position = self._position(value)
        self._counts[position] += 1
        if self._counts[position] > self._counts[self._leading]:
            self._leading = position

    def is_certain(self, outstanding: int) -> bool:
        """Whether the leader stays the leader, however the votes go that are still to come.

        It does as well when another may get as many votes: the leader had them before.

        Args:
            outstanding: How many are still to come, at most.
        """
        if not self._values:
            return False
        others = (count for position, count in enumerate(self._counts) if position != self._leading)
        return self._counts[self._leading] >= max(others, default=0) + outstanding

    def _position(self, value: Value) -> int:
        for position, known in enumerate(self._values):
            if _is_same(known, value):
                return position
        self._values.append(value)
        self._counts.append(0)
        return len(self._values) - 1


def _is_same(one: object, other: object) -> bool:
    """Whether two values are one; what is not equal to itself, NaN, is the same nevertheless."""
    try:
        return one is other or bool(one == other)
    except Exception as error:  # arrays give one answer for each element, and that is neither yes nor no
        raise VoteError(
            f"{type(other).__name__} does not say whether two values are equal, so there is no plurality; "
            f"give decide=… to a vote, or reconcile=… to an ensemble ({describe_error(error)})",
            errors=[error],
        ) from error
