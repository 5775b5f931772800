"""The wire shapes of Responses answers.

One shape serves every event of a stream. Fields that this library does not use are left out and ignored;
every field may be missing or null, since some server leaves it out. What stands in a field of many forms
stays raw until its form is known.

Source: `response_stream_event.py`, `response.py` and `response_output_item.py` of the official SDK.
"""

from functools import cache
from typing import Any, TypeVar

import msgspec

from ..errors import ModelProtocolError
from ..types.usage import Usage
from .redaction import excerpt
from .response_json import NOT_JSON, is_something

__all__ = [
    "COMPLAINT",
    "Envelope",
    "Event",
    "Item",
    "Part",
    "Response",
    "arguments_text",
    "decode_as",
    "text_parts",
]

COMPLAINT = "The response holds what the Responses protocol does not know"
"""The beginning of the error about what is no part of such an answer."""

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
    """An output item: a message, a function call, reasoning, or what a later version of the protocol adds."""

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

    @property
    def is_refusal(self) -> bool:
        """Whether the model refuses here."""
        return self.type == "refusal"

    @property
    def whole(self) -> str:
        """The text, whichever of the two it is."""
        return (self.refusal if self.is_refusal else self.text) or ""


class InputTokens(msgspec.Struct):
    """Parts of the input tokens."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputTokens(msgspec.Struct):
    """Parts of the output tokens."""

    reasoning_tokens: int | None = None


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
        )


class IncompleteDetails(msgspec.Struct):
    """The reason why a response is incomplete."""

    reason: str | None = None


class Response(msgspec.Struct):
    """A whole response, or what is said of it when its stream ends."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    output: list[msgspec.Raw] | None = None
    usage: WireUsage | None = None
    incomplete_details: IncompleteDetails | None = None
    error: msgspec.Raw = msgspec.Raw()


def decode_as(shape: type[_Shape], data: bytes | msgspec.Raw) -> _Shape:
    """The value that bytes spell, in this shape.

    Args:
        shape: A type.
        data: A JSON document, or a part of one.

    Raises:
        ModelProtocolError: They spell no such value.
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
