"""Conversations that the Gemini API refuses.

Source: the error messages of the real endpoint; only what a client can get wrong in sending a conversation
back is checked.
"""

import base64
import json
from collections.abc import Set
from typing import Any, TypeAlias

from .model_server_protocol import as_objects, seal

__all__ = ["call_key", "find_fault"]

_Turn: TypeAlias = tuple[str, list[dict[str, Any]]]

_NO_TURN: _Turn = ("", [])

_UNCHECKED = "skip_thought_signature_validator"
_UNCHECKED_SIGNATURES = (_UNCHECKED, base64.b64encode(_UNCHECKED.encode()).decode())


def call_key(call: dict[str, Any]) -> str:
    """Return a key for a function call without an id.

    Args:
        call: The call as the protocol writes it.
    """
    return json.dumps([call.get("name"), call.get("args") or {}], sort_keys=True)


def find_fault(body: dict[str, Any], signed_calls: Set[str]) -> str | None:
    """Return the reason why a real endpoint would refuse a request; None for a good one.

    Args:
        body: The request's body.
        signed_calls: The calls that the server signed, each as its `call_key`.
    """
    turns = _merged_turns(body)
    if not turns:
        return "* GenerateContentRequest.contents: contents is not specified"
    for number, turn in enumerate(turns):
        before, after = (
            turns[place] if 0 <= place < len(turns) else _NO_TURN for place in (number - 1, number + 1)
        )
        is_current = not any(map(_is_question, turns[number + 1 :]))
        fault = _find_wrong_pairing(before, turn, after)
        fault = fault or _find_wrong_signature(turn, signed_calls if is_current else frozenset())
        if fault is not None:
            return f"{fault} (position {number + 1})"
    return None


def _merged_turns(body: dict[str, Any]) -> list[_Turn]:
    """The contents; successive ones of the same role are one, as at the real endpoint."""
    turns: list[_Turn] = []
    for content in as_objects(body.get("contents")):
        role, parts = str(content.get("role", "user")), as_objects(content.get("parts"))
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(parts)
        else:
            turns.append((role, list(parts)))
    return turns


def _is_question(turn: _Turn) -> bool:
    """Whether a turn asks something new: signatures before it need not come back."""
    return turn[0] == "user" and not any("functionResponse" in part for part in turn[1])


def _find_wrong_pairing(before: _Turn, turn: _Turn, after: _Turn) -> str | None:
    responses = _each(turn, "functionResponse")
    if responses and not _each(before, "functionCall"):
        return "Please ensure that function response turn comes immediately after a function call turn."
    calls, answers = _each(turn, "functionCall"), _each(after, "functionResponse")
    if len(calls) != len(answers):
        return (
            "Please ensure that the number of function response parts is equal to the number of function "
            "call parts of the function call turn."
        )
    for name in ("id", "name"):
        asked = sorted(str(call[name]) for call in calls if call.get(name))
        answered = sorted(str(answer[name]) for answer in answers if answer.get(name))
        if answered and asked and answered != asked:
            return f"The function responses have other values of {name!r} than the function calls."
    return None


def _find_wrong_signature(turn: _Turn, signed_calls: Set[str]) -> str | None:
    is_first = True  # of parallel calls, only the first is signed
    for part in turn[1]:
        for call in as_objects([part.get("functionCall")]):
            key, signature = call_key(call), part.get("thoughtSignature")
            is_wanted, is_first = is_first and key in signed_calls, False
            if signature is None and is_wanted:
                return f"Function call `{call.get('name')}` is missing a `thought_signature` in its part."
            if signature is not None and signature not in (seal(key), *_UNCHECKED_SIGNATURES):
                return "Corrupted thought signature."
    return None


def _each(turn: _Turn, name: str) -> list[dict[str, Any]]:
    return [each for part in turn[1] for each in as_objects([part.get(name)])]
