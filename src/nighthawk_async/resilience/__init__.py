"""Function transformers: each takes a callable and returns one with the same signature. Floor 6.

`Baseline` is for steps: it is passed to `run` and `scope` as `resilience=`.
"""

from ..policies.attempts.resilience import ExponentialWait
from ..policies.budgets.budget import budget
from ..runtime.reporting import RetryScheduled
from .baseline import Baseline
from .circuit_breaker import CircuitBreaker, CircuitStatistics, CircuitStatus, circuit_breaker
from .ensemble import Answer, Ensemble, ensemble
from .errors import CircuitOpenError, EnsembleError, InvalidPolicyError, ResilienceError, VoteError
from .fallback import Fallback, fallback
from .rate_limit import RateLimit, RateLimitStatistics, rate_limit
from .retrying import Attempt, Retrying, retrying
from .timeout import Timeout, timeout
from .vote import Vote, vote
from .voting import plurality

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
