"""A model that answers from a script, for tests of the agent executor."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from anyio.lowlevel import checkpoint

from ..errors import ModelError, ModelProtocolError
from ..types.messages import BinaryContent, Citation, FileUrl, ToolCall
from ..types.model import (
    FinishReason,
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    ResponseFinished,
    TextDelta,
    ToolCallCompleted,
    ToolCallStarted,
    UsageReported,
)
from ..types.model_output import CitationAdded, MediaCompleted, Refusal
from ..types.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """One response, as the events that a model streams.

    Args:
        events: The events, in order. Without a final `ResponseFinished` the stream breaks off.
    """

    events: tuple[ModelEvent, ...]


ScriptedAnswer: TypeAlias = ModelResponse | ModelError


def tool_call(name: str, /, **arguments: object) -> ToolCall:
    """Return a call with these arguments; `model_response` sets its id."""
    return ToolCall(id="", name=name, arguments=json.dumps(arguments))


def model_response(
    *calls: ToolCall,
    text: str = "",
    media: Iterable[BinaryContent | FileUrl] = (),
    citations: Iterable[Citation] = (),
    refusal: Refusal | None = None,
    usage: Usage | None = None,
    finish_reason: FinishReason | None = None,
) -> ModelResponse:
    """Return a response with tool calls, text, or both.

    Args:
        *calls: The tool calls, in order.
        text: The visible text.
        media: Images and sounds that the model makes, after the text.
        citations: The sources that it cites, after those.
        refusal: The reason of a refused answer; None for one that is not refused.
        usage: The reported usage; None for one request with 10 input and 5 output tokens.
        finish_reason: The finish reason; None for the one that fits the calls and the refusal.
    """
    events: list[ModelEvent] = [TextDelta(text=text)] if text else []
    events += [MediaCompleted(content=each) for each in media]
    events += [CitationAdded(citation=each) for each in citations]
    for index, call in enumerate(calls):
        identified = (
            call if call.id else ToolCall(id=f"call_{index}", name=call.name, arguments=call.arguments)
        )
        events.append(ToolCallStarted(index=index, id=identified.id, name=identified.name))
        events.append(ToolCallCompleted(index=index, call=identified))
    events.append(UsageReported(usage=usage or Usage(requests=1, input_tokens=10, output_tokens=5)))
    fitting: FinishReason = "content_filter" if refusal else "tool_calls" if calls else "stop"
    events.append(ResponseFinished(reason=finish_reason or fitting, refusal=refusal))
    return ModelResponse(events=tuple(events))


class ScriptedModel:
    """Answers requests with responses in order, or with the results of a function.

    Args:
        answers: The answers, each used once (a `ModelError` is raised), or a function from a request to its
            answer.
        name: The model id.
        capabilities: The capabilities of the model.
    """

    def __init__(
        self,
        answers: Iterable[ScriptedAnswer] | Callable[[ModelRequest], ScriptedAnswer],
        *,
        name: str = "scripted:model",
        capabilities: ModelCapabilities | None = None,
    ) -> None:
        self._function = answers if callable(answers) else None
        self._answers = [] if callable(answers) else list(answers)
        self.name = name
        self.capabilities = capabilities or ModelCapabilities()
        self.requests: list[ModelRequest] = []

    @property
    def local_only_reason(self) -> str | None:
        """The reason why workers cannot have it; None if they can. A copy has its own list `requests`."""
        if self._function is not None:
            return None
        return "a ScriptedModel uses each of its answers once. Give it a function of the request instead."

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it without the requests so far."""
        answers = self._function or self._answers
        return partial(ScriptedModel, name=self.name, capabilities=self.capabilities), (answers,)

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        """Record the request and stream its answer; see `nighthawk_async.models.Model.stream`."""
        self.requests.append(request)
        answer = self._answer(request)
        await checkpoint()
        if isinstance(answer, ModelError):
            raise answer
        async with aclosing(self._events(answer)) as events:
            yield events

    def _answer(self, request: ModelRequest) -> ScriptedAnswer:
        if self._function is not None:
            return self._function(request)
        position = len(self.requests) - 1
        if position >= len(self._answers):
            raise ModelProtocolError(
                f"ScriptedModel has {len(self._answers)} answers and none for request {position + 1}"
            )
        return self._answers[position]

    async def _events(self, response: ModelResponse) -> AsyncGenerator[ModelEvent, None]:
        event: ModelEvent | None = None
        for event in response.events:
            await checkpoint()
            yield event
        if not isinstance(event, ResponseFinished):
            raise ModelProtocolError(f"{self.name}: the stream ended without its terminal event")
