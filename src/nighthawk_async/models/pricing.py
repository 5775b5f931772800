"""The usage and the cost of a request over all its attempts. Pure."""

from dataclasses import replace

from ..catalog.request_cost import cost_of
from ..ports import AttemptUsage
from ..types.model import ModelPrice
from ..types.usage import Usage

_NOTHING = Usage()


class UsageTally:
    """Adds up one request: the usage reported by failed attempts and by the last one, retries, and the cost.

    Args:
        price: The model's prices; None when they are unknown.
    """

    def __init__(self, price: ModelPrice | None) -> None:
        self._price = price
        self._lost = _NOTHING
        self._reported: Usage | None = None
        self._total_reported: Usage | None = None
        self._is_begun = False
        self.failed: list[AttemptUsage] = []
        """The attempts that failed, oldest first."""
        self.has_lost = False
        """Whether attempts that failed had reported any usage."""
        self.retries = 0
        """The number of times the request was sent again."""

    @property
    def usage(self) -> Usage | None:
        """The usage of the whole request as far as it is known; None when nothing was sent."""
        if not self._is_begun:
            return None
        return self.unreported() if self._total_reported is None else self._total_reported

    @property
    def present(self) -> Usage | None:
        """The usage reported by the current attempt; None for none."""
        return None if self._reported is None else self._priced(replace(self._reported, requests=0))

    @property
    def may_have_lost(self) -> bool:
        """Whether attempts that failed may have consumed more than they reported."""
        return not self._lost.is_complete

    def attempt_begun(self) -> None:
        """Record that the request is sent now."""
        self._is_begun = True

    def report(self, usage: Usage) -> Usage:
        """The usage of the whole request, as of a report of the current attempt.

        Args:
            usage: The usage of the attempt so far; it replaces earlier reports of the attempt.
        """
        self._reported = usage
        total = self._total_reported = self._total(usage)
        return total

    def attempt_failed(self, *, may_have_consumed: bool) -> None:
        """Keep the consumption of the current attempt, and expect the next one's reports.

        Args:
            may_have_consumed: Whether the attempt may have consumed more than it reported.
        """
        reported = self.present
        if reported is not None:
            reported = replace(reported, is_complete=False)
            self.has_lost = True
            self._lost += reported
        elif may_have_consumed:
            self._lost = replace(self._lost, is_complete=False)
        self.failed.append(AttemptUsage(reported=reported, may_have_consumed=may_have_consumed))
        self._reported = self._total_reported = None

    def unreported(self) -> Usage:
        """The usage of the whole request when the current attempt has reported none."""
        return self._total(Usage(requests=1, is_complete=False))

    def _total(self, usage: Usage) -> Usage:
        total = self._priced(usage)
        if self.failed:
            total += self._lost
        unpriced = total.requests if self._price is None else total.unpriced_requests
        if (total.retries, total.unpriced_requests) == (self.retries, unpriced):
            return total
        return replace(total, retries=self.retries, unpriced_requests=unpriced)

    def _priced(self, usage: Usage) -> Usage:
        """The usage of one attempt with its cost: the price of a token can depend on the number sent."""
        return usage if self._price is None else replace(usage, cost=cost_of(usage, self._price))
