"""The errors of function transformers.

    ResilienceError
    ├── CircuitOpenError            a circuit breaker lets nothing through at present
    ├── EnsembleError               too many runs of an ensemble failed
    ├── InvalidPolicyError          an argument makes no sense; also a ValueError. Nothing was called
    └── VoteError                   too few calls of a vote succeeded, or values cannot be compared

What a transformed function raises itself arrives as it is.
"""

from collections.abc import Sequence

from ..errors import NighthawkError


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

    is_transient = True

    def __init__(self, name: str, *, retry_in: float | None) -> None:
        when = "while one call finds out" if retry_in is None else f"for {retry_in:.3g} seconds"
        super().__init__(f"the circuit {name} is open: it lets nothing through {when}")
        self.name = name
        self.retry_in = self.retry_after_seconds = retry_in


class VoteError(ResilienceError):
    """Too few calls of a vote succeeded, and its cause is a group of the errors; or values do not compare.

    Args:
        message: The failure.
        errors: The errors of the calls that failed, in the order of the calls; or the error of comparing.
    """

    def __init__(self, message: str, *, errors: Sequence[Exception]) -> None:
        super().__init__(message)
        self.errors = tuple(errors)


class EnsembleError(ResilienceError):
    """Too many runs of an ensemble failed. Its cause is a group of the errors.

    Args:
        message: The failure.
        errors: The errors of the runs that failed, in the order of the models.
        models: The model of each of them.
    """

    def __init__(self, message: str, *, errors: Sequence[Exception], models: Sequence[str]) -> None:
        super().__init__(message)
        self.errors = tuple(errors)
        self.models = tuple(models)
