"""Usage of model requests."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from operator import attrgetter

from .quick_init import quick_init

_LEAST_COST = Decimal("0.0001")
"""The smallest cost that is shown; less would look like zero."""

MAX_COUNT = 2**53
"""The greatest count; no request consumes more, and floats represent it exactly."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Consumption of one or more model requests. `+` adds two; `-` gives the difference from an earlier one.

    Args:
        requests: Number of requests, that is of model round trips.
        input_tokens: Tokens sent, cached ones included.
        output_tokens: Tokens received, reasoning included.
        cache_read_tokens: The part of `input_tokens` that the provider read from its cache.
        cache_write_tokens: The part of `input_tokens` that the provider wrote to its cache.
        cache_write_1h_tokens: The part of `cache_write_tokens` that the provider keeps for an hour.
        reasoning_tokens: The part of `output_tokens` spent on reasoning.
        image_output_tokens: The part of `output_tokens` that are images, as far as the provider tells.
        retries: The number of times that a request was sent again because an earlier attempt failed.
        cost: The cost of the priced requests, in US dollars.
        unpriced_requests: The part of `requests` whose cost is unknown, because the price of the model is.
        web_searches: Searches of the web by the provider.
        code_executions: Executions of code by the provider.
        file_searches: Searches of uploaded files by the provider.
        is_complete: False when a request ended before the provider reported its usage, or when the reported
            numbers are impossible.
        cached_requests: Number of requests that a response cache answered, beside `requests`: no model was
            asked, and they have no tokens and no cost.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    reasoning_tokens: int = 0
    image_output_tokens: int = 0
    retries: int = 0
    cost: Decimal = Decimal(0)
    unpriced_requests: int = 0
    web_searches: int = 0
    code_executions: int = 0
    file_searches: int = 0
    is_complete: bool = True
    cached_requests: int = 0

    def __str__(self) -> str:
        """Tokens and cost for people, with a `~` when they are not complete: `1,234 tokens, $0.0123`.

        Requests that a response cache answered are named, too.
        """
        tokens = f"{inexact_mark(self)}{self.input_tokens + self.output_tokens:,} tokens"
        cached = f"{self.cached_requests:,} cached" if self.cached_requests else ""
        return ", ".join(filter(None, (tokens, cost_text(self), cached)))

    def credible(self) -> "Usage":
        """The same usage without impossible numbers, which count as not reported.

        A count that is below zero, above 2**53 or no integer becomes 0, and so does a cost that is no amount
        of money. Cached tokens are part of the input, and reasoning is part of the output, so neither can
        exceed its whole. A usage with an impossible number is not complete.
        """
        if self._is_credible:
            return self
        sent, received, cost = _count(self.input_tokens), _count(self.output_tokens), _amount(self.cost)
        requests = _count(self.requests)
        read = min(_count(self.cache_read_tokens), sent)
        written = min(_count(self.cache_write_tokens), sent - read)
        credible = Usage(
            requests=requests,
            input_tokens=sent,
            output_tokens=received,
            cache_read_tokens=read,
            cache_write_tokens=written,
            cache_write_1h_tokens=min(_count(self.cache_write_1h_tokens), written),
            reasoning_tokens=min(_count(self.reasoning_tokens), received),
            image_output_tokens=min(_count(self.image_output_tokens), received),
            retries=_count(self.retries),
            cost=Decimal(0) if cost is None else cost,
            unpriced_requests=requests if cost is None else _count(self.unpriced_requests),
            web_searches=_count(self.web_searches),
            code_executions=_count(self.code_executions),
            file_searches=_count(self.file_searches),
            is_complete=self.is_complete,
            cached_requests=_count(self.cached_requests),
        )
        is_same = cost is not None and _counts_of(credible) == _counts_of(self)
        return credible if is_same else replace(credible, is_complete=False)

    @property
    def _is_credible(self) -> bool:
        """Whether all numbers are possible; checked for every report of every request, so it must be fast."""
        sent, received, cost = self.input_tokens, self.output_tokens, self.cost
        read, written, reasoning = self.cache_read_tokens, self.cache_write_tokens, self.reasoning_tokens
        hour, requests, retries = self.cache_write_1h_tokens, self.requests, self.retries
        unpriced = self.unpriced_requests
        searches, executions, file_searches = self.web_searches, self.code_executions, self.file_searches
        cached, images = self.cached_requests, self.image_output_tokens
        return (
            type(sent) is type(received) is type(read) is type(written) is type(reasoning) is int
            and type(hour) is type(requests) is type(retries) is type(unpriced) is type(cached) is int
            and type(searches) is type(executions) is type(file_searches) is type(images) is int
            # All at once: `|` is negative if one of them is, and otherwise no less than the greatest.
            and (tokens := sent | received | read | written | hour | reasoning | images) >= 0
            and (rest := requests | retries | unpriced | searches | executions | file_searches | cached) >= 0
            and (tokens | rest <= MAX_COUNT or max(_counts_of(self)) <= MAX_COUNT)
            and reasoning <= received
            and images <= received
            and read + written <= sent
            and hour <= written
            and type(cost) is Decimal
            and (not cost or _amount(cost) is not None)
        )

    def __add__(self, other: "Usage") -> "Usage":
        total = object.__new__(Usage)  # in a fifth of the time that `__init__` takes with as many names
        for set_count, mine, its in zip(_SET_COUNTS, _counts_of(self), _counts_of(other), strict=True):
            set_count(total, mine + its)
        _set_cost(total, self.cost + other.cost if other.cost else self.cost)
        _set_complete(total, self.is_complete and other.is_complete)
        return total

    def __sub__(self, earlier: "Usage") -> "Usage":
        return Usage(
            requests=self.requests - earlier.requests,
            input_tokens=self.input_tokens - earlier.input_tokens,
            output_tokens=self.output_tokens - earlier.output_tokens,
            cache_read_tokens=self.cache_read_tokens - earlier.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens - earlier.cache_write_tokens,
            cache_write_1h_tokens=self.cache_write_1h_tokens - earlier.cache_write_1h_tokens,
            reasoning_tokens=self.reasoning_tokens - earlier.reasoning_tokens,
            image_output_tokens=self.image_output_tokens - earlier.image_output_tokens,
            retries=self.retries - earlier.retries,
            cost=self.cost - earlier.cost,
            unpriced_requests=self.unpriced_requests - earlier.unpriced_requests,
            web_searches=self.web_searches - earlier.web_searches,
            code_executions=self.code_executions - earlier.code_executions,
            file_searches=self.file_searches - earlier.file_searches,
            is_complete=self.is_complete,  # it is unknown when the missing part was used
            cached_requests=self.cached_requests - earlier.cached_requests,
        )


_COUNTS = tuple(each.name for each in fields(Usage) if each.name not in ("cost", "is_complete"))
_counts_of: Callable[[Usage], tuple[int, ...]] = attrgetter(*_COUNTS)
_SET_COUNTS = tuple(vars(Usage)[name].__set__ for name in _COUNTS)
_set_cost, _set_complete = (vars(Usage)[name].__set__ for name in ("cost", "is_complete"))


def _count(value: object) -> int:
    return int(value) if isinstance(value, int) and 0 <= value <= MAX_COUNT else 0


def _amount(value: object) -> Decimal | None:
    """An amount of money; None for anything else."""
    try:
        amount = Decimal(value if isinstance(value, Decimal) else str(value))
    except (InvalidOperation, ValueError):  # Python does not convert integers of thousands of digits to text
        return None
    return amount if amount.is_finite() and 0 <= amount <= MAX_COUNT else None


def cost_text(usage: Usage) -> str:
    """Return the cost in US dollars; empty when it is unknown.

    A `~` before it means that it is not exact, a `+` after it that there were requests without a price. The
    page has the same rule, in `format.js`; guarded by
    `test_the_page_and_the_terminal_write_costs_and_tokens_alike`.

    Args:
        usage: The usage.
    """
    if not usage.cost:
        return ""
    mark, more = inexact_mark(usage), "+" if usage.unpriced_requests else ""
    if usage.cost < _LEAST_COST:
        return f"{mark}<${_LEAST_COST}{more}"
    return f"{mark}${usage.cost:,.{4 if usage.cost < 100 else 2}f}{more}"


def inexact_mark(usage: Usage) -> str:
    """Return a mark for usage that is incomplete or estimated."""
    return "" if usage.is_complete else "~"
