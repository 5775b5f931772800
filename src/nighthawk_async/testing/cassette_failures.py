"""Errors of model requests as a cassette keeps them. Floor 5."""

from typing import Any

from .. import errors
from ..errors import ConfigurationError, ModelError, ModelProviderError, ModelStatusError
from .cassette_exchange import RecordedError

__all__ = ["record_error", "replay_error"]


def record_error(error: ModelError | ConfigurationError) -> RecordedError:
    """What a cassette keeps of an error. One of a class of the user's own becomes the library's.

    Args:
        error: How a request failed.
    """
    name = next(each.__name__ for each in type(error).__mro__ if _find_class(each.__name__) is each)
    if isinstance(error, ConfigurationError):
        return RecordedError(type=name, message=str(error))
    return RecordedError(
        type=name,
        message=error.message,
        is_transient=error.is_transient,
        status=error.status if isinstance(error, ModelStatusError) else None,
        retry_after_seconds=error.retry_after_seconds if isinstance(error, ModelStatusError) else None,
        error_type=error.error_type if isinstance(error, ModelProviderError) else None,
        retries=error.retries,
    )


def replay_error(recorded: RecordedError) -> ModelError | ConfigurationError:
    """The error to raise again.

    Args:
        recorded: What the cassette keeps of it.

    Raises:
        ValueError: It is no error of a model request, or lacks its status.
    """
    kind = _find_class(recorded.type)
    if kind is None or (kind is ModelStatusError) is (recorded.status is None):
        raise ValueError(f"{recorded.type!r}, status {recorded.status}, is no error of a model request")
    if issubclass(kind, ConfigurationError):
        return kind(recorded.message)
    details: dict[str, Any] = {"is_transient": recorded.is_transient}
    if kind is ModelStatusError:
        details |= {"status": recorded.status, "retry_after_seconds": recorded.retry_after_seconds}
    if kind is ModelProviderError:
        details["error_type"] = recorded.error_type
    error = kind(recorded.message, **details)
    error.retries = recorded.retries
    return error


def _find_class(name: str) -> type[ModelError] | type[ConfigurationError] | None:
    """The class of that name that a request may raise."""
    kind: object = getattr(errors, name, None) if name in errors.__all__ else None
    if isinstance(kind, type) and issubclass(kind, ModelError | ConfigurationError):
        return kind
    return None
