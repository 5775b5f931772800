"""Model events out of a Chat Completions answer, streamed or whole.

The terminal event is a `finish_reason`, followed by `[DONE]` or the end of the stream. `[DONE]` alone is not
success: servers write it after an error too, and Ollama swallows the error. Data between the finish reason
and the end still counts, calls included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import msgspec
from msgspec import Struct, field

from ...errors import ModelProtocolError
from ...types.messages import ProviderContent, ToolCall
from ...types.model import (
    FinishReason,
    ModelEvent,
    ReasoningDelta,
    ResponseFailed,
    ResponseFinished,
    TextDelta,
    UsageReported,
)
from ..codec import MANY_WAITING_CALLS
from ..json_text import NOT_JSON, as_object, check_response, is_something
from ..provider_errors import response_failure
from ..redaction import excerpt
from ..sse import ServerSentEvent
from ..unknown_kinds import report_unknown
from .chunks import (
    Choice,
    Chunk,
    Delta,
    FunctionFragment,
    ToolCallAccumulator,
    ToolCallDelta,
    ToolCallFragment,
)
from .content import OTHER_REASONING_FIELD, PROTOCOL, assistant_message, thinking_content

_TEXT_FIELDS = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The types of details that are streamed in pieces, and the field of the piece. All others come complete."""


class ReplayRecord:
    """Collects the reasoning of one response."""

    def __init__(self) -> None:
        self._reasoning: list[str] = []
        self._thinking: list[str] = []
        self._details: list[_Detail] = []
        self._extra_content: dict[str, Any] = {}

    def take(self, delta: Delta, thinking: str, *, is_whole: bool) -> None:
        """Add more of the response.

        Args:
            delta: More of the response, or all of it.
            thinking: The reasoning text in its content.
            is_whole: Whether it is all of it.
        """
        if delta.reasoning and not delta.reasoning_content:
            self._reasoning.append(delta.reasoning)
        elif thinking and not delta.reasoning_content:
            self._thinking.append(thinking)
        if delta.extra_content is not None:
            self._extra_content |= as_object(delta.extra_content)
        for detail in _objects(delta.reasoning_details) if delta.reasoning_details else ():
            if is_whole or not self._details or not self._details[-1].goes_on_in(detail):
                self._details.append(_Detail(fields=dict(detail)))
            else:
                self._details[-1].append(detail)

    def provider_content(
        self, text: str, calls: Sequence[tuple[ToolCall, Mapping[str, Any]]]
    ) -> ProviderContent | None:
        """The response as the server wants it back; None when it is only text and calls.

        Args:
            text: The emitted text.
            calls: The emitted calls, each with the data that the server attached to it.
        """
        has_record = self._reasoning or self._thinking or self._details or self._extra_content
        if not has_record and not any(extra for _, extra in calls):
            return None
        message = assistant_message(text, [call for call, _ in calls])
        for encoded, (_, extra) in zip(message.get("tool_calls", ()), calls, strict=True):
            encoded.update(extra)
        if self._reasoning:
            message[OTHER_REASONING_FIELD] = "".join(self._reasoning)
        elif self._thinking:
            message["content"] = thinking_content("".join(self._thinking), text)
        if self._details:
            message["reasoning_details"] = [detail.joined() for detail in self._details]
        if self._extra_content:
            message["extra_content"] = self._extra_content
        return ProviderContent(protocol=PROTOCOL, items=(message,))


class _Detail(Struct, kw_only=True, eq=False):
    """One entry of `reasoning_details`, and the pieces of its text that came after the first."""

    fields: dict[str, Any]
    pieces: list[str] = field(default_factory=list[str])

    def goes_on_in(self, other: Mapping[str, Any]) -> bool:
        """Whether another entry is the next piece of this one.

        In a stream the index of every entry may be 0, so the type distinguishes entries; a signature ends an
        entry.
        """
        text_field = _TEXT_FIELDS.get(str(self.fields.get("type")))
        if text_field is None or other.get("type") != self.fields["type"]:
            return False
        if not all(isinstance(each.get(text_field), str | None) for each in (self.fields, other)):
            return False
        if self.fields.get("signature") and other.get(text_field):
            return False
        return all(
            self.fields.get(name) is None or other.get(name) in (None, self.fields[name])
            for name in ("id", "index")
        )

    def append(self, other: Mapping[str, Any]) -> None:
        """Add the next piece."""
        text_field = _TEXT_FIELDS[self.fields["type"]]
        self.pieces.append(other.get(text_field) or "")
        self.fields |= {
            name: value for name, value in other.items() if value is not None and name != text_field
        }

    def joined(self) -> dict[str, Any]:
        """The complete entry."""
        if not any(self.pieces):
            return self.fields
        text_field = _TEXT_FIELDS[self.fields["type"]]
        return {**self.fields, text_field: (self.fields.get(text_field) or "") + "".join(self.pieces)}


def _objects(value: object) -> list[dict[str, Any]]:
    entries = cast("list[object]", value) if isinstance(value, list) else []
    return [as_object(each) for each in entries if as_object(each)]


_COMPLAINT = "The response holds what is not a Chat Completions chunk"

# Gateways pass on the words of other protocols, also in capitals.
_FINISH_REASONS: dict[str, FinishReason] = {
    "content_filter": "content_filter",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "stop": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
}
_GOOD_ENDS = ("stop", "tool_calls")
"""The finish reasons that mean that the model completed its answer; no others do."""

_CUTS = ("length", "content_filter")

_KINDS = frozenset({"", "chat.completion", "chat.completion.chunk", "message", "ping"})
"""Names of events, and values of `object`, that are no news."""

# DeepSeek ends responses with the last one when it has no free machines.
_FAILURES = frozenset({"abort", "error", "insufficient_system_resource"})

_decode_chunk = msgspec.json.Decoder(Chunk).decode


class ChatResponseDecoder:
    """Decodes one answer. See `wire.codec.ResponseDecoder`."""

    def __init__(self) -> None:
        self._calls = ToolCallAccumulator()
        self._text: list[str] = []
        self._replay = ReplayRecord()
        self._choice_index: int | None = None
        self._has_refusal = False
        self._has_content = False
        self._has_searched = False
        self._finish_reason: FinishReason | None = None
        self._provider_reason: str | None = None
        self._response_id: str | None = None
        self._model_name: str | None = None
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether the last event was emitted."""
        return self._is_ended

    def may_take_long(self, event: ServerSentEvent) -> bool:
        """Whether decoding an event may take long; see `wire.codec.ResponseDecoder`."""
        return self._calls.waiting > MANY_WAITING_CALLS or event.data.strip() == b"[DONE]"

    def feed(self, event: ServerSentEvent) -> list[ModelEvent]:
        """Process one event of the stream; see `wire.codec.ResponseDecoder`."""
        data = event.data.strip()
        if self._is_ended or not data:
            return []
        if data == b"[DONE]":
            return self._end("The stream said [DONE] without a finish reason.")
        check_response(data, complaint=_COMPLAINT)
        if event.event == "error":
            return [self._fail(event.data)]
        return self._take_chunk(event.data, event.event)

    def finish(self) -> list[ModelEvent]:
        """Process the end of the stream; see `wire.codec.ResponseDecoder`."""
        return [] if self._is_ended else self._end("The stream ended before the response was finished.")

    def feed_whole(self, body: bytes) -> list[ModelEvent]:
        """Process an answer that came as one JSON document.

        Args:
            body: The document.

        Raises:
            ModelProtocolError: It is not a Chat Completions answer.
        """
        check_response(body, complaint=_COMPLAINT)
        events = self._take_chunk(body)
        if self._is_ended:
            return events
        if self._choice_index is None:
            raise ModelProtocolError(f"The answer holds no choice: {excerpt(body)}")
        # The document is complete, even if fields are missing.
        self._finish_reason = self._finish_reason or "stop"
        return events + self.finish()

    def _take_chunk(self, data: bytes, kind: str = "") -> list[ModelEvent]:
        try:
            chunk = _decode_chunk(data)
        except NOT_JSON as error:
            raise ModelProtocolError(f"{_COMPLAINT} ({error}): {excerpt(data)}") from error
        if chunk.object == "error" or (chunk.error and is_something(chunk.error)):
            return [self._fail(data)]
        if chunk.choices is None and chunk.usage is None:
            _report_unknown(chunk.object or kind)
        self._response_id = self._response_id or _text_or_none(chunk.id)
        self._model_name = self._model_name or _text_or_none(chunk.model)
        events: list[ModelEvent] = []
        for choice in chunk.choices or ():
            self._take_choice(choice, events)
        if chunk.usage is not None:
            # A failure in the same chunk remains the last event.
            place = len(events) - 1 if self._is_ended else len(events)
            usage = chunk.usage.to_usage()
            if self._has_searched:
                usage = replace(usage, web_searches=1)  # one before each answer
            events.insert(place, UsageReported(usage=usage))
        return events

    def _take_choice(self, choice: Choice, events: list[ModelEvent]) -> None:
        index = choice.index or 0
        if self._choice_index is None:
            self._choice_index = index
        if index != self._choice_index or self._is_ended:
            return
        if choice.delta is not None:
            self._take_delta(choice.delta, events, is_whole=False)
        elif choice.message is not None:
            self._take_delta(choice.message, events, is_whole=True)
        if choice.error and is_something(choice.error):
            events.append(self._fail(bytes(choice.error)))
        elif choice.finish_reason and choice.finish_reason.lower() in _FAILURES:
            self._is_ended = True
            message = f"The provider ended the response with the finish reason {choice.finish_reason!r}."
            events.append(ResponseFailed(message=message, is_transient=True))
        elif choice.finish_reason:
            self._take_finish_reason(choice.finish_reason)

    def _take_delta(self, delta: Delta, events: list[ModelEvent], *, is_whole: bool) -> None:
        content, thinking = delta.content or "", ""
        if not isinstance(content, str):  # the parts of a model that thinks
            content, thinking = delta.text, delta.thinking
        self._replay.take(delta, thinking, is_whole=is_whole)
        if delta.annotations is not None and delta.has_citations:
            self._has_searched = True
        # vLLM renamed the field; a server in between sends the same text in both.
        if reasoning := delta.reasoning_content or delta.reasoning or thinking:
            events.append(ReasoningDelta(text=reasoning))
        for text in (content, delta.refusal):
            if text:
                self._text.append(text)
                events.append(TextDelta(text=text))
        self._has_refusal |= bool(delta.refusal)
        self._has_content |= bool(content)
        if delta.function_call is not None:  # the protocol's older form, one call per response
            call = ToolCallDelta(index=0, function=delta.function_call)
            events += self._calls.feed(_to_fragment(call, position=None))
        for position, call in enumerate(delta.tool_calls or ()):
            events += self._calls.feed(_to_fragment(call, position=position if is_whole else None))

    def _take_finish_reason(self, word: str) -> None:
        """Record the reason why the response ended; a later reason does not undo a cut."""
        reason = _FINISH_REASONS.get(word.lower(), "other")
        if self._finish_reason in (None, *_GOOD_ENDS) or reason in _CUTS:
            self._finish_reason = reason
            self._provider_reason = word

    def _end(self, complaint: str) -> list[ModelEvent]:
        if self._finish_reason is None:
            raise ModelProtocolError(complaint, is_transient=True)
        events = self._calls.finish(is_cut_off=self._finish_reason not in _GOOD_ENDS)
        self._is_ended = True
        end = ResponseFinished(
            reason=self._normalized_reason(self._finish_reason),
            provider_content=self._replay.provider_content("".join(self._text), self._calls.handed_out),
            provider_reason=self._provider_reason,
            response_id=self._response_id,
            model_name=self._model_name,
        )
        return [*events, end]

    def _normalized_reason(self, reason: FinishReason) -> FinishReason:
        """The finish reason; the content decides if the server's word contradicts it.

        A model that only refuses has filtered its own answer. The caller must learn that at once, as with the
        provider's filter, instead of asking for a better answer repeatedly.
        """
        if reason in _CUTS:
            return reason
        if self._calls.completed:
            return "tool_calls"
        if self._has_refusal and not self._has_content:
            return "content_filter"
        return "stop" if reason == "tool_calls" else reason

    def _fail(self, data: bytes) -> ResponseFailed:
        self._is_ended = True
        return response_failure(data)


def _to_fragment(call: ToolCallDelta, *, position: int | None) -> ToolCallFragment:
    """A fragment; in a whole answer every entry is another call, so its position serves as the index."""
    function = call.function or FunctionFragment()
    arguments = function.arguments or ""
    if isinstance(arguments, dict):
        arguments = msgspec.json.encode(arguments).decode()
    return ToolCallFragment(
        index=call.index if position is None else position,
        id=call.id or "",
        name=function.name or "",
        arguments=arguments,
        extra={"extra_content": extra}
        if call.extra_content and (extra := as_object(call.extra_content))
        else {},
    )


def _report_unknown(kind: str) -> None:
    """Report that an event without content is of an unknown kind; the protocol itself has a single kind."""
    if kind not in _KINDS:
        report_unknown(PROTOCOL, kind)


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
