"""Turns of a script as responses of the Responses protocol. No I/O here."""

from collections.abc import Iterator, Mapping
from itertools import count, groupby
from typing import Any

import msgspec

from .answer import STAMP, Answer, streamed_answer, whole_answer
from .chat import pieces
from .script import SENT_AT, Turn

__all__ = ["ResponsesRequest", "responses_answers"]

_MODELS_ITEMS = ("function_call", "reasoning")


class _Item(msgspec.Struct):
    type: str = "message"
    role: str = ""

    @property
    def is_of_the_model(self) -> bool:
        return self.type in _MODELS_ITEMS or self.role == "assistant"


class ResponsesRequest(msgspec.Struct):
    """What of a request decides the answer."""

    input: str | list[_Item]
    stream: bool = False

    @property
    def turn(self) -> int:
        """Which turn of the script is asked for: each unbroken row of the model's items is one turn."""
        items = self.input if isinstance(self.input, list) else []
        return sum(is_turn for is_turn, _ in groupby(items, key=lambda item: item.is_of_the_model))


def responses_answers(
    turn: Turn, index: int, *, goes_on: bool, fields: Mapping[str, Any]
) -> tuple[Answer, Answer]:
    """A turn in one piece and as a stream; see `benchmarks.server.chat.chat_answers`."""
    items = _items(turn, index)
    if goes_on:
        items.sort(key=lambda item: item["type"] == "message")
    begun = {**_response(index, "in_progress", []), **fields}
    ended = {**_response(index, "completed", items), **fields}
    return whole_answer(msgspec.json.encode(ended)), _streamed(items, begun, ended, goes_on=goes_on)


def _streamed(
    items: list[dict[str, Any]], begun: dict[str, Any], ended: dict[str, Any], *, goes_on: bool
) -> Answer:
    numbers = count()

    def events(*told: dict[str, Any]) -> list[bytes]:
        return [_as_event({**event, "sequence_number": next(numbers)}) for event in told]

    opening = events(
        {"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}
    )
    groups = [events(*_item_events(item, place)) for place, item in enumerate(items)]
    ending = events({"type": "response.completed", "response": ended})
    if goes_on and items[-1]["type"] == "message":
        return streamed_answer(
            [*opening, *_joined(groups[:-1])], [*groups[-1][:-1], groups[-1][-1] + ending[0]]
        )
    return streamed_answer([*opening, *_joined(groups), *ending])


def _joined(groups: list[list[bytes]]) -> Iterator[bytes]:
    return (event for group in groups for event in group)


def _items(turn: Turn, index: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if turn.text:
        part = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
        items.append({"type": "message", "role": "assistant", "content": [part]})
    for number, call in enumerate(turn.calls):
        arguments = msgspec.json.encode(call.arguments).decode().replace(SENT_AT, STAMP.decode())
        called = {"call_id": f"call_{index:04}{number:04}abcdefghijklmnop", "name": call.name}
        items.append({"type": "function_call", **called, "arguments": arguments})
    for place, item in enumerate(items):
        item |= {"id": f"item_{index:04}{place:04}abcdefghijklmnopqrstuvwxyz", "status": "completed"}
    return items


def _item_events(item: dict[str, Any], place: int) -> Iterator[dict[str, Any]]:
    empty = {"content": []} if item["type"] == "message" else {"arguments": ""}
    begun = {**item, **empty, "status": "in_progress"}
    where = {"item_id": item["id"], "output_index": place}
    yield {"type": "response.output_item.added", "output_index": place, "item": begun}
    for event in _text_events(item) if item["type"] == "message" else _call_events(item):
        yield {**event, **where}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _text_events(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    part = item["content"][0]
    yield {"type": "response.content_part.added", "content_index": 0, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield {"type": "response.output_text.delta", "content_index": 0, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", "content_index": 0, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", "content_index": 0, "part": part}


def _call_events(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for piece in pieces(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", "delta": piece}
    done = {"name": item["name"], "arguments": item["arguments"]}
    yield {"type": "response.function_call_arguments.done", **done}


def _response(index: int, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {
        "input_tokens": 1000,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 1050,
    }
    return {
        "id": f"resp_{index:04}abcdefghijklmnopqrstuvwxyz",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "benchmark",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage if status == "completed" else None,
    }


def _as_event(value: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (value["type"].encode(), msgspec.json.encode(value))
