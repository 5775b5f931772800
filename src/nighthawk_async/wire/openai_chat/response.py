"""Model events out of a Chat Completions answer, streamed or whole.

The terminal event is a `finish_reason`, followed by `[DONE]` or the end of the stream. `[DONE]` alone is not
success: servers write it after an error too, and Ollama swallows the error. Right after the usage, or after a
complete call, it is: Snowflake never sends a reason. Data between the finish reason
and the end still counts, calls included.

One wire shape, `Chunk`, serves a chunk of a stream and a whole answer. Fields that this library does not use
are left out and ignored; every field may be missing or null, since some server leaves it out. Source:
`chat_completion_chunk.py` and `chat_completion.py` of the official SDK.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from ...errors import ModelProtocolError
from ...lazy_exports import LazyModule
from ...types.json import is_json_list
from ...types.model import (
    FinishReason,
    ModelEvent,
    ReasoningDelta,
    ResponseFailed,
    ResponseFinished,
    TextDelta,
    UsageReported,
)
from ...types.model_output import Refusal
from ...types.usage import Usage
from ..codec import MANY_WAITING_CALLS, take_documents
from ..json_text import (
    NOT_JSON,
    as_object,
    check_response,
    is_something,
)
from ..provider_errors import response_failure
from ..redaction import excerpt
from ..sse import ServerSentEvent
from ..unknown_kinds import report_unknown
from .content import PROTOCOL, ReplayRecord, WireUsage
from .tool_calls import ToolCallAccumulator, ToolCallFragment

if TYPE_CHECKING:
    from . import additions
else:
    additions = LazyModule(f"{__package__}.additions")  # few answers hold media or citations


class FunctionFragment(msgspec.Struct):
    """A function's name, once, and more of its arguments; some servers send these as an object."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None

    @property
    def is_something(self) -> bool:
        """Whether it holds anything."""
        return bool(self.name or self.arguments)


class ToolCallDelta(msgspec.Struct):
    """A fragment of a tool call; Google signs calls in `extra_content`."""

    index: int | None = None
    id: str | None = None
    function: FunctionFragment | None = None
    extra_content: Any = None

    @property
    def is_something(self) -> bool:
        """Whether it holds anything but empty fields."""
        return bool(self.id or self.extra_content or (self.function and self.function.is_something))


class Delta(msgspec.Struct):
    """More of the answer, or all of it.

    OpenRouter sends reasoning in `reasoning_details` as well; Mistral sends the content of a model that
    thinks as a list of parts (`TextChunk` and `ThinkChunk` of its SDK).
    """

    content: str | list[Any] | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: Any = None
    extra_content: Any = None
    tool_calls: list[ToolCallDelta] | None = None
    function_call: FunctionFragment | None = None
    annotations: Any = None
    images: Any = None
    audio: Any = None
    executed_tools: Any = None

    @property
    def has_additions(self) -> bool:
        """Whether it may hold media, citations, or calls that the server carried out itself."""
        return bool(self.annotations or self.images or self.audio or self.executed_tools)

    @property
    def text(self) -> str:
        """The visible text of the content."""
        return self.content if isinstance(self.content, str) else _text_of(self.content, "text")

    @property
    def thinking(self) -> str:
        """The reasoning text in the content."""
        return "" if isinstance(self.content, str) else _text_of(self.content, "thinking")


class Choice(msgspec.Struct):
    """One of the answers; this library asks for one."""

    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    content_filter_results: Any = None
    error: msgspec.Raw = msgspec.Raw()

    @property
    def filtered_category(self) -> str | None:
        """The first kind of content that the filter of Azure has found; None for none."""
        judged: dict[str, Any] = as_object(self.content_filter_results)
        found = (name for name, each in judged.items() if as_object(each).get("filtered") is True)
        return next(found, None)


class Chunk(msgspec.Struct):
    """One event of a stream, or a whole answer, or an error in place of either."""

    id: Any = None
    model: Any = None
    choices: list[Choice] | None = None
    usage: WireUsage | None = None
    error: msgspec.Raw = msgspec.Raw()
    object: str | None = None
    citations: Any = None
    search_results: Any = None


def _text_of(parts: object, kind: str) -> str:
    """The text of all parts of one kind; a part holds a text, or in its turn parts with a text."""
    if not is_json_list(parts):
        return ""
    texts: list[str] = []
    for part in map(as_object, parts):
        if part.get("type") == kind:
            inner: object = part.get(kind)
            texts.append(inner if isinstance(inner, str) else _text_of(inner, "text"))
    return "".join(texts)


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
        self._refusals: list[str] = []
        self._filtered_category: str | None = None
        self._has_content = False
        self._additions: additions.Additions | None = None
        self._finish_reason: FinishReason | None = None
        self._provider_reason: str | None = None
        self._response_id: str | None = None
        self._model_name: str | None = None
        self._is_ended = False
        self._ends_with_usage = False

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
            if self._finish_reason is None and self._may_be_finished():
                self._finish_reason = "stop"
            return self._end("The stream said [DONE] without a finish reason.")
        check_response(data, complaint=_COMPLAINT)
        if event.event == "error":
            return [self._fail(event.data)]
        return take_documents(self._take_event, event)

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

    def _take_event(self, event: ServerSentEvent) -> list[ModelEvent]:
        return [] if self._is_ended else self._take_chunk(event.data, event.event)

    def _may_be_finished(self) -> bool:
        """Whether `[DONE]` ends the answer even without a finish reason, which Snowflake never sends.

        Usage is counted once nothing more comes, and a call that is complete is as good as its answer.
        """
        if self._calls.waiting:
            return False
        return self._ends_with_usage or bool(self._calls.completed)

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
        self._ends_with_usage = chunk.usage is not None and any(chunk.usage.counts)
        if chunk.usage is not None:
            # A failure in the same chunk remains the last event.
            place = len(events) - 1 if self._is_ended else len(events)
            events.insert(place, UsageReported(usage=self._with_uses(chunk.usage.to_usage())))
        if chunk.citations or chunk.search_results:
            self._added().take_sources(chunk.citations, chunk.search_results)
        return events

    def _with_uses(self, usage: Usage) -> Usage:
        """The usage with that of the server's own tools."""
        if self._additions is None:
            return usage
        usage = usage + self._additions.uses
        # One search before each answer, where the server does not show its calls.
        has_searched = self._additions.has_citations and not usage.web_searches
        return replace(usage, web_searches=1) if has_searched else usage

    def _added(self) -> "additions.Additions":
        self._additions = self._additions or additions.Additions()
        return self._additions

    def _take_additions(self, delta: Delta, events: list[ModelEvent]) -> None:
        added = self._added()
        added.take_annotations(delta.annotations)
        events += added.take_executed(delta.executed_tools)
        events += added.take_images(delta.images)
        for event in added.take_sound(delta.audio):
            self._text.append(event.text)
            self._has_content = True
            events.append(event)

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
            if choice.content_filter_results:
                self._filtered_category = choice.filtered_category

    def _take_delta(self, delta: Delta, events: list[ModelEvent], *, is_whole: bool) -> None:
        content, thinking = delta.content or "", ""
        if not isinstance(content, str):  # the parts of a model that thinks
            content, thinking = delta.text, delta.thinking
        if delta.reasoning and not delta.reasoning_content:
            self._replay.add_reasoning(delta.reasoning)
        elif thinking and not delta.reasoning_content:
            self._replay.add_thinking(thinking)
        if delta.extra_content is not None:
            self._replay.add_extra_content(delta.extra_content)
        if delta.reasoning_details:
            self._replay.add_details(delta.reasoning_details, is_whole=is_whole)
        if delta.has_additions:
            self._take_additions(delta, events)
        # vLLM renamed the field; a server in between sends the same text in both.
        if reasoning := delta.reasoning_content or delta.reasoning or thinking:
            events.append(ReasoningDelta(text=reasoning))
        for text in (content, delta.refusal):
            if text:
                self._text.append(text)
                events.append(TextDelta(text=text))
        if delta.refusal:
            self._refusals.append(delta.refusal)
        self._has_content |= bool(content)
        # The protocol's older form, one call per response. Snowflake sends every field, an empty one is none.
        if delta.function_call is not None and delta.function_call.is_something:
            call = ToolCallDelta(index=0, function=delta.function_call)
            events += self._calls.feed(_to_fragment(call, position=None))
        for position, call in enumerate(delta.tool_calls or ()):
            if not self._goes_on(call, events) and call.is_something:
                events += self._calls.feed(_to_fragment(call, position=position if is_whole else None))

    def _goes_on(self, call: ToolCallDelta, events: list[ModelEvent]) -> bool:
        """Take a fragment that holds nothing but more arguments, as most do; False if it is another one."""
        more = call.function
        if more is None or more.name or call.id or call.extra_content or type(more.arguments) is not str:
            return False
        return self._calls.goes_on(call.index, more.arguments, events)

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
        text = "".join(self._text)
        if self._additions is not None:
            events += self._additions.finish(text)
            self._replay.added = self._additions.returned()
        reason = self._normalized_reason(self._finish_reason)
        end = ResponseFinished(
            reason=reason,
            provider_content=self._replay.provider_content(text, self._calls.handed_out),
            provider_reason=self._provider_reason,
            response_id=self._response_id,
            model_name=self._model_name,
            refusal=self._refusal if reason == "content_filter" else None,
        )
        return [*events, end]

    @property
    def _refusal(self) -> Refusal:
        return Refusal(category=self._filtered_category, explanation="".join(self._refusals) or None)

    def _normalized_reason(self, reason: FinishReason) -> FinishReason:
        """The finish reason; the content decides if the server's word contradicts it.

        A model that only refuses has filtered its own answer. The caller must learn that at once, as with the
        provider's filter, instead of asking for a better answer repeatedly.
        """
        if reason in _CUTS:
            return reason
        if self._calls.completed:
            return "tool_calls"
        if self._refusals and not self._has_content:
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
