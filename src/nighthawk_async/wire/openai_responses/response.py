"""Ends of Responses answers, streamed or whole.

The terminal event is `response.completed`, `response.incomplete` or `response.failed`, or an error in its
place. The end of the stream, or `[DONE]`, alone is no success: Ollama swallows errors and just stops.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ...errors import ModelProtocolError
from ...lazy_exports import LazyModule
from ...types.messages import ProviderContent
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
from ..json_text import check_response, is_something
from ..provider_errors import response_failure
from ..redaction import excerpt
from ..sse import ServerSentEvent
from ..unknown_kinds import report_unknown
from .events import (
    COMPLAINT,
    Envelope,
    Event,
    FunctionCalls,
    Item,
    Part,
    Response,
    arguments_text,
    decode_as,
    text_parts,
)
from .input import PROTOCOL
from .items import OutputItem, OutputItems
from .native_tools import NATIVE_ITEMS, count_uses, finished, started

if TYPE_CHECKING:
    from .. import held_media
    from . import citations
else:  # few answers hold media or citations
    held_media = LazyModule("nighthawk_async.wire.held_media")
    citations = LazyModule(f"{__package__}.citations")

_TEXTS = {
    "response.output_text": ("message", "content"),
    "response.refusal": ("message", "content"),
    "response.reasoning_text": ("reasoning", "content"),
    "response.reasoning_summary_text": ("reasoning", "summary"),
}
"""For each kind of text, by the prefix of its events' names: the type of its item, and its place there."""

_OTHERS = frozenset({"response.content_part", "response.function_call_arguments", "response.output_item"})


_UNUSED = frozenset(
    {
        *("response.audio", "response.audio.transcript", "response.code_interpreter_call"),
        *("response.code_interpreter_call_code", "response.compaction", "response.custom_tool_call_input"),
        *("response.file_search_call", "response.image_generation_call", "response.mcp_call"),
        *("response.mcp_call_arguments", "response.mcp_list_tools", "response.output_text.annotation"),
        *("response.reasoning_summary_part", "response.shell_call_command"),
        *("response.shell_call_output_content", "response.web_search_call"),
    }
)
"""Prefixes of the names of events that are known and not needed."""

_UNUSED_NAMES = frozenset(
    {
        *("", "keepalive", "ping", "response.content_part.added", "response.created"),
        *("response.in_progress", "response.queued"),
    }
)


def is_unused_event(name: str) -> bool:
    """Whether events of that name are known and not needed.

    Args:
        name: The event's type.
    """
    return name.rpartition(".")[0] in _UNUSED or name in _UNUSED_NAMES


def is_output_event(name: str) -> bool:
    """Whether events of that name bring output that this library understands.

    Args:
        name: The event's type.
    """
    stem = name.rpartition(".")[0]
    return stem in _TEXTS or stem in _OTHERS


class ResponseOutput:
    """The output of one answer so far."""

    def __init__(self) -> None:
        self._items = OutputItems()
        self._calls = FunctionCalls()
        self._media: held_media.HeldMedia | None = None
        self._characters = 0  # of the texts of messages
        self._has_text = False
        self._refusals: list[str] = []

    @property
    def has_calls(self) -> bool:
        """Whether a call was emitted as complete."""
        return self._calls.has_completed

    @property
    def waiting_calls(self) -> int:
        """The number of calls that have begun and were not emitted."""
        return self._calls.waiting

    @property
    def is_refusal(self) -> bool:
        """Whether the model only refused."""
        return bool(self._refusals) and not self._has_text

    @property
    def refusal(self) -> str:
        """The words with which the model refused; empty for none."""
        return "".join(self._refusals)

    def feed(self, name: str, event: Event) -> list[ModelEvent]:
        """Process one event of the stream; unknown ones are ignored.

        Args:
            name: The event's type.
            event: The event.

        Raises:
            ModelProtocolError: The data of the event does not match its type.
        """
        stem, _, ending = name.rpartition(".")
        if stem in _TEXTS and ending in ("delta", "done"):
            return self._take_text(stem, event, is_whole=ending == "done")
        match name:
            case "response.output_item.added" if is_something(event.item):
                return self._begin_item(decode_as(Item, event.item), event.output_index)
            case "response.output_item.done" if is_something(event.item):
                item = decode_as(Item, event.item)
                return self._take_item(self._items.find_done(item, event.output_index), item, event.item)
            case "response.content_part.done" if is_something(event.part):
                return self._take_part(event, decode_as(Part, event.part))
            case "response.function_call_arguments.delta" | "response.function_call_arguments.done":
                return self._take_arguments(event)
            case _:
                if not is_unused_event(name):
                    report_unknown(PROTOCOL, name)
                return []

    def finish(self, output: Sequence[msgspec.Raw], *, is_cut_off: bool) -> list[ModelEvent]:
        """Record that the response is finished.

        Args:
            output: The items that the finished response lists; some servers list none.
            is_cut_off: Whether it was cut off; then calls that were not done are dropped.

        Raises:
            ModelProtocolError: An item does not match its type, or a complete call has no name.
        """
        items = [decode_as(Item, raw) for raw in output]
        events: list[ModelEvent] = []
        for found, item, raw in zip(self._items.merge(items), items, output, strict=True):
            events += self._take_item(found, item, raw)
        return events + self._calls.finish(is_cut_off=is_cut_off)

    def with_uses(self, usage: Usage, billed_searches: int | None) -> Usage:
        """Return the usage with the uses of native tools.

        Args:
            usage: The usage that the response reports.
            billed_searches: The web searches that the provider bills; None when it does not say.
        """
        return usage + count_uses(self._items.native_calls, billed_searches)

    def to_provider_content(self) -> ProviderContent | None:
        """The output in the provider's form, when it wants more of it back than text and calls."""
        return self._items.to_provider_content()

    def _find(self, type: str, event: Event) -> OutputItem:
        return self._items.find(type, id=event.item_id, index=event.output_index)

    def _take_text(self, stem: str, event: Event, *, is_whole: bool) -> list[ModelEvent]:
        type_of_item, place = _TEXTS[stem]
        index = event.summary_index if place == "summary" else event.content_index
        item = self._find(type_of_item, event)
        if is_whole:
            part = Part(type=stem.rpartition(".")[2], text=event.text, refusal=event.refusal)
            return self._settle(item, place, index or 0, part)
        if not event.delta:
            return []
        is_refusal = stem == "response.refusal"
        item.part(place, index or 0, is_refusal=is_refusal).add(event.delta, begins_at=self._characters)
        return self._hand_out(item, event.delta, is_refusal=is_refusal)

    def _take_part(self, event: Event, part: Part) -> list[ModelEvent]:
        item = self._find("reasoning" if part.type == "reasoning_text" else "message", event)
        return self._settle(item, "content", event.content_index or 0, part)

    def _settle(self, item: OutputItem, place: str, index: int, part: Part) -> list[ModelEvent]:
        streamed = item.part(place, index, is_refusal=part.is_refusal)
        missing = streamed.settle(part.whole, begins_at=self._characters)
        events = self._hand_out(item, missing, is_refusal=part.is_refusal)
        if part.annotations and not streamed.is_cited:
            streamed.is_cited = True
            events += citations.citations_of(part.annotations, streamed)
        return events

    def _hand_out(self, item: OutputItem, text: str, *, is_refusal: bool) -> list[ModelEvent]:
        if not text:
            return []
        if item.type == "reasoning":
            return [ReasoningDelta(text=text)]
        self._characters += len(text)
        self._has_text |= not is_refusal
        if is_refusal:
            self._refusals.append(text)
        return [TextDelta(text=text)]

    def _begin_item(self, item: Item, index: int | None) -> list[ModelEvent]:
        begun = self._items.begin(item, index)
        if item.type in NATIVE_ITEMS:
            begun.is_started = True
            return [started(item.type, item.id)]
        if item.type != "function_call":
            return []
        begun.call = self._calls.begin()
        return self._calls.describe(begun.call, id=item.call_id or "", name=item.name or "")

    def _take_arguments(self, event: Event) -> list[ModelEvent]:
        item = self._find("function_call", event)
        item.call = item.call or self._calls.begin()
        events = self._calls.describe(item.call, id="", name=event.name or "")
        if event.delta is not None:
            return events + self._calls.add(item.call, event.delta)
        return events + self._calls.conclude(item.call, arguments_text(event.arguments), is_call_done=False)

    def _take_item(self, found: OutputItem, item: Item, raw: msgspec.Raw) -> list[ModelEvent]:
        """Process the final form of an item: only the content that its pieces did not bring already."""
        is_known = found.form is not None
        found.form = found.form or decode_as(dict[str, Any], raw)
        if item.type in NATIVE_ITEMS:
            return [] if is_known else self._end_native_call(found, item)
        if item.type == "function_call":
            return self._take_call(found, item)
        events: list[ModelEvent] = []
        if item.type in ("message", "reasoning"):
            for place, parts in (("summary", item.summary), ("content", item.content)):
                for index, part in enumerate(text_parts(parts)):
                    events += self._settle(found, place, index, part)
        return events

    def _end_native_call(self, found: OutputItem, item: Item) -> list[ModelEvent]:
        form = found.form or {}
        events: list[ModelEvent] = [] if found.is_started else [started(item.type, item.id)]
        if item.type == "image_generation_call" and isinstance(image := form.get("result"), str) and image:
            self._media = self._media or held_media.HeldMedia()
            known = held_media.MEDIA_TYPES_OF_FORMATS.get(str(form.get("output_format")))
            event, held = self._media.take(image, known, otherwise="image/png")
            found.form = {**form, "result": held}
            events.append(event)
        return [*events, finished(form)]

    def _take_call(self, found: OutputItem, item: Item) -> list[ModelEvent]:
        call = found.call = found.call or self._calls.begin()
        if item.status == "incomplete":
            return self._calls.drop(call)
        events = self._calls.describe(call, id=item.call_id or item.id or "", name=item.name or "")
        return events + self._calls.conclude(call, arguments_text(item.arguments), is_call_done=True)


_TERMINALS = {
    "response.cancelled": "cancelled",
    "response.completed": "completed",
    "response.failed": "failed",
    "response.incomplete": "incomplete",
}
_TERMINAL_NAMES = tuple(name.encode() for name in _TERMINALS)
_FAILURES = ("cancelled", "failed")
_REASONS: dict[str | None, FinishReason] = {
    "content_filter": "content_filter",
    "max_output_tokens": "length",
    "max_tokens": "length",
}


class ResponsesDecoder:
    """Decodes one answer. See `wire.codec.ResponseDecoder`."""

    def __init__(self) -> None:
        self._output = ResponseOutput()
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether the last event was emitted."""
        return self._is_ended

    def may_take_long(self, event: ServerSentEvent) -> bool:
        """Whether decoding an event may take long; see `wire.codec.ResponseDecoder`."""
        many_wait = self._output.waiting_calls > MANY_WAITING_CALLS
        return many_wait or any(name in event.data for name in _TERMINAL_NAMES)

    def feed(self, event: ServerSentEvent) -> list[ModelEvent]:
        """Process one event of the stream; see `wire.codec.ResponseDecoder`."""
        if self._is_ended:
            return []
        if event.data.strip() == b"[DONE]":
            raise ModelProtocolError(
                "The stream said [DONE] before the response was finished.", is_transient=True
            )
        check_response(event.data, complaint=COMPLAINT)
        if event.event == "error":
            return self._fail(event.data)
        return take_documents(self._take_event, event)

    def finish(self) -> list[ModelEvent]:
        """Process the end of the stream; see `wire.codec.ResponseDecoder`."""
        if not self._is_ended:
            raise ModelProtocolError("The stream ended before the response was finished.", is_transient=True)
        return []

    def feed_whole(self, body: bytes) -> list[ModelEvent]:
        """Process an answer that came as one JSON document.

        Args:
            body: The document.

        Raises:
            ModelProtocolError: It is not a finished Responses answer.
        """
        check_response(body, complaint=COMPLAINT)
        response = decode_as(Response, body)
        if response.output is None and response.status is None and is_something(response.error):
            return self._fail(body)
        # The document is complete, even if fields are missing.
        ending = response.status or ("completed" if response.output is not None else "missing")
        if ending not in _TERMINALS.values():
            raise ModelProtocolError(f"The answer is no finished response: {excerpt(body)}")
        return self._end(response, ending)

    def _take_event(self, sse: ServerSentEvent) -> list[ModelEvent]:
        if self._is_ended:
            return []
        try:
            event = decode_as(Event, sse.data)
        except ModelProtocolError:
            envelope = decode_as(Envelope, sse.data)
            name = envelope.type or sse.event
            if name in _TERMINALS or is_output_event(name) or is_something(envelope.error):
                raise
            if not is_unused_event(name):
                report_unknown(PROTOCOL, name)
            return []  # unknown events may give known fields another form
        name = event.type or sse.event
        if name == "error" or is_something(event.error):
            return self._fail(sse.data)
        if name in _TERMINALS:
            response = decode_as(Response, event.response) if is_something(event.response) else Response()
            return self._end(response, _TERMINALS[name])
        return self._output.feed(name, event)

    def _end(self, response: Response, ending: str) -> list[ModelEvent]:
        # vLLM always sends `response.completed`; the status then shows the result.
        endings = (ending, response.status)
        failure = next((each for each in _FAILURES if each in endings), None)
        events: list[ModelEvent] = []
        if failure is None:
            is_cut_off = "incomplete" in endings
            events += self._output.finish(response.output or (), is_cut_off=is_cut_off)
            end: ModelEvent = self._finished(response, is_cut_off=is_cut_off)
        else:
            end = _failed_response(response, failure)
        if response.usage is not None:
            tools = response.tool_usage
            searches = None if tools is None else tools.searches
            usage = self._output.with_uses(response.usage.to_usage(), searches)
            if tools is not None and tools.image_gen is not None:
                usage += tools.image_gen.to_usage()
            events.append(UsageReported(usage=usage))
        self._is_ended = True
        return [*events, end]

    def _finished(self, response: Response, *, is_cut_off: bool) -> ResponseFinished:
        details = response.incomplete_details
        detail = details.reason if is_cut_off and details is not None else None
        otherwise: FinishReason = "steered" if detail == "steered" else "other" if is_cut_off else "stop"
        reason = _REASONS.get(detail) or self._reason(otherwise)
        is_refusal = reason == "content_filter"
        return ResponseFinished(
            reason=reason,
            provider_content=self._output.to_provider_content(),
            provider_reason=detail or ("incomplete" if is_cut_off else "completed"),
            response_id=response.id,
            model_name=response.model,
            refusal=Refusal(explanation=self._output.refusal or None) if is_refusal else None,
        )

    def _reason(self, otherwise: FinishReason) -> FinishReason:
        """The finish reason that the output gives.

        A model that only refuses has filtered its own answer. The caller must learn that at once, as with the
        provider's filter, instead of asking for a better answer repeatedly.
        """
        if self._output.has_calls:
            return "tool_calls"
        return "content_filter" if self._output.is_refusal else otherwise

    def _fail(self, data: bytes) -> list[ModelEvent]:
        self._is_ended = True
        return [response_failure(data)]


def _failed_response(response: Response, ending: str) -> ResponseFailed:
    if is_something(response.error):
        return response_failure(bytes(response.error))
    message = f"The provider ended the response with the status {ending!r}."
    return ResponseFailed(message=message, is_transient=ending == "failed")
