"""The interface of wire codecs: a request as HTTP parts, and events out of the answer.

One codec speaks one provider protocol and holds no state; the state of one response is in the decoder it
makes. `models.http_model` sends the bytes, waits and retries.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from msgspec.structs import replace

from ..errors import ModelProtocolError
from ..types.endpoint_rules import EndpointRules
from ..types.messages import MultimodalContent
from ..types.model import ModelCapabilities, ModelEvent, ModelRequest, ModelSettings
from .json_text import split_documents
from .sse import ServerSentEvent

MANY_WAITING_CALLS = 500
"""The number of calls waiting for an earlier one whose release at once takes milliseconds."""

STREAM_HEADERS: Mapping[str, str] = {"accept": "text/event-stream", "content-type": "application/json"}
"""The headers of a request with a JSON body that is answered by server-sent events."""

UNKNOWN_CAPABILITIES = ModelCapabilities()
"""The assumptions about an unknown model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRequest:
    """A request as the parts of an HTTP `POST`.

    Args:
        path: The path below the endpoint's base URL, with a leading slash.
        headers: The headers the protocol wants; the sender adds credentials.
        body: The body.
    """

    path: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class ResponseDecoder(Protocol):
    """Turns the events of one streamed response into model events.

    The last event of a response is `ResponseFinished` or `ResponseFailed`; anything after it is ignored.
    """

    @property
    def is_ended(self) -> bool:
        """Whether the last event was emitted."""
        ...

    def may_take_long(self, event: ServerSentEvent) -> bool:
        """Whether decoding an event may take longer the more came before it, as the end of a response does.

        Called for long responses, before the event is fed.

        Args:
            event: The event.
        """
        ...

    def feed(self, event: ServerSentEvent) -> list[ModelEvent]:
        """Process one event of the stream.

        Raises:
            ModelProtocolError: The event is not what the protocol promises.
        """
        ...

    def finish(self) -> list[ModelEvent]:
        """Process the end of the stream.

        Raises:
            ModelProtocolError: The stream ended before the protocol's terminal event.
        """
        ...


class Codec(Protocol):
    """Speaks one provider protocol."""

    @property
    def name(self) -> str:
        """The protocol's name, as the catalog's provider rows give it."""
        ...

    @property
    def rules(self) -> EndpointRules:
        """The rules of the endpoint for requests."""
        ...

    @property
    def settings_form(self) -> type[ModelSettings]:
        """The typed dictionary of the protocol's settings, of `types.model`."""
        ...

    def find_refusal(self, item: MultimodalContent) -> str | None:
        """Return the reason why the protocol cannot carry a media item in a user message; None when it can.

        Args:
            item: The media item.
        """
        ...

    def encode(
        self,
        request: ModelRequest,
        *,
        model_name: str,
        capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES,
    ) -> EncodedRequest:
        """A request as HTTP parts.

        Args:
            request: The request; its settings go into the body, transport settings excepted.
            model_name: The model's name at the provider.
            capabilities: The capabilities of the model, on which the form of the request may depend.

        Raises:
            ConfigurationError: The protocol cannot carry the request.
        """
        ...

    def decoder(self, request: EncodedRequest | None = None) -> ResponseDecoder:
        """A decoder for one streamed response.

        Args:
            request: The request that is answered, on which the answer may depend; None for any.
        """
        ...

    def decode_response(self, body: bytes, request: EncodedRequest | None = None) -> list[ModelEvent]:
        """The events of a response that was not streamed, as one JSON document.

        Args:
            body: The document.
            request: The request that is answered, on which the answer may depend; None for any.

        Raises:
            ModelProtocolError: The body is not what the protocol promises.
        """
        ...


@runtime_checkable
class DemandsMaxTokens(Protocol):
    """A codec whose protocol requires the maximum number of tokens of a response."""

    def max_tokens_of(self, settings: Mapping[str, Any], capabilities: ModelCapabilities) -> int:
        """The tokens that a response may hold, thinking included.

        Args:
            settings: The settings of the request.
            capabilities: The capabilities of the model.

        Raises:
            ConfigurationError: A setting is bad.
        """
        ...


def take_documents(
    take: Callable[[ServerSentEvent], list[ModelEvent]], event: ServerSentEvent
) -> list[ModelEvent]:
    """Process an event that holds one JSON object, or several: some servers forget the line between.

    Args:
        take: Processes an event that holds one.
        event: The event.

    Raises:
        ModelProtocolError: It holds something else.
    """
    try:
        return take(event)
    except ModelProtocolError:
        documents = split_documents(event.data)
        if len(documents) < 2:
            raise
    return [each for document in documents for each in take(replace(event, data=document))]
