"""Conversations that OpenAI Responses refuses.

Source: the error messages of the real endpoint; only what a client can get wrong in sending a conversation
back is checked.
"""

from typing import Any

from .model_reply import ModelReply
from .model_server_protocol import as_objects, refusal, seal

__all__ = ["ToldItems", "find_refusal"]


class ToldItems:
    """Items that a server has sent."""

    def __init__(self) -> None:
        self._stored: set[str] = set()
        self._reasoning_of: dict[str, str] = {}

    def remember(self, items: list[dict[str, Any]], *, is_stored: bool) -> None:
        """Remember the items of a response.

        Args:
            items: The items.
            is_stored: Whether the server keeps the response, so that an id alone will do.
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
        """The id of the reasoning item that led to a call; None when none did.

        Args:
            item_id: The id of the call's item.
        """
        return self._reasoning_of.get(item_id)


def find_refusal(body: dict[str, Any], told: ToldItems) -> ModelReply | None:
    """The refusal of a request; None for a good one.

    Args:
        body: The request's body.
        told: What the server told before.
    """
    if not isinstance(body.get("include"), list | None):
        return refusal("Invalid type for 'include': expected an array.")
    items = as_objects(body.get("input"))
    for number, item in enumerate(items):
        if item.get("type") == "reasoning":
            following = items[number + 1] if number + 1 < len(items) else {}
            refused = _check_reasoning(item, following, told)
        elif item.get("type") == "function_call":
            refused = _check_reasoning_of_call(item, items[:number], told)
        else:
            refused = None
        if refused is not None:
            return refused
    # With a previous response, the calls that are answered need not be in the request.
    return None if body.get("previous_response_id") else _check_pairing(items)


def _check_reasoning(item: dict[str, Any], following: dict[str, Any], told: ToldItems) -> ModelReply | None:
    name = str(item.get("id"))
    sealed = item.get("encrypted_content")
    text = "".join(str(part.get("text")) for part in as_objects(item.get("summary")))
    if not sealed and not told.is_stored(name):
        return refusal(
            f"Item with id '{name}' not found. Items are not persisted when `store` is set to false. Try "
            "again with `store` set to true, or remove this item from your input.",
            status=404,
        )
    if sealed and sealed != seal(text):
        return refusal(f"The encrypted content for item {name} could not be verified.")
    is_last_of_turn = following.get("role") not in (None, "assistant") or (
        following.get("type", "message") not in ("function_call", "message", "reasoning")
    )
    if not following or is_last_of_turn:
        return refusal(f"Item '{name}' of type 'reasoning' was provided without its required following item.")
    return None


def _check_reasoning_of_call(
    item: dict[str, Any], before: list[dict[str, Any]], told: ToldItems
) -> ModelReply | None:
    name = str(item.get("id"))
    needed = told.reasoning_of(name)
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
