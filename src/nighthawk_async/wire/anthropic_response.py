"""Model events out of an Anthropic Messages answer, streamed or whole.

The terminal event is `message_stop`, after a `message_delta` that held the stop reason. A stream that ends
without them was cut off, even if every block that it began was complete.
"""

from typing import Any, TypeVar

import msgspec

from ..errors import ModelProtocolError
from ..types.model import FinishReason, ModelEvent, ResponseFinished, UsageReported
from .anthropic_blocks import ContentBlocks
from .anthropic_events import Delta, Event, Message, WireUsage
from .provider_errors import response_failure
from .redaction import excerpt
from .response_json import NOT_JSON, check_response, is_something
from .sse import ServerSentEvent

__all__ = ["AnthropicResponseDecoder"]

_COMPLAINT = "The response holds what is not an Anthropic Messages event"

_STOP_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
}
# At these, a call is as the model left it. Others, also those that nobody knows yet, may have stopped it
# halfway.
_GOOD_ENDS = frozenset({"end_turn", "tool_use"})
# What the provider calls its own internal errors, for which it answers with status 500 elsewhere.
_TRANSIENT_ERRORS = frozenset({"api_error"})

_Shape = TypeVar("_Shape")


class AnthropicResponseDecoder:
    """Decodes one answer. See `wire.codec.ResponseDecoder`."""

    def __init__(self) -> None:
        self._blocks = ContentBlocks()
        self._usage = WireUsage()
        self._stop_reason: str | None = None
        self._response_id: str | None = None
        self._model_name: str | None = None
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether the last event was given."""
        return self._is_ended

    def may_take_long(self, event: ServerSentEvent) -> bool:
        """Whether decoding an event may take long; see `wire.codec.ResponseDecoder`."""
        return b"message_" in event.data

    def feed(self, event: ServerSentEvent) -> list[ModelEvent]:
        """Take in one event of the stream; see `wire.codec.ResponseDecoder`."""
        # Some servers end every stream like this; it says nothing, not even that all went well.
        if self._is_ended or event.data.strip() == b"[DONE]":
            return []
        check_response(event.data, complaint=_COMPLAINT)
        if event.event == "error":
            return self._fail(event.data)
        content = _decode(event.data, Event)
        if content.type == "error" or is_something(content.error):
            return self._fail(event.data)
        return self._take_event(content, content.type or event.event)

    def finish(self) -> list[ModelEvent]:
        """Take note of the end of the stream; see `wire.codec.ResponseDecoder`."""
        if self._is_ended:
            return []
        lacks = "a stop reason" if self._stop_reason is None else "message_stop"
        raise ModelProtocolError(f"The stream ended without {lacks}.", is_transient=True)

    def feed_whole(self, body: bytes) -> list[ModelEvent]:
        """Take in an answer that came as one JSON document.

        Args:
            body: The document.

        Raises:
            ModelProtocolError: It is not an Anthropic message.
        """
        check_response(body, complaint=_COMPLAINT)
        envelope = _decode(body, Event)
        if envelope.type == "error" or is_something(envelope.error):
            return self._fail(body)
        message = _decode(body, Message)
        if message.content is None:
            raise ModelProtocolError(f"The answer holds no content: {excerpt(body)}")
        self._take_message(message)
        events: list[ModelEvent] = []
        for index, block in enumerate(message.content):
            events += self._blocks.start(index, block)
            events += self._blocks.stop(index)
        # The document is complete, whatever it leaves out.
        events += self._take_stop_reason(message.stop_reason or "end_turn")
        events += self._report_usage(message.usage)
        return events + self._end()

    def _take_event(self, event: Event, kind: str) -> list[ModelEvent]:
        """Take in an event of a known kind; other kinds, pings among them, are ignored."""
        match kind:
            case "message_start":
                message = _decode(event.message, Message)
                self._take_message(message)
                return self._report_usage(message.usage)
            case "content_block_start":
                return self._blocks.start(event.index, _decode(event.content_block, dict[str, Any]))
            case "content_block_delta":
                return self._blocks.extend(event.index, _decode(event.delta, Delta))
            case "content_block_stop":
                return self._blocks.stop(event.index)
            case "message_delta":
                return self._take_message_delta(event)
            case "message_stop":
                return self._end()
            case _:
                return []

    def _take_message(self, message: Message) -> None:
        self._response_id = message.id
        self._model_name = message.model

    def _take_message_delta(self, event: Event) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        stop_reason = _decode(event.delta, Delta).stop_reason
        if stop_reason:
            events += self._take_stop_reason(stop_reason)
        return events + self._report_usage(_decode(event.usage, WireUsage))

    def _take_stop_reason(self, stop_reason: str) -> list[ModelEvent]:
        self._stop_reason = stop_reason
        return self._blocks.finish(is_cut_off=stop_reason not in _GOOD_ENDS)

    def _report_usage(self, usage: WireUsage | None) -> list[ModelEvent]:
        if usage is None or usage == WireUsage():
            return []
        self._usage = self._usage.updated(usage)
        is_complete = self._stop_reason is not None
        return [UsageReported(usage=self._usage.to_usage(is_complete=is_complete))]

    def _end(self) -> list[ModelEvent]:
        if self._stop_reason is None:
            raise ModelProtocolError("The stream said message_stop without a stop reason.", is_transient=True)
        self._is_ended = True
        finished = ResponseFinished(
            reason=self._normalized_reason(self._stop_reason),
            provider_content=self._blocks.provider_content(),
            provider_reason=self._stop_reason,
            response_id=self._response_id,
            model_name=self._model_name,
        )
        return [finished]

    def _normalized_reason(self, stop_reason: str) -> FinishReason:
        """The stop reason; what the response holds decides where the server's word disagrees with it."""
        normalized = _STOP_REASONS.get(stop_reason, "other")
        if normalized in ("stop", "other") and self._blocks.completed_calls:
            return "tool_calls"
        return "stop" if normalized == "tool_calls" and not self._blocks.completed_calls else normalized

    def _fail(self, data: bytes) -> list[ModelEvent]:
        self._is_ended = True
        return [response_failure(data, transient_types=_TRANSIENT_ERRORS)]


def _decode(data: bytes | msgspec.Raw, shape: type[_Shape]) -> _Shape:
    """A part of the answer; what is missing or null is an empty one.

    Raises:
        ModelProtocolError: It is something else.
    """
    content = b"{}" if isinstance(data, msgspec.Raw) and not is_something(data) else bytes(data)
    try:
        return msgspec.json.decode(content, type=shape)
    except NOT_JSON as error:
        raise ModelProtocolError(f"{_COMPLAINT} ({error}): {excerpt(content)}") from error
