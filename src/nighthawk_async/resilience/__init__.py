"""Function transformers: each takes a callable and returns one with the same signature.

`Baseline` is for steps: it is passed to `run` and `scope` as `resilience=`.
"""

from ..kernel.events import RetryScheduled as RetryScheduled
from ..policies.attempts.resilience import ExponentialWait
from ..policies.budgets.budget import budget
from .baseline import Baseline
from .cached import Cached as Cached, cached
from .circuit_breaker import (
    CircuitBreaker as CircuitBreaker,
    CircuitStatistics as CircuitStatistics,
    CircuitStatus as CircuitStatus,
    circuit_breaker,
)
from .ensemble import Answer, Ensemble as Ensemble, ensemble
from .errors import (
    CircuitOpenError,
    EnsembleError as EnsembleError,
    InvalidPolicyError as InvalidPolicyError,
    ResilienceError,
    ResponseStoreError as ResponseStoreError,
    VoteError,
)
from .fallback import Fallback as Fallback, fallback
from .rate_limit import RateLimit as RateLimit, RateLimitStatistics as RateLimitStatistics, rate_limit
from .response_stores import MemoryStore, ResponseStoreStatistics as ResponseStoreStatistics
from .retrying import Attempt as Attempt, Retrying as Retrying, retrying
from .sqlite_store import SqliteStore
from .timeout import Timeout as Timeout, timeout as timeout
from .vote import Vote as Vote, vote
from .voting import plurality

__all__ = [
    "Answer",
    "Baseline",
    "CircuitOpenError",
    "ExponentialWait",
    "MemoryStore",
    "ResilienceError",
    "SqliteStore",
    "VoteError",
    "budget",
    "cached",
    "circuit_breaker",
    "ensemble",
    "fallback",
    "plurality",
    "rate_limit",
    "retrying",
    "vote",
]
