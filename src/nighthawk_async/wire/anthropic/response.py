"""Model events out of an Anthropic Messages answer, streamed or whole.

The terminal event is `message_stop`, after a `message_delta` that held the stop reason. A stream that ends
without them was cut off, even if every block that it began was complete.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ...errors import ModelProtocolError
from ...lazy_exports import LazyModule
from ...types.json import is_json_list, is_json_object
from ...types.messages import ProviderContent, ToolCall
from ...types.model import (
    FinishReason,
    ModelEvent,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
    UsageReported,
)
from ...types.model_output import CitationAdded, Refusal
from ..codec import take_documents
from ..json_text import (
    NOT_JSON,
    JsonObjectScanner,
    arguments_object,
    check_response,
    is_something,
    new_call_id,
)
from ..provider_errors import response_failure
from ..redaction import excerpt
from ..sse import ServerSentEvent
from ..unknown_kinds import report_unknown
from .events import Container, Delta, Event, Message, StopDetails, WireUsage
from .messages import PROTOCOL_NAME
from .native_tools import CONTAINER, OWN_CALLS, NativeCalls, is_own_result

if TYPE_CHECKING:
    from . import citations
else:
    citations = LazyModule(f"{__package__}.citations")  # few answers cite

_THINKING = frozenset({"redacted_thinking", "thinking"})
HOP = "fallback"
"""The type of a block at which another model takes over, since the one before has declined."""
_COMPACTION = "compaction"
"""The type of a block that replaces the conversation before it."""

USED_DELTAS = frozenset(
    {
        *("citations_delta", "compaction_delta", "input_json_delta"),
        *("signature_delta", "text_delta", "thinking_delta"),
    }
)
USED_EVENTS = frozenset(
    {
        *("content_block_delta", "content_block_start", "content_block_stop"),
        *("message_delta", "message_start", "message_stop"),
    }
)
_DELTA_BLOCKS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}


@dataclass(slots=True, kw_only=True, eq=False)
class _Block:
    """One block; `call_index` and `is_handed_out` concern calls alone, `begins_at` texts."""

    form: dict[str, Any]
    position: int
    is_stopped: bool = False
    texts: list[str] = field(default_factory=list[str])
    signature: str = ""
    citations: list[Any] = field(default_factory=list[Any])
    fragments: list[str] = field(default_factory=list[str])
    scanner: JsonObjectScanner = field(default_factory=JsonObjectScanner)
    call_index: int | None = None
    is_handed_out: bool = False
    begins_at: int = 0

    @property
    def all_citations(self) -> list[Any]:
        """The citations of its beginning, and those that were streamed."""
        given = self.form.get("citations")
        return [*given, *self.citations] if is_json_list(given) else self.citations

    @property
    def kind(self) -> str:
        return str(self.form.get("type"))

    def text_of(self, name: str) -> str:
        """A text field of the block; empty when it is missing or of another type."""
        value = self.form.get(name)
        return value if isinstance(value, str) else ""


class ContentBlocks:
    """The blocks of one response."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._running: dict[int, _Block] = {}  # those that have not ended, by position
        self._by_index: dict[int, _Block] = {}
        self._call_ids: set[str] = set()
        self._held: _Block | None = None
        self._ready: list[_Block] = []  # complete calls that a hop to another model may still withdraw
        self._has_ended = False
        self._characters = 0  # of all texts
        self.holds_calls = False
        """Whether calls are emitted at the end alone, since another model may take over at any time."""
        self.native_calls = NativeCalls()
        """The calls that the provider carries out itself."""
        self.container_id: str | None = None
        """The container in which code of the model has run."""
        self.completed_calls = 0
        """The number of calls emitted as complete."""

    def start(self, index: int | None, form: dict[str, Any]) -> list[ModelEvent]:
        """Begin a block.

        Args:
            index: Its index; None for the next one.
            form: The block as the endpoint wrote it, all of it if it comes complete.

        Raises:
            ModelProtocolError: It is a call without a name, or another model takes over after calls were
                emitted.
        """
        if form.get("type") == HOP:
            self._withdraw_calls()
        events = self.release_ready() + self._release()
        block = _Block(form=form, position=len(self._blocks), begins_at=self._characters)
        self._by_index[len(self._blocks) if index is None else index] = block
        self._blocks.append(block)
        self._running[block.position] = block
        if block.kind == "tool_use":
            events.append(self._start_call(block))
        for name, event in (("text", TextDelta), ("thinking", ReasoningDelta)):
            if block.kind == name and (text := block.text_of(name)):
                block.texts.append(text)
                self._characters += len(text) if name == "text" else 0
                events.append(event(text=text))
        return events

    def extend(self, index: int | None, delta: Delta) -> list[ModelEvent]:
        """Add more of a block; unknown deltas are ignored.

        Raises:
            ModelProtocolError: The delta holds arguments of a call that never began.
        """
        events = self.release_ready()
        block = self._find(index)
        if block is None and delta.type in _DELTA_BLOCKS:
            events += self.start(index, {"type": _DELTA_BLOCKS[delta.type]})
            block = self._blocks[-1]
        if delta.type == "input_json_delta":
            return events + self._take_arguments(block, delta.partial_json or "")
        if block is None:
            return events
        if delta.type == "text_delta" and delta.text:
            block.texts.append(delta.text)
            self._characters += len(delta.text)
            events.append(TextDelta(text=delta.text))
        elif delta.type == "thinking_delta" and delta.thinking:
            block.texts.append(delta.thinking)
            events.append(ReasoningDelta(text=delta.thinking))
        elif delta.type == "signature_delta" and delta.signature:
            block.signature = delta.signature
        elif delta.type == "compaction_delta" and delta.content:
            block.texts.append(delta.content)
        elif delta.type == "citations_delta" and delta.citation is not None:
            block.citations.append(delta.citation)
        elif delta.type is not None and delta.type not in USED_DELTAS:
            report_unknown(PROTOCOL_NAME, delta.type)
        return events

    def stop(self, index: int | None) -> list[ModelEvent]:
        """End a block; a call that is surely complete is emitted."""
        block = self._find(index)
        return [] if block is None else self._stop(block)

    def finish(self, *, is_cut_off: bool) -> list[ModelEvent]:
        """Record that the response is finished.

        Args:
            is_cut_off: Whether it may have been cut off; then the call that was held back is dropped, and so
                are calls whose blocks did not end.
        """
        self._has_ended = True
        events = self.release_ready()
        if is_cut_off:
            self._held = None
            return events
        running, self._running = self._running, {}  # servers may report the end more than once
        events += [] if 0 in running else self._release()
        for block in running.values():
            events += self._stop(block)
            events += self.release_ready() + self._release()
        return events

    def release_ready(self) -> list[ModelEvent]:
        """Emit the calls that are complete, now that no hop to another model has followed at once."""
        if not self._ready or (self.holds_calls and not self._has_ended):
            return []
        ready, self._ready = self._ready, []
        return [self._complete(block) for block in ready]

    def _withdraw_calls(self) -> None:
        """Drop the calls of a model that has declined: the provider refuses their results."""
        if self.completed_calls:
            raise ModelProtocolError(
                "Another model took over after the first one had called tools; a request with the setting "
                "'fallbacks' among its own settings keeps calls back until the end."
            )
        self._ready.clear()
        self._held = None
        for block in self._running.values():
            block.is_stopped |= block.kind == "tool_use"

    def provider_content(self, *, goes_on: bool, is_paused: bool = False) -> ProviderContent | None:
        """The blocks to send back, when the provider wants more back than text and calls.

        It wants signed thinking and its own tools' calls and results back unchanged. It refuses thinking
        without a signature, which some servers write, calls that were cut off, empty texts, blocks of no
        type, thinking that nothing follows, and a call of its own tool without a result unless it goes on
        from there.

        Args:
            is_paused: Whether the provider goes on from the response, so that it wants all of it.
            goes_on: Whether the provider carries out calls of its own tools in the next response: after a
                pause, or once it has the results of other calls.
        """
        items = [item for block in self._blocks if (item := _returned(block)) is not None]
        if not goes_on:
            answered = {str(item.get("tool_use_id")) for item in items if is_own_result(item)}
            items = [
                each for each in items if each["type"] not in OWN_CALLS or str(each.get("id")) in answered
            ]
        while items and items[-1].get("type") in _THINKING:
            items.pop()
        if not any(_is_wanted_back(item) or (is_paused and item["type"] == "text") for item in items):
            return None
        if self.container_id is not None:
            items.append({"type": CONTAINER, "id": self.container_id})
        return ProviderContent(protocol=PROTOCOL_NAME, items=tuple(items))

    def _stop(self, block: _Block) -> list[ModelEvent]:
        if block.is_stopped:
            return []
        block.is_stopped = True
        self._running.pop(block.position, None)
        if block.kind == "text":
            return _cited(block)
        if block.kind != "tool_use":
            return self.native_calls.take(_returned(block) or block.form)
        if block.scanner.is_complete:
            self._ready.append(block)
            return []
        events = self._release()
        self._held = block
        if (given := block.form.get("input")) and not block.fragments:
            events.append(_take_whole_arguments(block, given))
        return events

    def _release(self) -> list[ModelEvent]:
        """Emit the call that was held back, now that it is known to be complete."""
        block, self._held = self._held, None
        if block is not None:
            self._ready.append(block)
        return self.release_ready()

    def _find(self, index: int | None) -> _Block | None:
        if index is not None:
            return self._by_index.get(index)
        return self._blocks[-1] if self._blocks else None

    def _start_call(self, block: _Block) -> ToolCallStarted:
        name = block.text_of("name")
        if not name:
            raise ModelProtocolError("The response holds a tool call without a name.")
        call_id = block.text_of("id")
        if not call_id or call_id in self._call_ids:
            call_id = new_call_id("toolu")
        block.form = {**block.form, "id": call_id}
        block.call_index = len(self._call_ids)
        self._call_ids.add(call_id)
        return ToolCallStarted(index=block.call_index, id=call_id, name=name)

    def _take_arguments(self, block: _Block | None, fragment: str) -> list[ModelEvent]:
        if block is None:
            raise ModelProtocolError(
                f"The response holds arguments of a tool call that never began: {excerpt(fragment)}"
            )
        if block.is_stopped:
            return []
        fragment = fragment[: block.scanner.feed(fragment)]
        if not fragment:
            return []
        block.fragments.append(fragment)
        if block.call_index is None:  # a tool that the provider runs itself
            return []
        return [ToolCallArgumentsDelta(index=block.call_index, fragment=fragment)]

    def _complete(self, block: _Block) -> ToolCallCompleted:
        block.is_handed_out = True
        self.completed_calls += 1
        text = "".join(block.fragments)
        call = ToolCall(
            id=block.text_of("id"), name=block.text_of("name"), arguments=text if text.strip() else "{}"
        )
        return ToolCallCompleted(index=block.call_index or 0, call=call)


def _is_wanted_back(item: dict[str, Any]) -> bool:
    """Whether a block is thinking, a compaction, or part of a call that the provider carries out itself."""
    return is_own_result(item) or item["type"] in (*OWN_CALLS, _COMPACTION, *_THINKING)


def _take_whole_arguments(block: _Block, given: object) -> ToolCallArgumentsDelta:
    """Use the arguments that came with the beginning of the block, if no others followed."""
    text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    block.fragments.append(text)
    return ToolCallArgumentsDelta(index=block.call_index or 0, fragment=text)


def _returned(block: _Block) -> dict[str, Any] | None:
    """A block to send back; None when the provider would refuse it."""
    form = block.form
    if not isinstance(form.get("type"), str):
        return None
    if block.kind == "thinking":
        signature = block.signature or block.text_of("signature")
        return {**form, "thinking": "".join(block.texts), "signature": signature} if signature else None
    if block.kind == "text":
        return _returned_text(block)
    if block.kind == _COMPACTION and block.texts:
        return {**form, "content": "".join(block.texts)}
    if not block.is_stopped or (block.kind == "tool_use" and not block.is_handed_out):
        return None
    if not block.fragments:
        return {**form, "input": form.get("input") or {}} if block.kind == "tool_use" else form
    return {**form, "input": _input_object("".join(block.fragments))}


def _input_object(text: str) -> dict[str, Any]:
    sent = arguments_object(text)
    return sent if isinstance(sent, dict) else msgspec.json.decode(text, type=dict[str, Any])


def _cited(block: _Block) -> list[ModelEvent]:
    """The citations of a text block, which support all of it."""
    found = [each for each in block.all_citations if is_json_object(each)]
    if not found:
        return []
    text = "".join(block.texts)
    return [
        CitationAdded(citation=citations.citation_of(each, text=text, start=block.begins_at))
        for each in found
    ]


def _returned_text(block: _Block) -> dict[str, Any] | None:
    text = "".join(block.texts)
    if not text.strip():
        return None
    form = {**block.form, "text": text}
    return {**form, "citations": block.all_citations} if block.citations else form


_COMPLAINT = "The response holds what is not an Anthropic Messages event"

STOP_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause",
    "refusal": "content_filter",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
}
# With these, a call is as the model left it. Others, including unknown ones, may have cut it off.
_GOOD_ENDS = frozenset({"end_turn", "pause_turn", "tool_use"})
# The provider's names of its own internal errors, for which it answers with status 500 elsewhere.
_TRANSIENT_ERRORS = frozenset({"api_error"})

_Shape = TypeVar("_Shape")


class AnthropicResponseDecoder:
    """Decodes one answer. See `wire.codec.ResponseDecoder`.

    Args:
        holds_calls: Whether calls are emitted at the end alone, for a request that allows other models to
            take over: the calls of a model that declines are not to be carried out.
        caches_for_an_hour: Whether the request asks the provider to keep tokens for an hour. Servers that do
            not say how long they keep what they have written then keep it for that time.
    """

    def __init__(self, *, holds_calls: bool = False, caches_for_an_hour: bool = False) -> None:
        self._caches_for_an_hour = caches_for_an_hour
        self._blocks = ContentBlocks()
        self._blocks.holds_calls = holds_calls
        self._usage = WireUsage()
        self._stop_reason: str | None = None
        self._stop_details: StopDetails | None = None
        self._response_id: str | None = None
        self._model_name: str | None = None
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether the last event was emitted."""
        return self._is_ended

    def may_take_long(self, event: ServerSentEvent) -> bool:
        """Whether decoding an event may take long; see `wire.codec.ResponseDecoder`."""
        return b"message_" in event.data

    def feed(self, event: ServerSentEvent) -> list[ModelEvent]:
        """Process one event of the stream; see `wire.codec.ResponseDecoder`."""
        # Some servers end every stream like this; it means nothing, not even success.
        if self._is_ended or event.data.strip() == b"[DONE]":
            return []
        check_response(event.data, complaint=_COMPLAINT)
        if event.event == "error":
            return self._fail(event.data)
        return take_documents(self._take_document, event)

    def _take_document(self, event: ServerSentEvent) -> list[ModelEvent]:
        if self._is_ended:
            return []
        content = _decode(event.data, Event)
        if content.type == "error" or is_something(content.error):
            return self._fail(event.data)
        return self._take_event(content, content.type or event.event)

    def finish(self) -> list[ModelEvent]:
        """Process the end of the stream; see `wire.codec.ResponseDecoder`."""
        if self._is_ended:
            return []
        lacks = "a stop reason" if self._stop_reason is None else "message_stop"
        raise ModelProtocolError(f"The stream ended without {lacks}.", is_transient=True)

    def feed_whole(self, body: bytes) -> list[ModelEvent]:
        """Process an answer that came as one JSON document.

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
        self._blocks.holds_calls |= any(block.get("type") == HOP for block in message.content)
        events: list[ModelEvent] = []
        for index, block in enumerate(message.content):
            events += self._blocks.start(index, block)
            events += self._blocks.stop(index)
        # The document is complete, even if fields are missing.
        events += self._take_stop_reason(message.stop_reason or "end_turn")
        events += self._report_usage(message.usage)
        return events + self._end()

    def _take_event(self, event: Event, kind: str) -> list[ModelEvent]:
        """Process an event of a known kind; other kinds, pings among them, are ignored."""
        match kind:
            case "message_start":
                message = _decode(event.message, Message)
                if self._response_id and message.id and message.id != self._response_id:
                    raise ModelProtocolError(
                        f"The stream holds two responses, {excerpt(self._response_id)} and "
                        f"{excerpt(message.id)}."
                    )
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
            case "" | "ping":
                return self._blocks.release_ready()
            case _:
                report_unknown(PROTOCOL_NAME, kind)
                return []

    def _take_message(self, message: Message) -> None:
        self._response_id = message.id
        self._model_name = message.model
        self._take_container(message.container)
        self._stop_details = message.stop_details or self._stop_details

    def _take_container(self, container: Container | None) -> None:
        if container is not None and container.id:
            self._blocks.container_id = container.id

    def _take_message_delta(self, event: Event) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        delta = _decode(event.delta, Delta)
        self._take_container(delta.container)
        self._stop_details = delta.stop_details or self._stop_details
        if delta.stop_reason:
            events += self._take_stop_reason(delta.stop_reason)
        return events + self._report_usage(_decode(event.usage, WireUsage))

    def _take_stop_reason(self, stop_reason: str) -> list[ModelEvent]:
        self._stop_reason = stop_reason
        return self._blocks.finish(is_cut_off=stop_reason not in _GOOD_ENDS)

    def _report_usage(self, usage: WireUsage | None) -> list[ModelEvent]:
        if usage is None or usage == WireUsage():
            return []
        self._usage = self._usage.updated(usage)
        reported = self._usage.to_usage(
            is_complete=self._stop_reason is not None,
            code_executions=self._blocks.native_calls.code_executions,
            caches_for_an_hour=self._caches_for_an_hour,
        )
        return [UsageReported(usage=reported)]

    def _end(self) -> list[ModelEvent]:
        if self._stop_reason is None:
            raise ModelProtocolError("The stream said message_stop without a stop reason.", is_transient=True)
        self._is_ended = True
        finished = ResponseFinished(
            reason=self._normalized_reason(self._stop_reason),
            provider_content=self._blocks.provider_content(
                goes_on=self._goes_on, is_paused=self._stop_reason == "pause_turn"
            ),
            provider_reason=self._stop_reason,
            response_id=self._response_id,
            model_name=self._model_name,
            refusal=self._refusal,
        )
        return [finished]

    @property
    def _refusal(self) -> Refusal | None:
        if self._stop_reason != "refusal":
            return None
        details = self._stop_details or StopDetails()
        return Refusal(category=details.category, explanation=details.explanation)

    @property
    def _goes_on(self) -> bool:
        """Whether the provider carries out what is left of its own calls when the response comes back."""
        has_calls = self._stop_reason == "tool_use" and bool(self._blocks.completed_calls)
        return has_calls or self._stop_reason == "pause_turn"

    def _normalized_reason(self, stop_reason: str) -> FinishReason:
        """The stop reason; the content decides if the server's word contradicts it."""
        normalized = STOP_REASONS.get(stop_reason, "other")
        if normalized in ("stop", "pause", "other") and self._blocks.completed_calls:
            return "tool_calls"
        return "stop" if normalized == "tool_calls" and not self._blocks.completed_calls else normalized

    def _fail(self, data: bytes) -> list[ModelEvent]:
        self._is_ended = True
        return [response_failure(data, transient_types=_TRANSIENT_ERRORS)]


def _decode(data: bytes | msgspec.Raw, shape: type[_Shape]) -> _Shape:
    """A part of the answer; empty when it is missing or null.

    Raises:
        ModelProtocolError: It is something else.
    """
    content = b"{}" if isinstance(data, msgspec.Raw) and not is_something(data) else bytes(data)
    try:
        return msgspec.json.decode(content, type=shape)
    except NOT_JSON as error:
        raise ModelProtocolError(f"{_COMPLAINT} ({error}): {excerpt(content)}") from error
