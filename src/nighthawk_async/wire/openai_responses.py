"""The codec of OpenAI Responses.

Not a client of the provider's memory: every request holds the whole conversation, and the provider is asked
to store nothing unless the setting `store` says so.
"""

from ..types.content import MultimodalContent
from ..types.model import ModelCapabilities, ModelEvent, ModelRequest
from .codec import UNKNOWN_CAPABILITIES, EncodedRequest
from .openai_responses_content import find_refusal
from .openai_responses_input import PROTOCOL
from .openai_responses_request import encode_body
from .openai_responses_response import ResponsesDecoder

__all__ = ["OpenAIResponsesCodec", "create_codec"]

_HEADERS = {"accept": "text/event-stream", "content-type": "application/json"}


class OpenAIResponsesCodec:
    """Speaks OpenAI Responses. See `wire.codec.Codec`."""

    name = PROTOCOL

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
        return EncodedRequest(path="/responses", headers=_HEADERS, body=body)

    def decoder(self) -> ResponsesDecoder:
        """A decoder for one streamed response."""
        return ResponsesDecoder()

    def decode_response(self, body: bytes) -> list[ModelEvent]:
        """The events of a response that came whole; see `wire.codec.Codec`."""
        return ResponsesDecoder().feed_whole(body)


def create_codec() -> OpenAIResponsesCodec:
    """The codec of this protocol; see `models.codecs`."""
    return OpenAIResponsesCodec()
