"""Fields besides text and tool calls that a server of Chat Completions expects back.

- `reasoning_details`, of OpenRouter: the signed or encrypted reasoning of the models behind it, which refuse
  a conversation in which it is missing or changed.
- `extra_content`, of Google: signatures of thoughts, on tool calls or on the message.
- The reasoning text where it came in another place than usual, so that the setting `replay_reasoning` can
  send it back in the same. In the usual field it needs no record: the message holds the text.

Source: "Preserving reasoning" of the OpenRouter documentation; "Thought signatures" of the Gemini
documentation, section on compatibility with OpenAI; "Reasoning" of the Mistral documentation.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct, field

from ..types.messages import ProviderContent, ToolCall
from .openai_chat_assistant import OTHER_REASONING_FIELD, PROTOCOL, assistant_message, thinking_content
from .openai_chat_chunks import Delta
from .response_json import as_object

__all__ = ["ReplayRecord"]

_TEXT_FIELDS = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The details that are streamed in pieces, and the field of the piece. All others come whole."""


class ReplayRecord:
    """Keeps what one response holds of it."""

    def __init__(self) -> None:
        self._reasoning: list[str] = []
        self._thinking: list[str] = []
        self._details: list[_Detail] = []
        self._extra_content: dict[str, Any] = {}

    def take(self, delta: Delta, *, is_whole: bool) -> None:
        """Take in more of the response.

        Args:
            delta: More of the response, or all of it.
            is_whole: Whether it is all of it.
        """
        if delta.reasoning and not delta.reasoning_content:
            self._reasoning.append(delta.reasoning)
        elif delta.thinking and not delta.reasoning_content:
            self._thinking.append(delta.thinking)
        self._extra_content |= as_object(delta.extra_content)
        for detail in _objects(delta.reasoning_details):
            if is_whole or not self._details or not self._details[-1].goes_on_in(detail):
                self._details.append(_Detail(fields=dict(detail)))
            else:
                self._details[-1].append(detail)

    def provider_content(
        self, text: str, calls: Sequence[tuple[ToolCall, Mapping[str, Any]]]
    ) -> ProviderContent | None:
        """The response as the server wants it back; None when text and calls are all there is.

        Args:
            text: The text that was handed out.
            calls: The calls that were handed out, each with what the server hung on it.
        """
        has_record = self._reasoning or self._thinking or self._details or self._extra_content
        if not has_record and not any(extra for _, extra in calls):
            return None
        message = assistant_message(text, [call for call, _ in calls])
        for encoded, (_, extra) in zip(message.get("tool_calls", ()), calls, strict=True):
            encoded.update(extra)
        if self._reasoning:
            message[OTHER_REASONING_FIELD] = "".join(self._reasoning)
        elif self._thinking:
            message["content"] = thinking_content("".join(self._thinking), text)
        if self._details:
            message["reasoning_details"] = [detail.joined() for detail in self._details]
        if self._extra_content:
            message["extra_content"] = self._extra_content
        return ProviderContent(protocol=PROTOCOL, items=(message,))


class _Detail(Struct, kw_only=True, eq=False):
    """One entry of `reasoning_details`, and the pieces of its text that came after the first."""

    fields: dict[str, Any]
    pieces: list[str] = field(default_factory=list[str])

    def goes_on_in(self, other: Mapping[str, Any]) -> bool:
        """Whether another entry is the next piece of this one.

        In a stream the index of every entry may be 0, so that it is the type that tells entries apart; a
        signature ends an entry.
        """
        text_field = _TEXT_FIELDS.get(str(self.fields.get("type")))
        if text_field is None or other.get("type") != self.fields["type"]:
            return False
        if not all(isinstance(each.get(text_field), str | None) for each in (self.fields, other)):
            return False
        if self.fields.get("signature") and other.get(text_field):
            return False
        return all(
            self.fields.get(name) is None or other.get(name) in (None, self.fields[name])
            for name in ("id", "index")
        )

    def append(self, other: Mapping[str, Any]) -> None:
        """Add the next piece."""
        text_field = _TEXT_FIELDS[self.fields["type"]]
        self.pieces.append(other.get(text_field) or "")
        self.fields |= {
            name: value for name, value in other.items() if value is not None and name != text_field
        }

    def joined(self) -> dict[str, Any]:
        """The whole entry."""
        if not any(self.pieces):
            return self.fields
        text_field = _TEXT_FIELDS[self.fields["type"]]
        return {**self.fields, text_field: (self.fields.get(text_field) or "") + "".join(self.pieces)}


def _objects(value: object) -> list[dict[str, Any]]:
    entries = cast("list[object]", value) if isinstance(value, list) else []
    return [as_object(each) for each in entries if as_object(each)]
