"""Previews of a model request and of its response, for observers. Pure.

The whole conversation would be told again with every request, so only its last message is shown.
"""

from collections.abc import Iterator, Mapping

from ..types.content import UserContent
from ..types.messages import AssistantMessage, Message, UserMessage
from ..types.model import ModelEvent, ModelRequest, ResponseFinished, TextDelta, ToolCallCompleted

__all__ = ["ResponseGlance", "request_inputs"]

_SHOWN_SETTINGS = ("temperature", "top_p", "max_tokens", "seed", "reasoning_effort", "service_tier")
"""The others may hold a key."""

_MAX_CHARACTERS = 10_000
_MAX_CALLS = 100


def request_inputs(request: ModelRequest) -> Mapping[str, object]:
    """Return the number of messages, the last of them, and the settings that shape the answer.

    Args:
        request: The request.
    """
    inputs: dict[str, object] = {"messages": len(request.messages)}
    if request.messages:
        inputs["last_message"] = "\n".join(_texts(request.messages[-1]))
    inputs.update((name, request.settings[name]) for name in _SHOWN_SETTINGS if name in request.settings)
    return inputs


class ResponseGlance:
    """Preview of a response: its finish reason, the beginning of its text, and the called tools."""

    __slots__ = ("_calls", "_finish_reason", "_room", "_texts")

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._room = _MAX_CHARACTERS
        self._calls: list[str] = []
        self._finish_reason: str | None = None

    def note(self, event: ModelEvent) -> None:
        """Take note of an event of the response."""
        if isinstance(event, TextDelta) and self._room > 0:
            self._texts.append(event.text[: self._room])
            self._room -= len(event.text)
        elif isinstance(event, ToolCallCompleted) and len(self._calls) < _MAX_CALLS:
            self._calls.append(event.call.name)
        elif isinstance(event, ResponseFinished):
            self._finish_reason = event.reason

    def outputs(self) -> Mapping[str, object]:
        """Return the response so far."""
        shown = {
            "finish_reason": self._finish_reason,
            "text": "".join(self._texts),
            "tool_calls": self._calls,
        }
        return {name: value for name, value in shown.items() if value}


def _texts(message: Message) -> Iterator[str]:
    if isinstance(message, AssistantMessage):
        yield message.text[:_MAX_CHARACTERS]
    elif isinstance(message, UserMessage):
        yield from _content_texts(message.content)
    else:
        for result in message.results:
            yield from _content_texts(result.content)


def _content_texts(content: tuple[UserContent, ...]) -> Iterator[str]:
    for item in content:
        yield item[:_MAX_CHARACTERS] if isinstance(item, str) else f"<{type(item).__name__}>"
