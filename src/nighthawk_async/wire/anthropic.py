"""The codec of Anthropic Messages.

Compatible servers, llama.cpp among them, speak it as well.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ..types.content import MultimodalContent, UploadedFile, UserContent
from ..types.messages import ToolResultsMessage, UserMessage
from ..types.model import ModelCapabilities, ModelEvent, ModelRequest
from ..types.settings import AnthropicSettings
from .anthropic_content import FILE_PROVIDERS, find_refusal
from .anthropic_messages import PROTOCOL_NAME
from .anthropic_request import encode_body
from .anthropic_response import AnthropicResponseDecoder
from .anthropic_thinking import plan_thinking
from .codec import UNKNOWN_CAPABILITIES, EncodedRequest
from .setting_checks import checked_settings

__all__ = ["AnthropicCodec", "create_codec"]

_HEADERS = {
    "accept": "text/event-stream",
    "content-type": "application/json",
    "anthropic-version": "2023-06-01",
}
_FILES_BETA = "files-api-2025-04-14"


class AnthropicCodec:
    """Speaks Anthropic Messages. See `wire.codec.Codec`."""

    name = PROTOCOL_NAME

    def find_refusal(self, item: MultimodalContent) -> str | None:
        """Return the reason why the protocol cannot carry a media item; see `wire.codec.Codec`."""
        return find_refusal(item)

    def encode(
        self,
        request: ModelRequest,
        *,
        model_name: str,
        capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES,
    ) -> EncodedRequest:
        """A request as HTTP parts; see `wire.codec.Codec`."""
        body = encode_body(request, model_name=model_name, capabilities=capabilities)
        betas = _betas(request)
        headers = _HEADERS | {"anthropic-beta": ",".join(betas)} if betas else _HEADERS
        return EncodedRequest(path="/messages", headers=headers, body=body)

    def max_tokens_of(self, settings: Mapping[str, Any], capabilities: ModelCapabilities) -> int:
        """The tokens that a response may hold; see `wire.codec.DemandsMaxTokens`."""
        return plan_thinking(checked_settings(settings, AnthropicSettings), capabilities).max_tokens

    def decoder(self) -> AnthropicResponseDecoder:
        """A decoder for one streamed response."""
        return AnthropicResponseDecoder()

    def decode_response(self, body: bytes) -> list[ModelEvent]:
        """The events of a response that came whole; see `wire.codec.Codec`."""
        return AnthropicResponseDecoder().feed_whole(body)


def _betas(request: ModelRequest) -> list[str]:
    """The names of the beta features that the request asks for or that its content needs, each once."""
    betas: list[str] = list(checked_settings(request.settings, AnthropicSettings).get("betas", ()))
    if any(_is_file_of_provider(item) for item in _content_items(request)):
        betas.append(_FILES_BETA)
    return list(dict.fromkeys(betas))


def _is_file_of_provider(item: UserContent) -> bool:
    return isinstance(item, UploadedFile) and item.provider_name in FILE_PROVIDERS


def _content_items(request: ModelRequest) -> Iterator[UserContent]:
    for message in request.messages:
        if isinstance(message, UserMessage):
            yield from message.content
        elif isinstance(message, ToolResultsMessage):
            for result in message.results:
                yield from result.content


def create_codec() -> AnthropicCodec:
    """The codec of this protocol; see `models.codecs`."""
    return AnthropicCodec()
