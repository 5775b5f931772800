"""Progress of a vote, and the weight of the calls that are left. Pure."""

from typing import Generic, TypeVar

from ..parallel import Failed, Outcome
from ..policies.attempts.retry_policy import may_be_retried
from ..runtime.model_access import find_interception_error
from .errors import VoteError
from .plurality import Votes

__all__ = ["Tally"]

Value = TypeVar("Value")


class Tally(Generic[Value]):
    """Outcomes of the calls.

    Args:
        count: How many calls there are.
        min_success: How many have to succeed.
        votes: Counts the values, when a plurality decides; None when something else does, that has to see
            them all.

    Attributes:
        values: What the calls returned that did, by position, in the order in which they ended.
        errors: What the calls raised that did, likewise.
        final_error: An error that is not for others to make up for: somebody's decision stands behind it, or
            values cannot be compared.
        is_settled: Whether calls in flight make no difference any more.
    """

    __slots__ = ("_votes", "count", "errors", "final_error", "is_settled", "min_success", "values")

    def __init__(self, count: int, min_success: int, *, votes: Votes[Value] | None) -> None:
        self.count = count
        self.min_success = min_success
        self.values: dict[int, Value] = {}
        self.errors: dict[int, Exception] = {}
        self.final_error: Exception | None = None
        self.is_settled = False
        self._votes = votes

    @property
    def has_succeeded(self) -> bool:
        """Whether enough calls have succeeded."""
        return len(self.values) >= self.min_success

    def take(self, position: int, outcome: Outcome[Value]) -> None:
        """Take the outcome of a call. What ends when everything is settled does not count.

        Args:
            position: Which call it was, from 0.
            outcome: How it ended.
        """
        if self.is_settled:
            return
        if isinstance(outcome, Failed):
            self._take_error(position, outcome.error)
        else:
            self._take_value(position, outcome.value)
        self.is_settled = self._is_settled()

    def values_in_order(self) -> list[Value]:
        """The results of the calls that returned, in the order of the calls."""
        return [self.values[position] for position in sorted(self.values)]

    def errors_in_order(self) -> list[Exception]:
        """The errors of the calls that raised, in the order of the calls."""
        return [self.errors[position] for position in sorted(self.errors)]

    def _take_value(self, position: int, value: Value) -> None:
        self.values[position] = value
        try:
            if self._votes is not None:
                self._votes.add(value)
        except VoteError as error:
            self.final_error = error

    def _take_error(self, position: int, error: Exception) -> None:
        self.errors[position] = error
        if not may_be_retried(error) or find_interception_error(error) is not None:
            self.final_error = error

    def _is_settled(self) -> bool:
        if self.final_error is not None or len(self.errors) > self.count - self.min_success:
            return True
        outstanding = self.count - len(self.values) - len(self.errors)
        return self._votes is not None and self.has_succeeded and self._votes.is_certain(outstanding)
