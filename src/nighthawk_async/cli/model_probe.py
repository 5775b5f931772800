"""The tiny requests that `models check` sends, and their results."""

from dataclasses import dataclass, field

import anyio

from ..errors import ModelError
from ..ports import Model
from ..types.messages import ToolCall, ToolDefinition, UserMessage
from ..types.model import (
    FinishReason,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    ResponseFinished,
    ResponseFormat,
    TextDelta,
    ToolCallCompleted,
    UsageReported,
)
from ..types.usage import Usage

WORD = "ready"
TOOL_NAME = "say_word"
_WORD_SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string"}},
    "required": ["word"],
    "additionalProperties": False,
}


def _question(text: str) -> tuple[UserMessage]:
    return (UserMessage(content=(text,)),)


DIRECT_QUESTION = ModelRequest(messages=_question(f"Answer with this one word: {WORD}"))
"""A request that needs only an answer."""

TOOL_REQUEST = ModelRequest(
    messages=_question(f"Call the tool {TOOL_NAME} with the word {WORD}."),
    tools=(ToolDefinition(name=TOOL_NAME, description="Says a word.", parameters=_WORD_SCHEMA),),
    tool_choice="required",  # as the agent executor asks
)
"""A request for one tool call."""

FORM_REQUEST = ModelRequest(
    messages=_question(f'Answer with a JSON object whose field "word" is "{WORD}".'),
    response_format=ResponseFormat(name="word", schema=_WORD_SCHEMA),
)
"""A request for an answer that follows a JSON Schema."""


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request and its result.

    Args:
        text: The visible text.
        calls: The tool calls.
        has_reasoned: Whether reasoning came with it.
        reason: The reason why the response ended; None when it did not end well.
        usage: Its usage; None when it is unknown.
        first_event_seconds: Seconds until the first event; None when there was none.
        seconds: Seconds in all.
        error: The error if there is no complete response.
    """

    text: str = ""
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    has_reasoned: bool = False
    reason: FinishReason | None = None
    usage: Usage | None = None
    first_event_seconds: float | None = None
    seconds: float = 0.0
    error: ModelError | None = None

    def take(self, event: ModelEvent) -> None:
        """Record one event.

        Args:
            event: The event.
        """
        match event:
            case TextDelta():
                self.text += event.text
            case ReasoningDelta():
                self.has_reasoned = True
            case ToolCallCompleted():
                self.calls.append(event.call)
            case UsageReported():
                self.usage = event.usage
                self.has_reasoned = self.has_reasoned or event.usage.reasoning_tokens > 0
            case ResponseFinished():
                self.reason = event.reason
            case _:
                pass


async def ask_model(model: Model, request: ModelRequest) -> Exchange:
    """Send a request and collect its response; a failure is part of the exchange.

    Args:
        model: The model.
        request: The request.

    Raises:
        ConfigurationError: The request could not be sent as it is.
    """
    exchange = Exchange()
    began = anyio.current_time()
    try:
        async with model.stream(request) as events:
            async for event in events:
                if exchange.first_event_seconds is None:
                    exchange.first_event_seconds = anyio.current_time() - began
                exchange.take(event)
    except ModelError as error:
        exchange.error = error
    exchange.seconds = anyio.current_time() - began
    return exchange
