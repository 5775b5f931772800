"""The codec of OpenAI Chat Completions, which most compatible servers speak."""

from ..types.content import MultimodalContent
from ..types.model import ModelCapabilities, ModelEvent, ModelRequest
from .codec import UNKNOWN_CAPABILITIES, EncodedRequest
from .openai_chat_assistant import PROTOCOL
from .openai_chat_content import find_refusal
from .openai_chat_request import encode_body
from .openai_chat_response import ChatResponseDecoder

__all__ = ["OpenAIChatCodec", "create_codec"]

_HEADERS = {"accept": "text/event-stream", "content-type": "application/json"}


class OpenAIChatCodec:
    """Speaks Chat Completions. See `wire.codec.Codec`."""

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
        body = encode_body(request, model_name=model_name)
        return EncodedRequest(path="/chat/completions", headers=_HEADERS, body=body)

    def decoder(self) -> ChatResponseDecoder:
        """A decoder for one streamed response."""
        return ChatResponseDecoder()

    def decode_response(self, body: bytes) -> list[ModelEvent]:
        """The events of a response that came whole; see `wire.codec.Codec`."""
        return ChatResponseDecoder().feed_whole(body)


def create_codec() -> OpenAIChatCodec:
    """The codec of this protocol; see `models.codecs`."""
    return OpenAIChatCodec()
