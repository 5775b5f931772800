"""What model requests consumed. Floor 0."""

from dataclasses import dataclass
from decimal import Decimal

__all__ = ["Usage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Consumption of one or more model requests. Add two with `+`; `-` gives what came since an earlier one.

    Args:
        requests: Number of requests, that is of model round trips.
        input_tokens: Tokens sent, cached ones included.
        output_tokens: Tokens received, reasoning included.
        cache_read_tokens: The part of `input_tokens` that the provider read from its cache.
        cache_write_tokens: The part of `input_tokens` that the provider wrote to its cache.
        reasoning_tokens: The part of `output_tokens` spent on reasoning.
        retries: How often a request was sent again because an earlier attempt failed.
        cost: What the priced requests cost, in US dollars.
        unpriced_requests: The part of `requests` whose cost is unknown, because the price of the model is.
        is_complete: False when a request ended before the provider told its usage.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    retries: int = 0
    cost: Decimal = Decimal(0)
    unpriced_requests: int = 0
    is_complete: bool = True

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            retries=self.retries + other.retries,
            cost=self.cost + other.cost,
            unpriced_requests=self.unpriced_requests + other.unpriced_requests,
            is_complete=self.is_complete and other.is_complete,
        )

    def __sub__(self, earlier: "Usage") -> "Usage":
        return Usage(
            requests=self.requests - earlier.requests,
            input_tokens=self.input_tokens - earlier.input_tokens,
            output_tokens=self.output_tokens - earlier.output_tokens,
            cache_read_tokens=self.cache_read_tokens - earlier.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens - earlier.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens - earlier.reasoning_tokens,
            retries=self.retries - earlier.retries,
            cost=self.cost - earlier.cost,
            unpriced_requests=self.unpriced_requests - earlier.unpriced_requests,
            is_complete=self.is_complete,  # nobody knows when what is missing was used
        )
