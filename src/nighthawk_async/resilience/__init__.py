"""Function transformers: each takes a callable and gives one with the same signature. Floor 6.

`Baseline` is for steps: it is what `run` and `scope` are told.
"""

from ..policies.attempts.retry_policy import ExponentialWait
from ..policies.budgets.budget import budget
from ..runtime.retry_report import RetryScheduled
from .baseline import Baseline
from .circuit_breaker import CircuitBreaker, CircuitStatistics, circuit_breaker
from .circuit_state import CircuitStatus
from .ensemble import Answer, Ensemble, ensemble
from .errors import CircuitOpenError, EnsembleError, InvalidPolicyError, ResilienceError, VoteError
from .fallback import Fallback, fallback
from .plurality import plurality
from .rate_limit import RateLimit, rate_limit
from .retry_attempts import Attempt
from .retrying import Retrying, retrying
from .shared_limit import RateLimitStatistics
from .timeout import Timeout, timeout
from .vote import Vote, vote

__all__ = [
    "Answer",
    "Attempt",
    "Baseline",
    "CircuitBreaker",
    "CircuitOpenError",
    "CircuitStatistics",
    "CircuitStatus",
    "Ensemble",
    "EnsembleError",
    "ExponentialWait",
    "Fallback",
    "InvalidPolicyError",
    "RateLimit",
    "RateLimitStatistics",
    "ResilienceError",
    "RetryScheduled",
    "Retrying",
    "Timeout",
    "Vote",
    "VoteError",
    "budget",
    "circuit_breaker",
    "ensemble",
    "fallback",
    "plurality",
    "rate_limit",
    "retrying",
    "timeout",
    "vote",
]
