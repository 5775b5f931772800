"""An estimate of the tokens of a request, for pacing. Pure.

Four bytes of JSON are about one token. Bytes of media count for none: providers have other measures for them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ..runtime.request_bound import find_output_limit
from ..types.content import BinaryContent
from ..types.messages import ToolResultsMessage, UserMessage
from ..types.model import ModelRequest

__all__ = ["estimate_input_tokens", "response_tokens"]

_BYTES_PER_TOKEN = 4


def estimate_input_tokens(request: ModelRequest, body: bytes) -> int:
    """The tokens that a request holds, roughly.

    Args:
        request: The request.
        body: The request as it is sent.
    """
    media = sum(_base64_bytes(each) for each in _binary_contents(request))
    return max(len(body) - media, 0) // _BYTES_PER_TOKEN


def response_tokens(settings: Mapping[str, Any]) -> int:
    """The tokens that a response may hold; 0 when the settings do not say.

    Args:
        settings: The settings of a request.
    """
    return find_output_limit(settings)


def _binary_contents(request: ModelRequest) -> Iterator[BinaryContent]:
    for message in request.messages:
        if isinstance(message, UserMessage):
            yield from (item for item in message.content if isinstance(item, BinaryContent))
        elif isinstance(message, ToolResultsMessage):
            for result in message.results:
                yield from (item for item in result.content if isinstance(item, BinaryContent))


def _base64_bytes(content: BinaryContent) -> int:
    return (len(content.data) + 2) // 3 * 4
