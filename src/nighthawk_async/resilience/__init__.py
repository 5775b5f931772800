"""Function transformers: each takes a callable and gives one with the same signature. Floor 5."""

from ..runtime.retry_policy import ExponentialWait
from ..runtime.retry_report import RetryScheduled
from .circuit_breaker import CircuitBreaker, CircuitStatistics, circuit_breaker
from .circuit_state import CircuitStatus
from .errors import CircuitOpenError, InvalidPolicyError, ResilienceError
from .fallback import Fallback, fallback
from .rate_limit import RateLimit, rate_limit
from .retry_attempts import Attempt
from .retrying import Retrying, retrying
from .shared_limit import RateLimitStatistics
from .timeout import Timeout, timeout

__all__ = [
    "Attempt",
    "CircuitBreaker",
    "CircuitOpenError",
    "CircuitStatistics",
    "CircuitStatus",
    "ExponentialWait",
    "Fallback",
    "InvalidPolicyError",
    "RateLimit",
    "RateLimitStatistics",
    "ResilienceError",
    "RetryScheduled",
    "Retrying",
    "Timeout",
    "circuit_breaker",
    "fallback",
    "rate_limit",
    "retrying",
    "timeout",
]
