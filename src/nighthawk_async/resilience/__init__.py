"""Function transformers: each takes a callable and gives one with the same signature. Floor 5."""

from ..runtime.retry_policy import ExponentialWait
from ..runtime.retry_report import RetryScheduled
from .errors import CircuitOpenError, InvalidPolicyError, ResilienceError
from .retry_attempts import Attempt
from .retrying import Retrying, retrying

__all__ = [
    "Attempt",
    "CircuitOpenError",
    "ExponentialWait",
    "InvalidPolicyError",
    "ResilienceError",
    "RetryScheduled",
    "Retrying",
    "retrying",
]
