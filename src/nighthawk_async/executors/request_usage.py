"""What a model request counts, however it ends. Floor 4."""

from ..errors import ModelError
from ..runtime.model_access import usage_so_far
from ..types.usage import Usage

__all__ = ["unreported_usage", "usage_of_request"]


def usage_of_request(stream: object, reported: Usage) -> Usage:
    """The usage of one request, by whoever knows it best.

    Args:
        stream: What `open_stream` returned; it knows about attempts and answers that were cancelled. None
            when there is none.
        reported: What the events told, or `unreported_usage`.
    """
    return usage_so_far(stream) or reported


def unreported_usage(error: ModelError | None = None) -> Usage:
    """The usage of one request whose response told none.

    Args:
        error: How the request failed, if it did; it knows how often the request was sent again.
    """
    return Usage(requests=1, retries=0 if error is None else error.retries, is_complete=False)
