"""Words of a user while a response is running, in the WebSocket mode of OpenAI Responses. Pure.

A client sends `response.steer`; the server answers `response.steer.accepted` and owns the text from then on.
Either it ends the response (`response.incomplete`, with the reason `steered`) or lets it end, and goes on by
itself with a response that nobody requested: its successor. Or the response ends with calls of tools: then it
sends `response.steer.pending`, and puts the text before the results that the client sends. Or it gives the
text back with `response.steer.failed`.

To the loop of a step the successor is the answer to its next request, which holds the same text, as over
HTTP.

Source: "Mid-turn steering" of the OpenAI platform documentation, and `response_steer_*_event.py` of openai
3.57.0, read on 2026-11-30.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...types.json import is_json_list, is_json_mapping
from .input import encode_user_content

STEERING = "response.steer."
"""The beginning of the types of the events about what a user says meanwhile."""

NOT_SUPPORTED = "steering_not_supported"
"""The code of an error of a model that cannot be steered."""


def steering_message(text: str, response_id: str) -> bytes:
    """The message that puts a text into a running response.

    Args:
        text: The text.
        response_id: The response.
    """
    return msgspec.json.encode({"type": "response.steer", "previous_response_id": response_id, "input": text})


class Steered:
    """The texts that were put into one response, and their fates."""

    __slots__ = ("_fates", "_pending", "sent")

    def __init__(self) -> None:
        self.sent: list[str] = []
        """All texts, in order."""
        self._fates: list[bool | None] = []  # whether the server has it; None while it has not said so
        self._pending = 0

    @property
    def is_queued(self) -> bool:
        """Whether the server may have one of them."""
        return any(fate is not False for fate in self._fates)

    @property
    def is_known(self) -> bool:
        """Whether the server has said of each whether it takes it."""
        return None not in self._fates

    @property
    def is_settled(self) -> bool:
        """Whether the server waits for the next request with those that it has, instead of going on."""
        return self._pending >= sum(fate is not False for fate in self._fates)

    @property
    def taken(self) -> int | None:
        """The number of the first texts that the server has, if it has refused all others; else None."""
        taken = self._fates.count(True)
        is_plain = taken and all(self._fates[:taken]) and self.is_known
        return taken if is_plain else None

    def add(self, text: str) -> None:
        """Note a text that is sent."""
        self.sent.append(text)
        self._fates.append(None)

    def note(self, event: "SteeringEvent") -> None:
        """Note what the server says about one."""
        if event.kind == "pending":
            self._pending += 1
        elif event.kind == "accepted" and None in self._fates:  # in the order in which they were sent
            self._fates[self._fates.index(None)] = True
        elif event.kind == "failed" and self.is_queued:
            queued = [place for place, fate in enumerate(self._fates) if fate is not False]
            named = [place for place in queued if self.sent[place] == event.text]
            self._fates[self._refused_of(named or queued)] = False

    def _refused_of(self, places: Sequence[int]) -> int:
        """The place of the text that a refusal is about: one whose fate is unknown, if there is one."""
        unknown = [place for place in places if self._fates[place] is None]
        return unknown[0] if unknown else places[-1]

    def left_of(self, items: Sequence[msgspec.Raw]) -> list[msgspec.Raw] | None:
        """The new items of the next request, without the texts that the server has.

        Args:
            items: The new items; the last one holds what the user said.

        Returns:
            The items; None if the texts are not there as they were sent.
        """
        if not items or (said := _text_of_user(items[-1])) is None:
            return None
        there, later = self._found_in(said)
        if there == 0 or any(fate is not False for fate in self._fates[there:]):
            return None
        refused = [text for text, fate in zip(self.sent[:there], self._fates, strict=False) if fate is False]
        left = encode_user_content((*refused, *([later] if later else [])))
        message = {"type": "message", "role": "user", "content": left}
        return [*items[:-1], *([msgspec.Raw(msgspec.json.encode(message))] if left else [])]

    def _found_in(self, said: str) -> tuple[int, str]:
        """The number of texts with which a message begins, and the rest of it."""
        for number in range(len(self.sent), 0, -1):
            sent = encode_user_content(tuple(self.sent[:number]))
            assert isinstance(sent, str)
            if said == sent:
                return number, ""
            if number == len(self.sent) and said.startswith(f"{sent}\n\n"):
                return number, said[len(sent) + 2 :]
        return 0, ""

    def are_all_of(self, items: Sequence[msgspec.Raw]) -> bool:
        """Whether the new items of a request hold nothing but texts that the server may have.

        Args:
            items: The new items.
        """
        return self.left_of(items) == []


class _UserItem(msgspec.Struct):
    role: Any = None
    content: Any = None


def _text_of_user(item: msgspec.Raw) -> str | None:
    try:
        found = msgspec.json.decode(item, type=_UserItem)
    except msgspec.DecodeError:
        return None
    content: object = found.content
    return content if found.role == "user" and isinstance(content, str) else None


class _Steering(msgspec.Struct):
    steer: Any = None
    error: Any = None


class SteeringEvent:
    """The word of the server about a text.

    Args:
        kind: The end of its type, as in `accepted`, `pending`, `failed`.
        data: The message.
    """

    __slots__ = ("code", "kind", "text")

    def __init__(self, kind: str, data: bytes) -> None:
        self.kind = kind
        found = msgspec.json.decode(data, type=_Steering)
        steer, error = _mapping(found.steer), _mapping(found.error)
        self.text = _plain(steer.get("input"))
        """The text that it gives back; empty when it gives none."""
        self.code = str(error.get("code") or "")
        """The code of its error; empty without one."""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if is_json_mapping(value) else {}


def _plain(value: object) -> str:
    """The text of an input, which a server may give back as a message with parts."""
    if is_json_list(value):
        parts = [part for item in value for part in _parts(_mapping(item).get("content"))]
        return "\n\n".join(parts)
    return value if isinstance(value, str) else ""


def _parts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    found = [_mapping(part).get("text") for part in content] if is_json_list(content) else []
    return [text for text in found if isinstance(text, str)]
