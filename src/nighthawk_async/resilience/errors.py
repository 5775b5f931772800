"""The errors of function transformers.

    ResilienceError
    ├── CircuitOpenError            a circuit breaker is open and refused the call
    ├── EnsembleError               too many runs of an ensemble failed
    ├── InvalidPolicyError          an argument is invalid; also a ValueError. Nothing was called
    ├── ResponseStoreError          the file of a response cache cannot be used
    └── VoteError                   too few calls of a vote succeeded, or values cannot be compared

Errors that a transformed function raises itself are passed on unchanged.
"""

from collections.abc import Sequence

from ..errors import NighthawkError
from ..pickling import set_public_module


class ResilienceError(NighthawkError):
    """Base class of the errors of transformers, apart from those that the functions raise themselves."""


class InvalidPolicyError(ResilienceError, ValueError):
    """An argument of a transformer is invalid or contradicts an earlier one. Nothing was called."""


class ResponseStoreError(ResilienceError):
    """The file of a response cache cannot be used: it is something else, of another version, or unsafe."""


class CircuitOpenError(ResilienceError):
    """A circuit breaker is open and lets no calls through. The function was not called.

    Args:
        name: The name of the circuit breaker.
        retry_in: Seconds until it lets a probe call through; None while a probe is in progress.
    """

    is_transient = True

    def __init__(self, name: str, *, retry_in: float | None) -> None:
        when = "until its probe call ends" if retry_in is None else f"for {retry_in:.3g} seconds"
        super().__init__(f"the circuit {name} is open: it lets nothing through {when}")
        self.name = name
        self.retry_in = self.retry_after_seconds = retry_in


class VoteError(ResilienceError):
    """Too few calls of a vote succeeded (its cause is a group of the errors), or values cannot be compared.

    Args:
        message: The failure.
        errors: The errors of the calls that failed, in the order of the calls; or the error of the
            comparison.
    """

    def __init__(self, message: str, *, errors: Sequence[Exception]) -> None:
        super().__init__(message)
        self.errors = tuple(errors)


class EnsembleError(ResilienceError):
    """Too many runs of an ensemble failed. Its cause is a group of the errors.

    Args:
        message: The failure.
        errors: The errors of the runs that failed, in the order of the models.
        models: The model of each of these runs.
    """

    def __init__(self, message: str, *, errors: Sequence[Exception], models: Sequence[str]) -> None:
        super().__init__(message)
        self.errors = tuple(errors)
        self.models = tuple(models)


set_public_module("resilience", globals())
