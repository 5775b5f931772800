"""The errors of function transformers. Floor 5.

    ResilienceError
    ├── CircuitOpenError            a circuit breaker lets nothing through at present
    └── InvalidPolicyError          an argument makes no sense; also a ValueError. Nothing was called

What a transformed function raises itself arrives as it is.
"""

from ..errors import NighthawkError

__all__ = ["CircuitOpenError", "InvalidPolicyError", "ResilienceError"]


class ResilienceError(NighthawkError):
    """A transformer failed, apart from what the functions raise themselves."""


class InvalidPolicyError(ResilienceError, ValueError):
    """An argument of a transformer makes no sense, or contradicts an earlier one. Nothing was called."""


class CircuitOpenError(ResilienceError):
    """A circuit breaker lets nothing through at present. The function was not called.

    Args:
        name: The name of the circuit breaker.
        retry_in: Seconds until it lets a call through to see whether things are better; None while such a
            call is in progress.
    """

    def __init__(self, name: str, *, retry_in: float | None) -> None:
        when = "while one call finds out" if retry_in is None else f"for {retry_in:.3g} seconds"
        super().__init__(f"the circuit {name} is open: it lets nothing through {when}")
        self.name = name
        self.retry_in = retry_in
