"""The wire shapes of Responses answers, and their function calls from the first sign to completion.

One shape serves every event of a stream. Fields that this library does not use are left out and ignored;
every field may be missing or null, since some server leaves it out. A field of many forms stays raw until its
form is known.

Source: `response_stream_event.py`, `response.py` and `response_output_item.py` of the official SDK.

Unlike Chat Completions, this protocol reports when a call is done. The rules are these.

- A call that is reported as done is complete. If only its arguments are reported as done, they must be a
closed JSON object that is not empty: a server also reports arguments as done that its length limit cut off,
and `{}` before any have come.
- A call that was never reported as done is complete when the whole response is, and its arguments are closed.
It is dropped if the response was cut off, and so is a call that is reported as incomplete.
- Completed calls are emitted in the order in which they were started.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any, TypeVar

import msgspec

from ...errors import ModelProtocolError
from ...types.messages import ToolCall
from ...types.model import ModelEvent, ToolCallArgumentsDelta, ToolCallCompleted, ToolCallStarted
from ...types.usage import Usage
from ..json_text import NOT_JSON, JsonObjectScanner, is_something, new_call_id
from ..redaction import excerpt

_BEGINNING_CHARACTERS = 3  # enough to distinguish an empty object from all others


@dataclass(slots=True)
class _Streamed:
    """The arguments that came in fragments. Joining them takes time, so it is done when they are needed."""

    fragments: list[str] = field(default_factory=list[str])
    characters: int = 0
    scanner: JsonObjectScanner = field(default_factory=JsonObjectScanner)
    beginning: str = ""

    def add(self, text: str) -> None:
        self.fragments.append(text)
        self.characters += len(text)
        self.scanner.feed(text)
        if len(self.beginning) < _BEGINNING_CHARACTERS:
            self.beginning += "".join(text.split())[:_BEGINNING_CHARACTERS]

    @property
    def is_closed(self) -> bool:
        """Whether they are, as far as their brackets tell, a whole JSON object."""
        return self.scanner.is_complete

    @property
    def is_empty_object(self) -> bool:
        return self.beginning == "{}"

    def text(self, fragments: int | None = None) -> str:
        """All of them, or the first fragments."""
        return "".join(self.fragments if fragments is None else islice(self.fragments, fragments))

    def missing_in(self, whole: str) -> str:
        """Return the rest of a text that begins with them."""
        if len(whole) <= self.characters:
            return ""
        text = self.text()
        return whole[len(text) :] if whole.startswith(text) else ""


@dataclass(slots=True, kw_only=True, eq=False)
class FunctionCall:
    """A call whose parts are arriving. `completed` is the emitted call.

    `undecided` are arguments that were reported as done but may have been cut off: a text, or the number of
    streamed fragments that they consist of.
    """

    position: int
    id: str = ""
    name: str = ""
    streamed: _Streamed = field(default_factory=_Streamed)
    arguments: str | None = None
    undecided: str | int = 0
    is_announced: bool = False
    is_dropped: bool = False
    completed: ToolCall | None = None

    @property
    def said_arguments(self) -> str | None:
        """The arguments that the server reported as done; None when it did not."""
        if self.arguments is not None:
            return self.arguments
        said = self.undecided if isinstance(self.undecided, str) else self.streamed.text(self.undecided)
        return said or None


class FunctionCalls:
    """The calls of one response.

    Args:
        new_id: Makes an id, unique in every conversation, for a call that came without one.
    """

    def __init__(self, new_id: Callable[[], str] | None = None) -> None:
        self._new_id = new_id or new_call_id
        self._calls: list[FunctionCall] = []
        self._ids: set[str] = set()
        self._handed_out = 0

    @property
    def has_completed(self) -> bool:
        """Whether a call was emitted as complete."""
        return any(call.completed for call in self._calls)

    @property
    def waiting(self) -> int:
        """The number of calls that have begun and were not emitted."""
        return len(self._calls) - self._handed_out

    def begin(self) -> FunctionCall:
        """A new call, without any known part."""
        call = FunctionCall(position=len(self._calls))
        self._calls.append(call)
        return call

    def describe(self, call: FunctionCall, *, id: str, name: str) -> list[ModelEvent]:
        """Set a call's id and name if they are new; empty texts represent missing ones."""
        if id and not call.id:
            # Results are identified by their call's id, so no two calls may have the same.
            call.id = id if id not in self._ids else self._new_id()
            self._ids.add(call.id)
        call.name = call.name or name
        return self._announce(call) + self._hand_out()

    def add(self, call: FunctionCall, text: str) -> list[ModelEvent]:
        """Add more of a call's arguments; once they are complete, more is ignored."""
        if call.arguments is not None or not text:
            return []
        call.streamed.add(text)
        if call.is_announced:
            return [ToolCallArgumentsDelta(index=call.position, fragment=text)]
        return []

    def conclude(self, call: FunctionCall, arguments: str, *, is_call_done: bool) -> list[ModelEvent]:
        """Record that a call's arguments are done.

        Args:
            call: The call.
            arguments: All of them, as the server repeats them; they may be empty when it does not.
            is_call_done: Whether the call itself is reported as done.
        """
        if call.arguments is not None or call.is_dropped:
            return []
        streamed = call.streamed
        is_closed = _is_closed(arguments)
        if is_closed or (arguments and not streamed.is_closed):
            events = self.add(call, streamed.missing_in(arguments))
            if is_call_done or (is_closed and not _is_empty(arguments)):
                call.arguments = arguments
            else:
                call.undecided = arguments
            return events + self._hand_out()
        if is_call_done or (streamed.is_closed and not streamed.is_empty_object):
            call.arguments = streamed.text()
        else:
            call.undecided = len(streamed.fragments)
        return self._hand_out()

    def drop(self, call: FunctionCall) -> list[ModelEvent]:
        """Record that a call was cut off."""
        call.is_dropped = call.completed is None
        return self._hand_out()

    def finish(self, *, is_cut_off: bool) -> list[ModelEvent]:
        """Record that the response is finished.

        Args:
            is_cut_off: Whether it was cut off.

        Raises:
            ModelProtocolError: A complete call has no name.
        """
        events: list[ModelEvent] = []
        for call in self._calls:
            if call.arguments is None and not is_cut_off:
                call.arguments = call.said_arguments or (
                    call.streamed.text() if call.streamed.is_closed else None
                )
            if call.arguments is None:
                call.is_dropped = True
            elif not call.is_dropped:
                if not call.name:
                    raise ModelProtocolError("The response holds a function call without a name.")
                events += self.describe(call, id=call.id or self._new_id(), name=call.name)
        return events + self._hand_out()

    def _announce(self, call: FunctionCall) -> list[ModelEvent]:
        if call.is_announced or not (call.id and call.name):
            return []
        call.is_announced = True
        started = ToolCallStarted(index=call.position, id=call.id, name=call.name)
        if not call.streamed.fragments:
            return [started]
        return [started, ToolCallArgumentsDelta(index=call.position, fragment=call.streamed.text())]

    def _hand_out(self) -> list[ModelEvent]:
        """Emit every call that is complete and whose predecessors were emitted or dropped."""
        events: list[ModelEvent] = []
        while self._handed_out < len(self._calls):
            call = self._calls[self._handed_out]
            if not call.is_dropped:
                if call.arguments is None or not call.is_announced:
                    break
                arguments = call.arguments if call.arguments.strip() else "{}"
                call.completed = ToolCall(id=call.id, name=call.name, arguments=arguments)
                events.append(ToolCallCompleted(index=call.position, call=call.completed))
            self._handed_out += 1
        return events


def _is_closed(arguments: str) -> bool:
    """Whether the text is, as far as its brackets tell, a whole JSON object."""
    scanner = JsonObjectScanner()
    scanner.feed(arguments)
    return scanner.is_complete


def _is_empty(arguments: str) -> bool:
    return "".join(arguments.split()) == "{}"


COMPLAINT = "The response holds what the Responses protocol does not know"
"""The beginning of the error about data that does not belong to such an answer."""

_Shape = TypeVar("_Shape")


class Envelope(msgspec.Struct):
    """Fields of every event, unknown ones included."""

    type: str | None = None
    error: msgspec.Raw = msgspec.Raw()


class Event(msgspec.Struct):
    """One event of a stream."""

    type: str | None = None
    error: msgspec.Raw = msgspec.Raw()
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item_id: str | None = None
    delta: str | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: msgspec.Raw = msgspec.Raw()
    name: str | None = None
    part: msgspec.Raw = msgspec.Raw()
    item: msgspec.Raw = msgspec.Raw()
    response: msgspec.Raw = msgspec.Raw()


class Item(msgspec.Struct):
    """An output item: a message, a function call, reasoning, or a type of a later version of the protocol."""

    type: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    status: str | None = None
    arguments: msgspec.Raw = msgspec.Raw()
    content: msgspec.Raw = msgspec.Raw()
    summary: msgspec.Raw = msgspec.Raw()


class Part(msgspec.Struct):
    """A part of a message or of reasoning."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    annotations: Any = None

    @property
    def is_refusal(self) -> bool:
        """Whether this is a refusal of the model."""
        return self.type == "refusal"

    @property
    def whole(self) -> str:
        """The text, from either of the two fields."""
        return (self.refusal if self.is_refusal else self.text) or ""


class InputTokens(msgspec.Struct):
    """Parts of the input tokens."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputTokens(msgspec.Struct):
    """Parts of the output tokens."""

    reasoning_tokens: int | None = None
    image_tokens: int | None = None


class WireUsage(msgspec.Struct):
    """Consumption, as the endpoint counts it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: InputTokens | None = None
    output_tokens_details: OutputTokens | None = None

    def to_usage(self) -> Usage:
        """The same as usage of one request."""
        inputs = self.input_tokens_details or InputTokens()
        outputs = self.output_tokens_details or OutputTokens()
        return Usage(
            requests=1,
            input_tokens=self.input_tokens or 0,
            output_tokens=self.output_tokens or 0,
            cache_read_tokens=inputs.cached_tokens or 0,
            cache_write_tokens=inputs.cache_write_tokens or 0,
            reasoning_tokens=outputs.reasoning_tokens or 0,
            image_output_tokens=outputs.image_tokens or 0,
        )


class WebSearches(msgspec.Struct):
    """Searches that the provider bills."""

    num_requests: int | None = None


class MadeImages(msgspec.Struct):
    """The tokens of images that the provider's tool made, beside those of the model.

    They are charged at prices that the response does not name; here they count as tokens of the model.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_details: OutputTokens | None = None

    def to_usage(self) -> Usage:
        """The same as usage of no further request."""
        received = self.output_tokens or 0
        details = self.output_tokens_details
        images = received if details is None or details.image_tokens is None else details.image_tokens
        return Usage(input_tokens=self.input_tokens or 0, output_tokens=received, image_output_tokens=images)


class ToolUsage(msgspec.Struct):
    """Uses of native tools, beside the tokens of the model."""

    web_search: WebSearches | None = None
    image_gen: MadeImages | None = None

    @property
    def searches(self) -> int | None:
        """The number of searches that the provider bills; None when it does not say."""
        return None if self.web_search is None else self.web_search.num_requests


class IncompleteDetails(msgspec.Struct):
    """The reason why a response is incomplete."""

    reason: str | None = None


class Response(msgspec.Struct):
    """A whole response, or its final state when its stream ends."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    output: list[msgspec.Raw] | None = None
    usage: WireUsage | None = None
    tool_usage: ToolUsage | None = None
    incomplete_details: IncompleteDetails | None = None
    error: msgspec.Raw = msgspec.Raw()


def decode_as(shape: type[_Shape], data: bytes | msgspec.Raw) -> _Shape:
    """Decode bytes into a value of a shape.

    Args:
        shape: A type.
        data: A JSON document, or a part of one.

    Raises:
        ModelProtocolError: They do not hold such a value.
    """
    try:
        return _decoder(shape).decode(data)
    except NOT_JSON as error:
        raise ModelProtocolError(f"{COMPLAINT} ({error}): {excerpt(bytes(data))}") from error


def arguments_text(raw: msgspec.Raw) -> str:
    """The text of a call's arguments, which some servers send as an object; empty when there is none."""
    if bytes(raw).lstrip().startswith(b"{"):
        return msgspec.json.encode(decode_as(dict[str, Any], raw)).decode()
    return decode_as(str, raw) if is_something(raw) else ""


def text_parts(raw: msgspec.Raw) -> list[Part]:
    """The parts of a message's content, or of reasoning; none where there is no list of them."""
    return decode_as(list[Part], raw) if is_something(raw) else []


@cache
def _decoder(shape: type[_Shape]) -> msgspec.json.Decoder[_Shape]:
    return msgspec.json.Decoder(shape)
