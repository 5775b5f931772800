"""Replies of a `ModelServer` in OpenAI Responses.

Reasoning becomes a reasoning item, sealed when the request asks for `reasoning.encrypted_content`.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

from ..types.usage import Usage
from .model_reply import (
    ModelReply,
    RecordedRequest,
    SentBlocks,
    as_objects,
    identified_calls,
    parsed_arguments,
    pieces,
    refusal,
    seal,
    server_sent_event,
    to_json,
)
from .model_server_schemas import find_strict_refusal


class SentItems:
    """Items that a server has sent."""

    def __init__(self) -> None:
        self._stored: set[str] = set()
        self._reasoning_of: dict[str, str] = {}

    def remember(self, items: list[dict[str, Any]], *, is_stored: bool) -> None:
        """Remember the items of a response.

        Args:
            items: The items.
            is_stored: Whether the server keeps the response, so that its id alone suffices.
        """
        reasoning = next((item["id"] for item in items if item["type"] == "reasoning"), None)
        for item in items:
            if is_stored:
                self._stored.add(item["id"])
            if reasoning is not None and item["type"] == "function_call":
                self._reasoning_of[item["id"]] = reasoning

    def is_stored(self, item_id: str) -> bool:
        """Whether the server keeps an item.

        Args:
            item_id: Its id.
        """
        return item_id in self._stored

    def reasoning_of(self, item_id: str) -> str | None:
        """Return the id of the reasoning item that led to a call; None without one.

        Args:
            item_id: The id of the call's item.
        """
        return self._reasoning_of.get(item_id)


def find_refusal(body: dict[str, Any], sent: SentItems) -> ModelReply | None:
    """Return the refusal of a request; None for a valid one.

    Args:
        body: The request's body.
        sent: The items that the server sent before.
    """
    if not isinstance(body.get("include"), list | None):
        return refusal("Invalid type for 'include': expected an array.")
    items = as_objects(body.get("input"))
    for number, item in enumerate(items):
        if item.get("type") == "reasoning":
            following = items[number + 1] if number + 1 < len(items) else {}
            refused = _check_reasoning(item, following, sent)
        elif item.get("type") == "function_call":
            refused = _check_reasoning_of_call(item, items[:number], sent)
        else:
            refused = None
        if refused is not None:
            return refused
    # With a previous response, the calls that are answered need not be in the request.
    return None if body.get("previous_response_id") else _check_pairing(items)


def _check_reasoning(item: dict[str, Any], following: dict[str, Any], sent: SentItems) -> ModelReply | None:
    name = str(item.get("id"))
    sealed = item.get("encrypted_content")
    text = "".join(str(part.get("text")) for part in as_objects(item.get("summary")))
    if not sealed and not sent.is_stored(name):
        return refusal(
            f"Item with id '{name}' not found. Items are not persisted when `store` is set to false. Try "
            "again with `store` set to true, or remove this item from your input.",
            status=404,
        )
    if sealed and sealed != seal(text):
        return refusal(f"The encrypted content for item {name} could not be verified.")
    kind = str(following.get("type", "message"))
    is_last_of_turn = following.get("role") not in (None, "assistant") or not (
        kind in ("message", "reasoning", "tool_search_output") or kind.endswith("_call")
    )
    if not following or is_last_of_turn:
        return refusal(f"Item '{name}' of type 'reasoning' was provided without its required following item.")
    return None


def _check_reasoning_of_call(
    item: dict[str, Any], before: list[dict[str, Any]], sent: SentItems
) -> ModelReply | None:
    name = str(item.get("id"))
    needed = sent.reasoning_of(name)
    if needed is None or any(each.get("id") == needed for each in before):
        return None
    return refusal(
        f"Item '{name}' of type 'function_call' was provided without its required 'reasoning' item: "
        f"'{needed}'."
    )


def _check_pairing(items: list[dict[str, Any]]) -> ModelReply | None:
    awaited: list[str] = []
    for item in items:
        call_id = str(item.get("call_id"))
        if item.get("type") == "function_call":
            awaited.append(call_id)
        elif item.get("type") == "function_call_output":
            if call_id not in awaited:
                return refusal(f"No tool call found for function call output with call_id {call_id}.")
            awaited.remove(call_id)
    return refusal(f"No tool output found for function call {awaited[0]}.") if awaited else None


_SEALED = "reasoning.encrypted_content"
_PREFIXES = {"reasoning": "rs", "message": "msg", "function_call": "fc"}


class ResponsesReplies:
    """The protocol OpenAI Responses. See `ReplyProtocol`."""

    def __init__(self) -> None:
        self._numbers = count()
        self._sent = SentItems()
        self._sent_blocks = SentBlocks()

    def serves(self, path: str) -> bool:
        """Whether a path belongs to the protocol."""
        return path.endswith("/responses")

    def is_streamed(self, request: RecordedRequest) -> bool:
        """Whether a request asks for a stream."""
        return request.body.get("stream") is True

    def stream(self, reply: ModelReply, request: RecordedRequest) -> list[bytes]:
        """Return the events of a streamed reply."""
        response = self._response(request.body)
        items = self._items(reply, request.body)
        begun: dict[str, Any] = {**response, "status": "in_progress", "output": []}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for index, item in enumerate(items):
            place = {} if reply.fault == "no_call_index" else {"output_index": index}
            events += ({**event, **place} for event in _item_events(item, reply))
        if reply.error is not None and reply.finish_reason != "failed":
            events.append({"code": None, "message": "", "param": None, **reply.error, "type": "error"})
        elif reply.fault != "no_terminal":
            ended = _ended(response, items, reply)
            events.append({"type": f"response.{ended['status']}", "response": ended})
        return [
            server_sent_event({**event, "sequence_number": number}, event["type"])
            for number, event in enumerate(events)
        ]

    def whole(self, reply: ModelReply, request: RecordedRequest) -> bytes:
        """Return a reply that is not streamed."""
        response = self._response(request.body)
        items = self._items(reply, request.body)
        if reply.fault == "no_terminal":
            return to_json({**response, "output": items})
        return to_json(_ended(response, items, reply))

    def error(self, reply: ModelReply) -> bytes:
        """Return the body of a reply with an error status."""
        message = reply.text or f"scripted status {reply.status}"
        scripted = {"message": message, "type": "scripted_error", "param": None, "code": None}
        return to_json({"error": reply.error or scripted})

    def check(self, request: RecordedRequest) -> ModelReply | None:
        """Refuse requests that a real endpoint refuses."""
        items = as_objects(request.body.get("input"))
        if changed := self._sent_blocks.find_changed(items, request.content):
            return refusal(f"The item {changed} is not as it was sent.")
        functions = as_objects(request.body.get("tools"))
        return find_strict_refusal(functions) or find_refusal(request.body, self._sent)

    def _response(self, body: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": f"resp_{next(self._numbers)}",
            "object": "response",
            "created_at": 0,
            "model": body.get("model", ""),
            "error": None,
            "incomplete_details": None,
            "usage": None,
        }

    def _items(self, reply: ModelReply, body: dict[str, Any]) -> list[dict[str, Any]]:
        reasoning = self._reasoning_item(reply, body)
        items = [] if reasoning is None else [reasoning]
        self._sent_blocks.remember(reply.blocks)
        items += map(dict, reply.blocks)
        if reply.text:
            part: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": []}
            items.append({"type": "message", "role": "assistant", "content": [part]})
        for call in identified_calls(reply, lambda: f"call_{next(self._numbers)}"):
            sent = {"call_id": call.id} if call.id else {}
            items.append(
                {"type": "function_call", **sent, "name": call.name, "arguments": call.arguments or "{}"}
            )
        for item in items:
            if "id" not in item:  # blocks have one
                name = f"{_PREFIXES[item['type']]}_{next(self._numbers)}"
                item |= {"id": name, "status": "incomplete" if _is_cut_off(item, reply) else "completed"}
        self._sent.remember(items, is_stored=body.get("store") is not False)
        return items

    def _reasoning_item(self, reply: ModelReply, body: dict[str, Any]) -> dict[str, Any] | None:
        if not reply.reasoning:
            return None
        item: dict[str, Any] = {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": reply.reasoning}],
        }
        included: object = body.get("include")
        if isinstance(included, list) and _SEALED in included:
            item["encrypted_content"] = seal(reply.reasoning)
        return item


def _item_events(item: dict[str, Any], reply: ModelReply) -> Iterator[dict[str, Any]]:
    begun = {**item, "status": "in_progress"}
    for name in {"content", "summary", "arguments"} & item.keys():
        begun[name] = type(item[name])()
    if "encrypted_content" in item:  # the first event need not be complete
        begun["encrypted_content"] = item["encrypted_content"][:8]
    begun.pop("action", None)  # the query of a search comes later
    yield {"type": "response.output_item.added", "item": begun}
    for event in _part_events(item, reply):
        yield {**event, "item_id": item["id"]}
    yield {"type": "response.output_item.done", "item": item}


def _part_events(item: dict[str, Any], reply: ModelReply) -> Iterator[dict[str, Any]]:
    if item["type"] not in _PREFIXES:
        return
    if item["type"] == "reasoning":
        yield from _summary_events(item["summary"][0], reply)
    elif item["type"] == "message":
        yield from _text_events(item["content"][0], reply)
    else:
        prefix = "response.function_call_arguments"
        for piece in pieces(item["arguments"], reply):
            yield {"type": f"{prefix}.delta", "delta": piece}
        if item["status"] == "completed":
            yield {"type": f"{prefix}.done", "arguments": item["arguments"], "name": item["name"]}


def _summary_events(part: dict[str, Any], reply: ModelReply) -> Iterator[dict[str, Any]]:
    prefix = "response.reasoning_summary"
    yield {"type": f"{prefix}_part.added", "summary_index": 0, "part": {**part, "text": ""}}
    for piece in pieces(part["text"], reply):
        yield {"type": f"{prefix}_text.delta", "summary_index": 0, "delta": piece}
    yield {"type": f"{prefix}_text.done", "summary_index": 0, "text": part["text"]}
    yield {"type": f"{prefix}_part.done", "summary_index": 0, "part": part}


def _text_events(part: dict[str, Any], reply: ModelReply) -> Iterator[dict[str, Any]]:
    yield {"type": "response.content_part.added", "content_index": 0, "part": {**part, "text": ""}}
    for piece in pieces(part["text"], reply):
        yield {"type": "response.output_text.delta", "content_index": 0, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", "content_index": 0, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", "content_index": 0, "part": part}


def _is_cut_off(item: dict[str, Any], reply: ModelReply) -> bool:
    """Whether an item is the call during which the response reached its limit."""
    last = reply.tool_calls[-1] if reply.tool_calls else None
    is_limited = reply.finish_reason not in (None, "completed", "failed")
    return (
        is_limited
        and last is not None
        and item.get("arguments") == last.arguments
        and (parsed_arguments(last) is None)
    )


def _ended(response: dict[str, Any], items: list[dict[str, Any]], reply: ModelReply) -> dict[str, Any]:
    """Return the response object of the last event."""
    ended = {**response, "status": "completed", "output": items}
    if reply.usage is not None:
        ended["usage"] = _encode_usage(reply.usage)
        if reply.usage.web_searches:
            ended["tool_usage"] = {"web_search": {"num_requests": reply.usage.web_searches}}
    if reply.error is not None or reply.finish_reason == "failed":
        return ended | {"status": "failed", "error": reply.error or {"code": "server_error", "message": ""}}
    if reply.finish_reason not in (None, "completed"):
        return ended | {"status": "incomplete", "incomplete_details": {"reason": reply.finish_reason}}
    return ended


def _encode_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
