"""One step in a thread of Codex.

Codex asks its model by itself, as soon as it has the results of all calls. So the results of a response are
held back until the next turn of the step has begun:

    calls begin in order → all finished → outcome? or next turn: turn/steer → results → next response

Where Codex's own tools or a script of its model take part, a result that is held back could be what they wait
for. Then the boundary before the next turn comes first, and results follow as soon as they are there.
"""

from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias, cast

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct

from ..actors import BareTaskGroup
from ..agent.model_call import unreported_usage
from ..agent.plain_messages import conversation_as_text
from ..agent.task import AgentTask
from ..catalog.coding_agents import CODING_AGENTS
from ..catalog.models import find_model_facts
from ..catalog.request_cost import priced
from ..configuration import ModelId
from ..errors import ConfigurationError, NighthawkError
from ..kernel.reports import write_note, write_retry
from ..kernel.tools import FIND_TOOL_NAME, OUTCOME_TOOL_NAME
from ..types.messages import ProviderContent, ToolCall, ToolResult, UserContent
from ..types.model import (
    ModelPrice,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallCompleted,
    UsageReported,
)
from ..types.outcomes import StepOutcome
from ..types.usage import Usage
from ..wire.error_kinds import FINAL_KINDS, kind_of
from .codex_calls import FOUND_TOOL_CALLER, Boundary, CallOrder, NativeRun, called_tool, native_name
from .codex_host import CodexHost, needs_gate, thread_parameters
from .codex_protocol import (
    ApprovalRequest,
    CallAnnounced,
    CallAnswered,
    NativeItem,
    NativeOutput,
    ResponseCompleted,
    Retry,
    ServerToolRequest,
    TextAdded,
    ToolCallRequest,
    TurnCompleted,
    TurnFailure,
    confirmation_response,
    decision_response,
    input_items,
    result_items,
    text_of_content,
    tool_response,
)
from .codex_server import CodexServer, GateAnswer, Inbox, InboxMessage, NativeQuestion, PendingCall
from .errors import CodingAgentProtocolError, CodingAgentRequestError
from .settings import CodexSettings
from .turns import CodingAgentTurns

_FACTS = CODING_AGENTS["codex"]
_NAME = _FACTS.title
_SCRIPT_TOOL = "exec"
_TRANSIENT = frozenset(
    (
        "rateLimitExceeded",
        "serverOverloaded",
        "flexUnavailable",
        "internalServerError",
        "httpConnectionFailed",
        "responseStreamConnectionFailed",
        "responseStreamDisconnected",
        "responseTooManyFailedAttempts",
    )
)
_REQUEST_SECONDS = 5.0
_ALONE = "not accepted: it came together with calls of other tools; end the block in a response of its own"


class _Finished(Struct, frozen=True, eq=False):
    """A call of one of our tools has its result."""

    request: ToolCallRequest
    result: ToolResult


class _Overdue(Struct, frozen=True):
    """Codex has had enough time to request the calls of a response."""

    response: int


_Message: TypeAlias = InboxMessage | _Finished | _Overdue


class CodexStep:
    """One step.

    Args:
        task: The step.
        model: The model id.
        settings: The settings.
        directory: The working directory.
    """

    def __init__(self, task: AgentTask, model: ModelId, settings: CodexSettings, directory: str) -> None:
        self._cross = task.turn_boundary
        self._boundary = Boundary(self._cross_turn_boundary)
        self._task = replace(task, turn_boundary=self._boundary.cross)
        self._model = model
        self._model_name = str(model)
        self._settings = settings
        self._directory = directory
        self._order: CallOrder[ToolCallRequest] = CallOrder()
        self._tools: frozenset[str] = frozenset()
        self._calls: list[ToolCallRequest] = []
        self._running = 0
        self._natives: set[str] = set()
        self._scripts: set[str] = set()
        self._runs: dict[str, NativeRun] = {}
        self._has_calls = False
        self._responses = 0
        self._thread: PendingCall | None = None
        self._thread_id = ""
        self._turn: PendingCall | None = None
        self._turn_id = ""
        self._is_asking = False
        self._cost = Decimal(0)
        self._server: CodexServer
        self._inbox: Inbox
        self._turns: CodingAgentTurns
        self._group: TaskGroup

    async def run(self, host: CodexHost) -> StepOutcome:
        """Run the step.

        Args:
            host: The host of the process.

        Raises:
            CodingAgentError: Codex failed.
            ExecutionError: There is no acceptable outcome.
        """
        outcome: StepOutcome | None = None
        async with BareTaskGroup() as self._group:
            turns = self._turns = CodingAgentTurns(self._task, self._model_name, self._group)
            error: BaseException | None = None
            try:
                messages = await turns.begin()
                self._server = await host.server()
                await self._open_thread()
                outcome = await self._converse(
                    [*conversation_as_text(self._task.past), *self._task.user_prompt, *messages]
                )
            except BaseException as raised:
                error = raised
                raise
            finally:
                turns.close(turns.failure or error)
                await self._leave(is_urgent=isinstance(error, anyio.get_cancelled_exc_class()))
                del error
            self._group.cancel_scope.cancel()
        if turns.failure is not None:
            raise turns.failure
        assert outcome is not None
        return outcome

    async def _open_thread(self) -> None:
        server, has_gate, tools = self._server, needs_gate(self._settings), self._turns.tools
        if any(tool.name == FIND_TOOL_NAME for tool in tools):
            tools = (*tools, FOUND_TOOL_CALLER)
        self._tools = frozenset(tool.name for tool in tools)
        parameters = thread_parameters(
            self._model,
            self._settings,
            directory=self._directory,
            instructions=self._task.system_prompt,
            tools=tools,
            gate=server.gate if has_gate else None,
        )
        self._thread = server.begin_thread(parameters)
        started = await server.result(self._thread)
        self._thread_id = started["thread"]["id"]
        self._model_name = f"{self._model.provider}:{started.get('model') or self._model.name}"
        if self._settings.max_budget_usd is not None and self._price is None:
            raise ConfigurationError(
                f"{self._model_name}: the setting 'max_budget_usd' cannot be held, because the price of the "
                "model is not known; leave it out, and limit tokens with nighthawk_async.budget"
            )
        self._inbox = server.open_inbox(self._thread_id)
        if has_gate:
            await server.check_gate(self._thread_id)

    async def _converse(self, content: list[UserContent]) -> StepOutcome:
        while True:
            await self._start_turn(content)
            while self._turn is not None:
                outcome = await self._take(await self._next())
                if outcome is not None:
                    return outcome
            feedback = self._turns.feedback
            content = [*feedback, *await self._begin_turn()]

    async def _start_turn(self, content: list[UserContent]) -> None:
        self._is_asking = True
        parameters: dict[str, Any] = {"threadId": self._thread_id, "input": input_items(content)}
        self._turn = self._server.begin_call("turn/start", parameters)
        self._turn_id = (await self._server.result(self._turn))["turn"]["id"]

    async def _next(self) -> _Message:
        message = await self._inbox.get()
        if message is None:
            raise await self._server.failure()
        return cast("_Message", message)

    async def _take(self, message: _Message) -> StepOutcome | None:
        """Process a message; return the outcome when the step has one."""
        match message:
            case TextAdded():
                kind = TextDelta if message.kind == "text" else ReasoningDelta
                self._turns.feed(kind(text=message.text))
            case CallAnnounced():
                return await self._take_announcement(message)
            case ToolCallRequest():
                return await self._begin(self._order.requested(message.call_id, message))
            case CallAnswered():
                return await self._take_answer(message.call_id)
            case ResponseCompleted():
                self._take_usage(message)
                begun = self._order.response_completed()
                if self._order.is_waiting:
                    self._group.start_soon(self._lose_patience)
                return await self._begin(begun)
            case _Overdue() if message.response == self._responses:
                outcome = await self._begin(self._order.give_up())
                return outcome or await self._end_quiet_turn()
            case _Finished():
                return await self._finish(message)
            case NativeQuestion():
                self._ask(message)
            case NativeItem() | NativeOutput():
                if (run := self._runs.get(message.call_id)) is not None:
                    run.note(message)
            case ApprovalRequest():  # the policy is "never", so it has none to make
                self._server.send(decision_response(message.id, is_allowed=False))
            case ServerToolRequest():
                self._confirm(message)
            case Retry():
                write_retry(f"{_NAME}: {message.failure.message}")
            case TurnCompleted():
                return await self._end_thread_turn(message)
            case _:
                pass
        return None

    def _take_usage(self, message: ResponseCompleted) -> None:
        self._is_asking = False
        self._responses += 1
        self._report(message.usage or unreported_usage())

    @property
    def _price(self) -> ModelPrice | None:
        name = self._model_name.partition(":")[2]
        return find_model_facts(f"openai-responses:{name}").capabilities.price

    def _report(self, usage: Usage) -> None:
        price = self._price
        usage = replace(usage, unpriced_requests=usage.requests) if price is None else priced(usage, price)
        self._cost += usage.cost
        self._turns.feed(UsageReported(usage=usage))
        self._task.report_usage(self._model_name, usage)

    async def _take_announcement(self, message: CallAnnounced) -> StepOutcome | None:
        if message.name in self._tools and message.is_readable:
            return await self._begin(self._order.announced(message.call_id))
        self._order.response_began()
        self._natives.add(message.call_id)
        if message.name == _SCRIPT_TOOL:
            self._scripts.add(message.call_id)
        return None

    async def _take_answer(self, call_id: str) -> StepOutcome | None:
        """Process that a call has the result that the model gets."""
        outcome = await self._begin(self._order.answered(call_id))
        if outcome is not None:
            return outcome
        if (run := self._runs.get(call_id)) is not None:
            run.end()
        if call_id in self._scripts:
            self._end_runs()  # a call that Codex refused by itself has no other end
        if call_id in self._natives:
            self._natives.discard(call_id)
            self._scripts.discard(call_id)
            return await self._end_quiet_turn()
        return None

    async def _end_quiet_turn(self) -> StepOutcome | None:
        """End a turn whose calls have all got their results without the library."""
        if self._natives or self._running or self._calls or not self._order.is_settled:
            return None
        return await self._end_turn([])

    async def _lose_patience(self) -> None:
        """Have Codex's requests of calls that the model made come in time."""
        response = self._responses
        await anyio.sleep(_REQUEST_SECONDS)
        self._inbox.put(_Overdue(response))

    async def _begin(self, requests: list[ToolCallRequest]) -> StepOutcome | None:
        """Begin calls of our tools."""
        for request in requests:
            if request.tool == OUTCOME_TOOL_NAME and self._natives - self._scripts:
                self._send_text(request, _ALONE)  # they may wait for it
                continue
            begun = self._feed_call(called_tool(request))
            self._calls.append(request)
            if begun is not None:
                self._running += 1
                self._turns.begin_call(begun)
                self._group.start_soon(self._await_result, request)
        return await self._settle()

    def _feed_call(self, call: ToolCall) -> ToolCall | None:
        self._has_calls = True
        return self._turns.feed(ToolCallCompleted(index=len(self._calls), call=call))

    async def _await_result(self, request: ToolCallRequest) -> None:
        self._inbox.put(_Finished(request, await self._turns.result_of(request.call_id)))

    async def _finish(self, finished: _Finished) -> StepOutcome | None:
        self._running -= 1
        if self._natives:
            await self._cross_boundary()
            self._calls.remove(finished.request)
            self._send_result(finished.request, finished.result)
        return await self._settle()

    async def _settle(self) -> StepOutcome | None:
        """End the turn once all calls of the response have finished."""
        if self._running or not self._calls or not self._order.is_settled:
            return None
        if self._natives and not any(each.tool == OUTCOME_TOOL_NAME for each in self._calls):
            return None
        return await self._end_turn(self._calls)

    async def _end_turn(self, requests: list[ToolCallRequest]) -> StepOutcome | None:
        """End a turn: take the outcome, or begin the next turn and send the results."""
        nothing = None if self._has_calls else ProviderContent(protocol="codex", items=())
        reason = "tool_calls" if self._has_calls else "pause"  # by tools of Codex's own alone
        self._turns.feed(ResponseFinished(reason=reason, provider_content=nothing))
        if (outcome := await self._turns.end()) is not None:
            return outcome
        results = [await self._turns.result_of(each.call_id) for each in requests]
        await self._cross_boundary()
        self._calls = []
        await self._begin_turn()
        self._is_asking = True
        for request, result in zip(requests, results, strict=True):
            self._send_result(request, result)
        return None

    async def _begin_turn(self) -> tuple[UserContent, ...]:
        self._has_calls = False
        return await self._turns.begin()

    async def _cross_turn_boundary(self) -> tuple[UserContent, ...]:
        limit = self._settings.max_budget_usd
        if limit is not None and self._cost >= Decimal(str(limit)):
            raise CodingAgentRequestError(
                f"{_NAME} has cost ${self._cost} in this step, and may cost ${limit:g}; raise the setting "
                "'max_budget_usd', or give the step less to do",
                agent=_NAME,
            )
        return await self._cross()

    async def _cross_boundary(self) -> None:
        """Wait until the model may be asked again, and pass messages for it on; once for each turn."""
        messages = await self._boundary.cross_early()
        if messages and self._turn_id:
            parameters = {
                "threadId": self._thread_id,
                "expectedTurnId": self._turn_id,
                "input": input_items(messages),
            }
            await self._server.call("turn/steer", parameters)

    def _send_text(self, request: ToolCallRequest, text: str) -> None:
        write_note(text)
        result = ToolResult(call_id=request.call_id, name=request.tool, content=(text,), is_error=True)
        self._send_result(request, result)

    def _send_result(self, request: ToolCallRequest, result: ToolResult) -> None:
        items = result_items(result.content)
        self._server.send(tool_response(request.id, items, is_error=result.is_error))

    def _ask(self, asked: NativeQuestion) -> None:
        """Have a call of a tool of Codex's own checked, or its end noted."""
        question = asked.question
        name = native_name(question.tool_name)
        if question.tool_name in self._tools:
            asked.answer(GateAnswer())  # it is checked when it is called
            return
        if name not in self._settings.native_tools:
            write_note(f"{_NAME} wanted to use its tool {name}, which is not among native_tools")
            asked.answer(GateAnswer(refusal=f"the tool {name} is not among those that this step may use"))
        elif question.has_ended:
            self._group.start_soon(self._end_native, asked)
        else:
            arguments = msgspec.json.encode(question.tool_input or {}).decode()
            call = ToolCall(
                id=question.tool_use_id, name=f"{_FACTS.permission_name}.{name}", arguments=arguments
            )
            begun = self._feed_call(call)
            if begun is None:
                asked.answer(GateAnswer(refusal="not carried out: it came after the end of the block"))
                return
            run = self._runs[call.id] = NativeRun(self._turns.begin_native_call(begun))
            self._group.start_soon(self._decide, asked, call, run)

    def _confirm(self, message: ServerToolRequest) -> None:
        """Confirm a call of a tool of an MCP server that the gate has let through."""
        run = self._runs.get(message.call_id)
        is_allowed = run is not None and run.native.allowed is not None
        self._server.send(confirmation_response(message.id, message.question_id, is_allowed=is_allowed))

    async def _decide(self, asked: NativeQuestion, call: ToolCall, run: NativeRun) -> None:
        native = run.native
        await native.is_decided.wait()
        if (allowed := native.allowed) is None:
            assert native.shown is not None
            asked.answer(GateAnswer(refusal=text_of_content(native.shown.content)))
        elif allowed.arguments != call.arguments:
            arguments = msgspec.json.decode(allowed.arguments, type=dict[str, Any])
            asked.answer(GateAnswer(arguments=arguments))
        else:
            asked.answer(GateAnswer())

    async def _end_native(self, asked: NativeQuestion) -> None:
        """Process that a tool of Codex's own has run: its model is asked when the gate has answered."""
        run = self._runs.get(asked.question.tool_use_id)
        if run is not None:
            run.end(asked.question.tool_response)
            await run.native.has_ended.wait()
        try:
            await self._cross_boundary()
        except Exception as error:
            self._turns.fail(error)
            return
        asked.answer(GateAnswer(shown=None if run is None else run.rewritten))

    async def _end_thread_turn(self, completed: TurnCompleted) -> StepOutcome | None:
        """Process the end of Codex's turn: its model wrote a text instead of calls, or something failed."""
        self._turn, self._turn_id = None, ""
        self._order.turn_ended()
        self._end_runs()
        if completed.failure is not None or completed.status != "completed":
            raise self._failed(completed)
        if self._has_calls:
            raise CodingAgentProtocolError(
                f"{_NAME} ended its turn before its calls had results", agent=_NAME
            )
        self._turns.feed(ResponseFinished(reason="stop"))
        return await self._turns.end()

    def _end_runs(self) -> None:
        for run in self._runs.values():
            run.end()

    def _failed(self, completed: TurnCompleted) -> CodingAgentRequestError:
        failure = completed.failure or TurnFailure(message=f"its turn ended as {completed.status!r}")
        kind = kind_of({"code": failure.kind}, failure.message, status=failure.http_status)
        return CodingAgentRequestError.in_kind(kind)(
            f"{_NAME} gave up: {failure.message}",
            agent=_NAME,
            status=failure.http_status,
            is_transient=failure.kind in _TRANSIENT and kind not in FINAL_KINDS,
        )

    async def _leave(self, *, is_urgent: bool) -> None:
        """Leave the thread: its turn is interrupted, and what it runs is ended."""
        if self._thread is not None:
            self._server.close_inbox(self._thread_id)
            await self._server.leave(self._thread, self._turn, is_urgent=is_urgent)
        if self._is_asking:
            with suppress(NighthawkError):  # the error of the step says more than that of a budget
                self._report(unreported_usage())
