"""The codec of the Gemini API."""

from urllib.parse import quote

from ..types.content import MultimodalContent
from ..types.model import ModelCapabilities, ModelEvent, ModelRequest
from .codec import UNKNOWN_CAPABILITIES, EncodedRequest
from .google_contents import PROTOCOL
from .google_media import find_refusal
from .google_request import encode_body
from .google_response import GoogleResponseDecoder

__all__ = ["GoogleCodec", "create_codec"]

_HEADERS = {"accept": "text/event-stream", "content-type": "application/json"}
_WHOLE_HEADERS = {"accept": "application/json", "content-type": "application/json"}
_COLLECTIONS = ("models", "tunedModels")


class GoogleCodec:
    """Speaks the Gemini API. See `wire.codec.Codec`."""

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
        body = encode_body(request, capabilities=capabilities)
        path = _model_path(model_name)
        if request.settings.get("stream") is False:
            return EncodedRequest(path=f"{path}:generateContent", headers=_WHOLE_HEADERS, body=body)
        # Without `alt=sse` the endpoint answers with a JSON array, which is complete at its end alone.
        return EncodedRequest(path=f"{path}:streamGenerateContent?alt=sse", headers=_HEADERS, body=body)

    def decoder(self) -> GoogleResponseDecoder:
        """A decoder for one streamed response."""
        return GoogleResponseDecoder()

    def decode_response(self, body: bytes) -> list[ModelEvent]:
        """The events of a response that came whole; see `wire.codec.Codec`."""
        return GoogleResponseDecoder().feed_whole(body)


def _model_path(model_name: str) -> str:
    """The path of a model, quoted so that no name leads elsewhere."""
    collection, separator, name = model_name.partition("/")
    if not separator or collection not in _COLLECTIONS:
        collection, name = "models", model_name
    return f"/{collection}/{quote(name, safe='')}"


def create_codec() -> GoogleCodec:
    """The codec of this protocol; see `models.codecs`."""
    return GoogleCodec()
