"""Drives the model loop over a model without tool calls: its calls come as text. See `agent.text_calls`."""

from collections import deque
from collections.abc import AsyncIterator
from typing import Self

from ..agent.loop import AgentLoop, NextTurn, ProposedOutcome, TurnEnd
from ..agent.named_tools import has_functions
from ..agent.outcome_codec import Answer, BindingExpression
from ..agent.task import AgentTask
from ..agent.text_calls import CALL_FORM, CallReader, read_calls, request_as_text
from ..errors import CorrectionCause, ExecutionError
from ..kernel.context import StepContext
from ..kernel.tools import ToolScope
from ..ports import Model
from ..types.messages import AssistantMessage, Message
from ..types.model import ModelEvent, ModelRequest, ToolCallCompleted
from ..types.outcomes import ReturnStepOutcome
from .model_agent import ModelAgent

_KIND_FIRST = "the fields 'kind' and 'calls' come first in an object of calls; nothing was called"


def are_due(model: Model, context: StepContext, tool_scope: ToolScope) -> bool:
    """Whether the calls of a step in the direct transport come as text: there is something to call.

    A small model is asked for calls in another way, one short thing at a time.

    Args:
        model: The model.
        context: The state of the step.
        tool_scope: The tools of the step.
    """
    return not model.capabilities.is_small and (has_functions(context) or bool(tool_scope.visible()))


def are_asked_for(model: Model, context: StepContext) -> bool:
    """Whether a small model is asked for the calls of a step: its answers are held to a schema.

    Args:
        model: The model.
        context: The state of the step.
    """
    return model.capabilities.is_small and model.capabilities.structured_output and has_functions(context)


class TextCallLoop(AgentLoop):
    """The model loop of a step whose calls come as text. Calls in a wrong form are corrections.

    Args:
        task: The step.
        context: Its state.
    """

    def __init__(self, task: AgentTask, context: StepContext) -> None:
        super().__init__(task)
        self._context = context

    def _end_with_text(self) -> TurnEnd:
        try:
            calls = read_calls("".join(self._turn.text)) if self._turn.finish_reason != "length" else None
        except ExecutionError as error:
            self._refuse(str(error), "call_form")
            return NextTurn()
        if calls is None:
            return super()._end_with_text()
        self._refuse(_KIND_FIRST, "call_form")
        return NextTurn()

    def _what_to_do(self, cause: CorrectionCause) -> str:
        advice = super()._what_to_do(cause)
        return f"{advice} The form of calls is {CALL_FORM}" if cause == "outcome_kind" else advice

    def _propose(self, text: str) -> TurnEnd:
        end = super()._propose(text)
        if isinstance(end, ProposedOutcome) and (wrong := self._wrong_result(end.answer)) is not None:
            named = ", ".join(sorted(self._context.helper_names)) or "none"
            self._refuse(f"there is no result named {wrong!r}; named results: {named}", "binding_value")
            return NextTurn()
        return end

    def _wrong_result(self, answer: Answer) -> str | None:
        """A text that stands for a result and is not the name of one: no code is evaluated here."""
        given = [each.text for each in answer.bindings.values() if isinstance(each, BindingExpression)]
        if isinstance(answer.outcome, ReturnStepOutcome) and answer.outcome.return_expression:
            given.append(answer.outcome.return_expression)
        names = self._context.helper_names & self._context.step_locals.keys()
        return next((each for each in given if each not in names), None)


class TextCallAgent(ModelAgent):
    """The agent of one step that calls functions as text.

    Args:
        model: The model.
        context: The state of the step.

    Attributes:
        calls: The number of calls so far, those of the past included. It makes their ids.
    """

    def __init__(self, model: Model, context: StepContext) -> None:
        super().__init__(model)
        self._context = context
        self.form = self
        self.calls = 0

    def loop_of(self, task: AgentTask) -> AgentLoop:
        """Return the loop of a task."""
        self.calls = sum(map(_count_calls, task.past))
        return TextCallLoop(task, self._context)

    def sent(self, request: ModelRequest) -> ModelRequest:
        """Return a request with its functions, calls and results as text."""
        return request_as_text(request, enforces_schema=self.model.capabilities.structured_output)

    def read(self, events: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
        """Return the events of a response, its calls as tool calls."""
        return _ReadEvents(self, events)


class _ReadEvents:
    """The events of a response, its calls as tool calls."""

    def __init__(self, agent: TextCallAgent, events: AsyncIterator[ModelEvent]) -> None:
        self._agent = agent
        self._events = events
        self._reader = CallReader(agent.calls)
        self._ready: deque[ModelEvent] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ModelEvent:
        while not self._ready:
            try:
                event = await self._events.__anext__()
            except StopAsyncIteration:
                self._ready.extend(self._reader.finish(is_whole=False))
                if not self._ready:
                    raise
            else:
                self._ready.extend(self._reader.feed(event))
        event = self._ready.popleft()
        if isinstance(event, ToolCallCompleted):
            self._agent.calls += 1
        return event


def _count_calls(message: Message) -> int:
    return len(message.tool_calls) if isinstance(message, AssistantMessage) else 0
