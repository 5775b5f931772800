"""What a model request counts when its response told no usage. Floor 4."""

from ..errors import ModelError
from ..types.usage import Usage

__all__ = ["unreported_usage"]


def unreported_usage(error: ModelError | None = None) -> Usage:
    """The usage of one request whose response told none.

    Args:
        error: How the request failed, if it did; it knows how often the request was sent again.
    """
    return Usage(requests=1, retries=0 if error is None else error.retries, is_complete=False)
