"""Drives the model loop over a `Model`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from anyio import CancelScope
from anyio.abc import TaskGroup
from msgspec import Struct

from ..actors import BareTaskGroup
from ..agent.loop import AgentLoop, ProposedOutcome, is_final, report_refusals
from ..agent.model_call import find_partial_answer, load_price, report_request, stream_in
from ..agent.policies import active_fitting
from ..agent.task import AgentTask, plain_task
from ..errors import ModelError
from ..kernel.environment import find_environment
from ..ports import Model, ResponseStream
from ..types.messages import ToolResult, UserContent
from ..types.model import ModelEvent, ModelRequest
from ..types.outcomes import StepOutcome


class CallForm(Protocol):
    """Another form of tool calls than that of the model's protocol."""

    def loop_of(self, task: AgentTask) -> AgentLoop:
        """Return the loop of a task."""
        ...

    def sent(self, request: ModelRequest) -> ModelRequest:
        """Return a request in the form in which it is sent."""
        ...

    def read(self, events: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
        """Return the events of a response in the form in which the loop takes them."""
        ...


class ModelAgent:
    """The agent that asks a model and dispatches each tool call as soon as it is complete.

    Args:
        model: The model.
    """

    form: CallForm | None = None

    def __init__(self, model: Model) -> None:
        self.model = model

    async def run(self, task: AgentTask) -> StepOutcome:
        """Run a step; see `StepExecutionAgent.run`."""
        task = plain_task(task)
        loop = AgentLoop(task) if self.form is None else self.form.loop_of(task)
        try:
            while True:
                request = loop.next_request(await task.turn_boundary())
                if task.conversation.may_be_due(request):
                    request = await self._fitting(task, request)
                await self._run_turn(task, loop, request)
                end = loop.end_turn()
                if isinstance(end, ProposedOutcome) and await is_final(task, loop, end.answer):
                    return end.answer.outcome
                report_refusals(loop)
        finally:
            task.keep_messages(loop.conversation)

    async def _fitting(self, task: AgentTask, request: ModelRequest) -> ModelRequest:
        """Return a request that fits the model's context."""
        tokens = await task.conversation.find_excess(request)
        if tokens is None:
            return request
        return await active_fitting().fitted(self.model, task, request, tokens)

    async def _run_turn(self, task: AgentTask, loop: AgentLoop, request: ModelRequest) -> None:
        """Stream one response and run its tool calls; the first error ends the turn and is raised bare."""
        failures: list[Exception] = []
        request_error: ModelError | None = None
        stream: object = None
        environment, form = find_environment(), self.form
        partial_answer = find_partial_answer(environment)

        async with BareTaskGroup() as task_group:
            try:
                sent = request if form is None else form.sent(request)
                stream = response = stream_in(environment, self.model, sent)
                await load_price(self.model, response)
                if isinstance(response, ResponseStream) and loop.has_turn_left:
                    task.watch_messages(_Steered(response, task_group))
                async with response as events:
                    async for event in events if form is None else form.read(events):
                        effect = loop.feed(event)
                        if partial_answer is not None:
                            partial_answer.feed(event)
                        if effect is not None:
                            result = task.begin_tool_call(effect.call)
                            scope = task_group.cancel_scope
                            task_group.start_soon(
                                _finish_call, loop, effect.position, result, failures, scope
                            )
            except Exception as error:
                request_error = error if isinstance(error, ModelError) else None
                failures.append(error)
                task_group.cancel_scope.cancel()
            finally:
                task.watch_messages(None, loop.messages_due)
                reported = loop.turn_usage(request_error)
                report_request(task.report_usage, self.model, stream, reported)
        if failures:
            raise failures[0]


class _Steered(Struct, frozen=True):
    """Shows a running response what the user says meanwhile."""

    response: ResponseStream
    task_group: TaskGroup

    def __call__(self, waiting: tuple[UserContent, ...]) -> None:
        self.task_group.start_soon(self.response.steer, waiting)


async def _finish_call(
    loop: AgentLoop,
    position: int,
    result: Callable[[], Awaitable[ToolResult]],
    failures: list[Exception],
    cancel_scope: CancelScope,
) -> None:
    """Wait for the result of a tool call; a failure ends the turn."""
    try:
        loop.tool_finished(position, await result())
    except Exception as error:
        failures.append(error)
        cancel_scope.cancel()
