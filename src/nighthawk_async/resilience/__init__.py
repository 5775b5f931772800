"""Function transformers: each takes a callable and gives one with the same signature. Floor 5."""

from .errors import CircuitOpenError, InvalidPolicyError, ResilienceError

__all__ = ["CircuitOpenError", "InvalidPolicyError", "ResilienceError"]
