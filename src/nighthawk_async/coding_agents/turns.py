"""The turns of a step with a coding agent: its responses go through the same loop as those of a model.

    begin() -> feed(event) … -> begin_call / begin_native_call … -> end() -> an outcome, or the next turn

The agent asks its model by itself. Its driver turns what it streams into `ModelEvent`s, so that limits,
corrections, refusals, messages that arrive and transcripts are those of every step. No I/O with the agent.
"""

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from ..agent.loop import AgentLoop, ProposedOutcome, is_final, report_refusals
from ..agent.model_call import find_partial_answer
from ..agent.request_node import RequestNode
from ..agent.task import AgentTask
from ..kernel.environment import find_environment
from ..kernel.tool_sets import valid_tool_name
from ..observation import find_node_writer
from ..types.messages import Message, ToolCall, ToolDefinition, ToolResult, UserContent, UserMessage
from ..types.model import ModelEvent, ModelRequest, ToolCallCompleted, ToolCallStarted
from ..types.outcomes import StepOutcome
from ..types.usage import Usage
from ..wire.json_text import decode_json

_Result = Callable[[], Awaitable[ToolResult]]


class NativeCall:
    """A call that the agent carries out by itself, once it is allowed.

    Args:
        call: The call, as the agent's model made it.

    Attributes:
        is_decided: Set when it is known whether it is allowed.
        allowed: The call to carry out, maybe with other arguments; None when it was refused.
        has_ended: Set when its result is known.
        shown: The result that the agent's model is to see, when it has ended.
    """

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.is_decided = anyio.Event()
        self.allowed: ToolCall | None = None
        self.has_ended = anyio.Event()
        self.shown: ToolResult | None = None
        self._is_carried_out = anyio.Event()
        self._content: tuple[UserContent, ...] = ()
        self._is_error = False

    @property
    def changed_arguments(self) -> object | None:
        """Its arguments, where they were changed before it was allowed; None otherwise."""
        if self.allowed is None or self.allowed.arguments == self.call.arguments:
            return None
        return decode_json(self.allowed.arguments)

    def finish(self, content: tuple[UserContent, ...], *, is_error: bool) -> None:
        """Report that the agent has carried it out; later reports do not count.

        Args:
            content: The result.
            is_error: Whether it failed.
        """
        if not self._is_carried_out.is_set():
            self._content, self._is_error = content, is_error
            self._is_carried_out.set()

    async def carry_out(self, call: ToolCall) -> ToolResult:
        """Let the agent carry it out, and wait for its result.

        Args:
            call: The call, as it is allowed.
        """
        self.allowed = call
        self.is_decided.set()
        await self._is_carried_out.wait()
        return ToolResult(call_id=call.id, name=call.name, content=self._content, is_error=self._is_error)


class CodingAgentTurns:
    """The turns of one step.

    Args:
        task: The step.
        model_name: The model id, as observers see it.
        group: The task group of the driver; the first error of a call cancels it.

    Attributes:
        failure: The first error of a call; the driver raises it, bare, when the group has ended.
        is_open: Whether a turn has begun and not ended.
        feedback: The message with which the agent is sent on, after a response without calls.
        tools: The tools that the agent is offered in the current turn, that of the outcome included.
    """

    def __init__(self, task: AgentTask, model_name: str, group: TaskGroup) -> None:
        self.task = task
        self.failure: Exception | None = None
        self.is_open = False
        self.feedback: tuple[UserContent, ...] = ()
        self.tools: tuple[ToolDefinition, ...] = ()
        self._loop = AgentLoop(task)
        self._model_name = model_name
        self._group = group
        self._node: RequestNode | None = None
        self._partial_answer = find_partial_answer(find_environment())
        self._pending: dict[str, anyio.Event] = {}
        self._results: dict[str, ToolResult] = {}
        self._positions: dict[str, int] = {}

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole conversation so far."""
        return self._loop.conversation

    async def begin(self) -> tuple[UserContent, ...]:
        """Begin a turn, before the agent asks its model: wait while the step is suspended, hold the budgets.

        Returns:
            The messages that arrived for the agent; send them to it.

        Raises:
            StepLimitError: The step has had as many turns as it may.
        """
        messages = await self.task.turn_boundary()
        request = self._loop.next_request(messages)
        self.tools = request.tools
        self._begin_node(request)
        self._partial_answer = find_partial_answer(find_environment())
        self._pending.clear()
        self._positions.clear()
        self._results.clear()
        self.feedback = ()
        self.is_open = True
        return messages

    def feed(self, event: ModelEvent) -> ToolCall | None:
        """Take a part of the response.

        Args:
            event: The part. Tools of the agent's own have names of the form `Agent.Tool`.

        Returns:
            A call to begin now; None for none, also for calls that are not carried out.

        Raises:
            StepLimitError: The step has made as many tool calls as it may.
        """
        if self._node is not None:
            self._node.note(event)
        if self._partial_answer is not None:
            self._partial_answer.feed(event)
        if isinstance(event, ToolCallStarted):
            self._pending[event.id] = anyio.Event()
        if not isinstance(event, ToolCallCompleted):
            self._loop.feed(event)
            return None
        call = event.call
        self._pending.setdefault(call.id, anyio.Event())
        effect = self._loop.feed(_with_valid_name(event))
        if effect is None:
            return None
        self._positions[call.id] = effect.position
        return call

    def begin_call(self, call: ToolCall) -> None:
        """Begin a call of a tool of the step. In the order of calls.

        Args:
            call: The call, as `feed` returned it.
        """
        self._group.start_soon(self._finish, call, self.task.begin_tool_call(call))

    def begin_native_call(self, call: ToolCall) -> "NativeCall":
        """Begin a call of a tool of the agent's own; see `AgentTask.begin_native_call`.

        Args:
            call: The call, as `feed` returned it, or one that is not part of the response, as of an agent
                that the agent started.
        """
        native = NativeCall(call)
        result = self.task.begin_native_call(call, native.carry_out)
        self._group.start_soon(self._finish_native, call, native, result)
        return native

    def knows(self, call_id: str) -> bool:
        """Whether a call is one of the current turn.

        Args:
            call_id: The id of the call.
        """
        return call_id in self._pending

    async def result_of(self, call_id: str) -> ToolResult:
        """Wait for the result of a call of the current turn; for that of an outcome, its refusal.

        Args:
            call_id: The id of the call.
        """
        await self._pending[call_id].wait()
        return self._results[call_id]

    async def end(self) -> StepOutcome | None:
        """End the response, once all its parts have been fed: wait for its calls, and take its answer.

        Returns:
            The outcome of the step; None if the agent has to go on.

        Raises:
            ExecutionError: There is no acceptable outcome.
        """
        for call_id in self._positions:
            await self._pending[call_id].wait()
        self.is_open = False
        self._end_node()
        end = self._loop.end_turn()
        if isinstance(end, ProposedOutcome) and await is_final(self.task, self._loop, end.answer):
            return end.answer.outcome
        report_refusals(self._loop)
        for result in self._loop.turn_results:
            self._keep(result)
        for call_id in self._pending.keys() - self._results.keys():
            cut_off = "not carried out: the response was cut off"
            self._keep(ToolResult(call_id=call_id, name="", content=(cut_off,), is_error=True))
        last = self._loop.conversation[-1]
        if isinstance(last, UserMessage):
            self.feedback = last.content
        return None

    def close(self, error: BaseException | None) -> None:
        """End what is open, and keep the conversation for transcripts, however the step ended.

        Args:
            error: The error or cancellation that ended it; None if it succeeded.
        """
        self._end_node(error)
        self.task.keep_messages(self._loop.conversation)

    async def _finish(self, call: ToolCall, result: _Result) -> None:
        try:
            finished = await result()
        except Exception as error:
            self.fail(error)
            return
        self._loop.tool_finished(self._positions[call.id], _as_shown(finished))
        self._keep(finished)

    async def _finish_native(self, call: ToolCall, native: "NativeCall", result: _Result) -> None:
        try:
            native.shown = finished = await result()
        except Exception as error:
            self.fail(error)
            return
        if call.id in self._positions:
            self._loop.tool_finished(self._positions[call.id], _as_shown(finished))
            self._keep(finished)
        native.is_decided.set()
        native.has_ended.set()

    def fail(self, error: Exception) -> None:
        """End the step with an error, unless it ends with an earlier one.

        Args:
            error: The error.
        """
        self.failure = self.failure or error
        self._group.cancel_scope.cancel()

    def _keep(self, result: ToolResult) -> None:
        if result.call_id in self._pending:
            self._results.setdefault(result.call_id, result)
            self._pending[result.call_id].set()

    def _begin_node(self, request: ModelRequest) -> None:
        parent = find_node_writer()
        if parent is not None:
            environment = find_environment()
            step = None if environment is None else environment.step
            self._node = RequestNode(self._model_name, request, parent=parent, step=step)

    def _end_node(self, error: BaseException | None = None) -> None:
        node, self._node = self._node, None
        if node is not None:  # the usage is that of the step: agents report it for more than one response
            failure = error if isinstance(error, Exception) else None
            node.end(failure, error, Usage())


def _with_valid_name(event: ToolCallCompleted) -> ToolCallCompleted:
    """The event with a name that every provider takes: conversations can be continued by another model."""
    call = event.call
    renamed = ToolCall(id=call.id, name=valid_tool_name(call.name), arguments=call.arguments)
    return ToolCallCompleted(index=event.index, call=renamed)


def _as_shown(result: ToolResult) -> ToolResult:
    name = valid_tool_name(result.name)
    return ToolResult(call_id=result.call_id, name=name, content=result.content, is_error=result.is_error)
