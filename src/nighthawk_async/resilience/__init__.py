"""Function transformers: each takes a callable and returns one with the same signature.

`Baseline` is for steps: it is passed to `run` and `scope` as `resilience=`.
"""

from ..kernel.events import RetryScheduled
from ..policies.attempts.resilience import ExponentialWait
from ..policies.budgets.budget import budget
from .baseline import Baseline
from .cached import Cached, cached
from .circuit_breaker import CircuitBreaker, CircuitStatistics, CircuitStatus, circuit_breaker
from .ensemble import Answer, Ensemble, ensemble
from .errors import (
    CircuitOpenError,
    EnsembleError,
    InvalidPolicyError,
    ResilienceError,
    ResponseStoreError,
    VoteError,
)
from .fallback import Fallback, fallback
from .rate_limit import RateLimit, RateLimitStatistics, rate_limit
from .response_stores import MemoryStore, ResponseStoreStatistics
from .retrying import Attempt, Retrying, retrying
from .sqlite_store import SqliteStore
from .timeout import Timeout, timeout
from .vote import Vote, vote
from .voting import plurality

__all__ = [
    "Answer",
    "Attempt",
    "Baseline",
    "Cached",
    "CircuitBreaker",
    "CircuitOpenError",
    "CircuitStatistics",
    "CircuitStatus",
    "Ensemble",
    "EnsembleError",
    "ExponentialWait",
    "Fallback",
    "InvalidPolicyError",
    "MemoryStore",
    "RateLimit",
    "RateLimitStatistics",
    "ResilienceError",
    "ResponseStoreError",
    "ResponseStoreStatistics",
    "RetryScheduled",
    "Retrying",
    "SqliteStore",
    "Timeout",
    "Vote",
    "VoteError",
    "budget",
    "cached",
    "circuit_breaker",
    "ensemble",
    "fallback",
    "plurality",
    "rate_limit",
    "retrying",
    "timeout",
    "vote",
]
