"""Usage of a model request, however it ends."""

from ..catalog.request_cost import priced
from ..errors import ModelError
from ..ports import Model, ResponseStream
from ..types.usage import Usage


def usage_so_far(stream: object) -> Usage | None:
    """The usage of a request, as far as its stream knows it.

    Args:
        stream: The stream of `open_stream` or of the model; None when there is none.
    """
    usage = stream.usage if isinstance(stream, ResponseStream) else None
    return None if usage is None else usage.credible()


def usage_of_request(model: Model, stream: object, reported: Usage) -> Usage:
    """The usage of one request, from the best source, with its cost.

    Args:
        model: The model that was asked.
        stream: The stream of `open_stream`; it knows about attempts and answers that were cancelled. None
            when there is none.
        reported: The usage of the events, or `unreported_usage`.
    """
    return priced(usage_so_far(stream) or reported, model.capabilities.price)


def unreported_usage(error: ModelError | None = None) -> Usage:
    """The usage of one request whose response reported none.

    Args:
        error: The error of the request, if any; it knows how often the request was sent again.
    """
    return Usage(requests=1, retries=0 if error is None else error.retries, is_complete=False)
