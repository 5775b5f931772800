"""One step in one process of Claude Code.

    process ──lines──> ClaudeCodeProtocol ──effects──> session ──events──> CodingAgentTurns
       ^──lines──────────────────────────────────────────┘

Claude Code asks its model again after its hook `PostToolBatch`: there a turn begins, so that suspension,
messages that arrived and budgets hold as between the requests of the library's own loop.
"""

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar

import anyio
from anyio.abc import TaskGroup

from ..agent.plain_messages import conversation_as_text
from ..catalog.models import find_model_facts
from ..catalog.request_cost import priced
from ..errors import ModelProtocolError
from ..kernel.reports import write_note
from ..kernel.tools import OUTCOME_TOOL_NAME
from ..line_process import GONE, LineProcess
from ..types.messages import ToolCall, ToolDefinition, ToolResult, UserContent
from ..types.model import ToolCallStarted
from ..types.outcomes import StepOutcome
from ..types.usage import Usage
from ..wire.error_kinds import FINAL_KINDS, kind_of
from ..wire.json_text import decode_json
from .claude_protocol import (
    NATIVE,
    TOOL_NAMES_NOTE,
    Answer,
    BatchFinished,
    ClaudeCodeProtocol,
    Effect,
    Finished,
    HelperResponded,
    NativeFinished,
    NativeRequested,
    PermissionAsked,
    RequestRefused,
    ResponseBegan,
    ResponseEnded,
    ResponsePart,
    ResultSeen,
    ToolRequested,
    ToolsKnown,
    admitted_hook_line,
    hook_line,
    initialize_line,
    interrupt_line,
    is_sent_in_prompt,
    is_sent_in_result,
    native_content,
    permission_line,
    plain_model_name,
    refused_hook_line,
    rewritten_hook_line,
    rewritten_output,
    shown_text,
    tool_result_line,
    tools_changed_line,
    tools_known_line,
    user_line,
)
from .errors import (
    CodingAgentCrashedError,
    CodingAgentError,
    CodingAgentProtocolError,
    CodingAgentRequestError,
)
from .process import StagedMedia, refuse_uploaded_files
from .turns import CodingAgentTurns, NativeCall

_TITLE = "Claude Code"
_MAX_LINE_BYTES = 64 * 1024 * 1024
_RESULT_SECONDS = 1.0
_LOG_SECONDS = 0.5
_EXIT_SECONDS = 2.0
_TOOLS_SECONDS = 30.0
_TOOLS_PAUSE_SECONDS = 0.01
_UNAUTHORIZED = (401, 403)
_ADVICE = {
    "error_max_budget_usd": "; raise the setting 'max_budget_usd', or give the step less to do",
}

_Failure = TypeVar("_Failure", bound=CodingAgentError)
_Handler: TypeAlias = Callable[[Any], Awaitable[None]]


class ClaudeCodeSession:
    """The conversation of one step.

    Args:
        turns: The turns of the step.
        process: A process that has not been written to.
        group: The task group of the step.
        media: The files of the step.
        provider: The provider of the model id, for usage.
        replaces_prompt: Whether the system prompt of the step replaces the one of Claude Code.
    """

    def __init__(
        self,
        turns: CodingAgentTurns,
        process: LineProcess,
        group: TaskGroup,
        *,
        media: StagedMedia,
        provider: str,
        replaces_prompt: bool,
    ) -> None:
        self._turns = turns
        self._process = process
        self._group = group
        self._media = media
        self._provider = provider
        self._replaces_prompt = replaces_prompt
        self._has_finished = False
        self._has_begun_calls = False
        self._is_response_open = False
        self._tools_known: frozenset[str] | None = frozenset()
        self._has_told_tools = anyio.Event()
        self._protocol = ClaudeCodeProtocol()
        self._lines, self._to_write = anyio.create_memory_object_stream[bytes](math.inf)
        self._log_has_ended = anyio.Event()
        self._reading = anyio.CancelScope()
        self._outcome: StepOutcome | None = None
        self._turn_has_ended = anyio.Event()
        self._natives: dict[str, NativeCall] = {}
        self._streamed: dict[str, anyio.Event] = {}  # by the id of a native call: set when it has begun
        self._early_results: dict[str, ResultSeen] = {}
        self._reported: dict[str, Usage] = {}
        self._reported_turns = 0
        self._offers = 0
        self._late_messages: tuple[UserContent, ...] = ()  # those that came while helpers worked
        self._handlers: dict[type[Any], _Handler] = {
            Answer: self._answer,
            BatchFinished: self._start(self._take_batch),
            Finished: self._finish,
            HelperResponded: self._count_helper,
            NativeFinished: self._start(self._finish_native),
            NativeRequested: self._start(self._decide_native),
            PermissionAsked: self._start(self._confirm_native),
            RequestRefused: self._refuse_request,
            ResponseBegan: self._begin_response,
            ResponseEnded: self._end_response,
            ResponsePart: self._take_part,
            ResultSeen: self._see_result,
            ToolRequested: self._start(self._answer_call),
            ToolsKnown: self._note_tools,
        }

    async def converse(self, started: Callable[[], Awaitable[None]]) -> StepOutcome | None:
        """Run the step.

        Args:
            started: Called in a task of its own once Claude Code has the prompt.

        Returns:
            The outcome; None when `CodingAgentTurns.failure` is the error of the step.

        Raises:
            CodingAgentError: Claude Code failed.
        """
        self._group.start_soon(self._write)
        self._group.start_soon(self._read_log)
        with self._lines, self._to_write:
            await self._begin()
            self._group.start_soon(self._run, started)
            with self._reading:
                await self._read()
            if self._outcome is None:
                raise await self._ended_too_early()
            return self._outcome

    async def _begin(self) -> None:
        task = self._turns.task
        refuse_uploaded_files(_TITLE, task.user_prompt)
        messages = await self._turns.begin()
        self._protocol.tools = self._turns.tools
        prompt = f"{task.system_prompt}\n\n{TOOL_NAMES_NOTE}"
        self._send(initialize_line(prompt, replaces=self._replaces_prompt))
        await self._send_message((*conversation_as_text(task.past), *task.user_prompt, *messages))

    async def _read(self) -> None:
        lines = self._process.lines(_MAX_LINE_BYTES)
        try:
            async for line in lines:
                for effect in self._receive(line):
                    await self._handlers[type(effect)](effect)
                if self._has_finished:
                    return
        except GONE:
            pass
        if lines.has_too_long:
            raise self._protocol_error(f"it wrote a line of more than {_MAX_LINE_BYTES} bytes")

    def _receive(self, line: bytes) -> list[Effect]:
        try:
            return self._protocol.receive(line)
        except ModelProtocolError as error:
            raise self._protocol_error(error.message) from None

    def _protocol_error(self, fault: str) -> CodingAgentProtocolError:
        advice = f"see that 'executable' names {_TITLE} and nothing that writes to its standard output"
        return self._failure(CodingAgentProtocolError, f"{fault}; {advice}")

    def _start(self, handler: _Handler) -> _Handler:
        """Return a handler that runs another one in a task of its own."""

        async def start(effect: object) -> None:
            self._group.start_soon(self._run, handler, effect)

        return start

    async def _run(self, handler: Callable[..., Awaitable[None]], *arguments: object) -> None:
        try:
            await handler(*arguments)
        except Exception as error:
            self._turns.fail(error)

    async def _answer(self, effect: Answer) -> None:
        self._send(effect.line)

    async def _note_tools(self, effect: ToolsKnown) -> None:
        self._tools_known = effect.names
        self._has_told_tools.set()

    # Responses

    async def _begin_response(self, effect: ResponseBegan) -> None:
        if self._is_response_open and self._has_begun_calls:
            raise self._failure(
                CodingAgentRequestError,
                "a response of its model broke off after it had called tools; run the step again",
                is_transient=True,
            )
        if not self._is_response_open and self._reported_turns:
            await self._turn_has_ended.wait()
            if not self._turns.is_open:  # it has asked again by itself, without the hook before
                await self._begin_turn()
        self._is_response_open, self._has_begun_calls = True, False

    async def _take_part(self, effect: ResponsePart) -> None:
        event = effect.event
        call = self._turns.feed(event)
        if isinstance(event, ToolCallStarted) and event.name.startswith(NATIVE):
            self._streamed[event.id] = anyio.Event()
        if call is None:
            return
        self._has_begun_calls = True
        if not call.name.startswith(NATIVE):
            self._turns.begin_call(call)
            return
        native = self._natives[call.id] = self._turns.begin_native_call(call)
        self._streamed[call.id].set()
        if (early := self._early_results.pop(call.id, None)) is not None:
            native.finish((early.text,), is_error=early.is_error)

    async def _end_response(self, effect: ResponseEnded) -> None:
        self._is_response_open = False
        for is_begun in self._streamed.values():  # those that were cut off will not begin
            is_begun.set()
        self._reported_turns += 1
        self._report(plain_model_name(effect.model), effect.usage)
        self._turn_has_ended = anyio.Event()
        self._group.start_soon(self._run, self._end_turn, self._turn_has_ended)

    async def _end_turn(self, has_ended: anyio.Event) -> None:
        self._outcome = await self._turns.end()
        if self._outcome is not None:  # the result is only awaited for its cost
            self._reading.deadline = anyio.current_time() + _RESULT_SECONDS
            self._send(interrupt_line())
        has_ended.set()

    async def _begin_next_turn(self, effect: BatchFinished) -> None:
        await self._turn_has_ended.wait()
        if self._outcome is None:
            await self._begin_turn()
            self._send(hook_line(effect.request_id))

    async def _take_batch(self, effect: BatchFinished) -> None:
        if not effect.is_of_helper:
            await self._begin_next_turn(effect)
            return
        self._late_messages += await self._turns.task.turn_boundary()  # suspension and budgets hold here too
        self._send(hook_line(effect.request_id))

    async def _count_helper(self, effect: HelperResponded) -> None:
        self._report(effect.model, effect.usage)

    async def _begin_turn(self, feedback: tuple[UserContent, ...] = ()) -> None:
        messages = await self._turns.begin()
        if self._turns.tools != self._protocol.tools:
            await self._offer(self._turns.tools)
        late, self._late_messages = self._late_messages, ()
        if content := (*feedback, *late, *messages):
            await self._send_message(content)

    async def _offer(self, tools: tuple[ToolDefinition, ...]) -> None:
        """Offer other tools, and wait until Claude Code knows them."""
        self._protocol.tools = tools
        self._offers += 1
        self._send(tools_changed_line(self._offers))
        wanted = {tool.name for tool in tools}
        with anyio.move_on_after(_TOOLS_SECONDS):
            while self._tools_known is not None and not wanted <= self._tools_known:
                self._has_told_tools = anyio.Event()
                self._send(tools_known_line())
                await self._has_told_tools.wait()
                await anyio.sleep(_TOOLS_PAUSE_SECONDS)

    async def _finish(self, effect: Finished) -> None:
        self._report_rest(effect)
        for native in self._natives.values():  # it will report no more of them
            native.finish(("it was not carried out to its end",), is_error=True)
        if self._reported_turns:
            await self._turn_has_ended.wait()
        if self._outcome is not None:
            self._has_finished = True
        elif effect.is_error:
            raise self._gave_up(effect)
        elif self._turns.is_open or not self._turns.feedback:
            raise self._failure(
                CodingAgentRequestError, f"it ended its turn without an answer: {effect.text or effect.kind}"
            )
        else:
            await self._begin_turn(self._turns.feedback)

    # Calls

    async def _answer_call(self, effect: ToolRequested) -> None:
        call = effect.call
        if self._turns.knows(call.id):
            result = await self._turns.result_of(call.id)
        elif call.name == OUTCOME_TOOL_NAME:
            reason = "only the agent that has the whole task can end it; return your result to it"
            result = ToolResult(call_id=call.id, name=call.name, content=(reason,), is_error=True)
        else:  # of an agent that the agent has started
            result = await self._turns.task.begin_tool_call(call)()
        content = await self._media.fit(result.content, is_sent_in_result)
        self._send(tool_result_line(effect.request_id, effect.message_id, replace(result, content=content)))

    async def _native(self, call: ToolCall) -> NativeCall:
        """The native call that Claude Code asks about, which may be before its block has ended."""
        if (is_begun := self._streamed.get(call.id)) is not None:
            await is_begun.wait()
        if call.id not in self._natives:  # of an agent that the agent has started
            self._natives[call.id] = self._turns.begin_native_call(call)
        return self._natives[call.id]

    async def _decide_native(self, effect: NativeRequested) -> None:
        native = await self._native(effect.call)
        await native.is_decided.wait()
        if (refusal := _refusal_of(native)) is not None:
            self._send(refused_hook_line(effect.request_id, refusal))
        else:
            self._send(admitted_hook_line(effect.request_id, native.changed_arguments))

    async def _confirm_native(self, effect: PermissionAsked) -> None:
        """Answer a question of Claude Code's own permission mode: the call has passed the step's policies."""
        arguments, refusal = decode_json(effect.call.arguments), None
        if effect.call.name.startswith(NATIVE):
            native = await self._native(effect.call)
            await native.is_decided.wait()
            refusal = _refusal_of(native)
            if native.changed_arguments is not None:
                arguments = native.changed_arguments
        self._send(permission_line(effect.request_id, arguments=arguments, refusal=refusal))

    async def _finish_native(self, effect: NativeFinished) -> None:
        native = self._natives.get(effect.call_id)
        if native is None:
            self._send(hook_line(effect.request_id))
            return
        content = native_content(effect.output)
        native.finish(content, is_error=effect.is_error)
        await native.has_ended.wait()
        assert native.shown is not None
        if native.shown.content == content:
            self._send(hook_line(effect.request_id))
            return
        output = None if effect.is_error else rewritten_output(effect.output, native.shown.content)
        if output is None:
            raise self._failure(
                CodingAgentError,
                f"a hook changed the result of {native.call.name}, which cannot be replaced, as results of "
                "this kind; let the hook refuse the call before it is made, or leave the result as it is",
            )
        self._send(rewritten_hook_line(effect.request_id, output))

    async def _see_result(self, effect: ResultSeen) -> None:
        native = self._natives.get(effect.call_id)
        if native is not None:  # one that was not carried out has no other report
            native.finish((effect.text,), is_error=effect.is_error)
        elif effect.call_id in self._streamed:
            self._early_results[effect.call_id] = effect

    # Usage and failures

    def _report(self, model: str, usage: Usage) -> None:
        price = find_model_facts(f"anthropic:{model}").capabilities.price
        usage = priced(usage, price)
        if price is None:
            usage = replace(usage, unpriced_requests=1)
        self._reported[model] = self._reported.get(model, Usage()) + usage
        self._turns.task.report_usage(f"{self._provider}:{model}", usage)

    def _report_rest(self, effect: Finished) -> None:
        """Report what was used besides the streamed responses, and the cost as Claude Code counts it."""
        for model, total in effect.usages.items():
            reported = self._reported.get(model, Usage())
            rest = Usage(
                input_tokens=max(0, total.input_tokens - reported.input_tokens),
                output_tokens=max(0, total.output_tokens - reported.output_tokens),
                cache_read_tokens=max(0, total.cache_read_tokens - reported.cache_read_tokens),
                cache_write_tokens=max(0, total.cache_write_tokens - reported.cache_write_tokens),
                cost=max(Decimal(0), total.cost - reported.cost),
            ).credible()
            if rest != Usage():
                self._reported[model] = reported + rest
                self._turns.task.report_usage(f"{self._provider}:{model}", rest)

    async def _refuse_request(self, effect: RequestRefused) -> None:
        if effect.status in _UNAUTHORIZED:  # Claude Code would try ten times, for minutes
            kind = kind_of(None, "", status=effect.status)
            raise self._failure(
                CodingAgentRequestError.in_kind(kind),
                f"the endpoint of its model refused it with the HTTP status {effect.status} "
                f"({effect.error}); log in with 'claude' or set the setting 'api_key'",
                status=effect.status,
            )
        write_note(f"{_TITLE}: a request failed ({effect.status or effect.error}) and is sent again")

    def _gave_up(self, effect: Finished) -> CodingAgentRequestError:
        advice, status = _ADVICE.get(effect.kind, ""), effect.status
        is_refused = effect.kind == "success"  # a request failed; without a status, its connection did
        how = "a request failed" if is_refused else effect.kind
        kind = kind_of(None, effect.text or "", status=status) if is_refused else None
        is_transient = is_refused if status is None else status == 429 or status >= 500
        return self._failure(
            CodingAgentRequestError.in_kind(kind),
            f"it gave up ({how}): {effect.text or 'no reason given'}{advice}",
            status=status,
            is_transient=is_transient and kind not in FINAL_KINDS,
        )

    async def _ended_too_early(self) -> CodingAgentCrashedError:
        await self._process.wait(_EXIT_SECONDS)
        with anyio.move_on_after(_LOG_SECONDS):
            await self._log_has_ended.wait()
        code = self._process.returncode
        how = "closed its output" if code is None else f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was ended by signal {-code}"
        return self._failure(
            CodingAgentCrashedError,
            f"it {how} before the step had a result; nothing was committed. Run the step again, and "
            "see the end of its standard error if that happens again",
            exit_code=code,
        )

    def _failure(self, kind: type[_Failure], message: str, **more: Any) -> _Failure:
        shown = self._process.redacted(f"{_TITLE}: {message}")
        return kind(shown, agent=_TITLE, last_lines=[*self._process.last_lines], **more)

    # Lines

    async def _send_message(self, content: tuple[UserContent, ...]) -> None:
        self._send(user_line(await self._media.fit(content, is_sent_in_prompt)))

    def _send(self, line: bytes) -> None:
        with suppress(anyio.ClosedResourceError):  # the step has ended
            self._lines.send_nowait(line)

    async def _write(self) -> None:
        with suppress(*GONE):  # it has ended, which the end of its output tells
            async for line in self._to_write:
                await self._process.send(line)

    async def _read_log(self) -> None:
        await self._process.read_log()
        self._log_has_ended.set()


def _refusal_of(native: NativeCall) -> str | None:
    """The reason why a call is refused, as its model reads it; None if it is allowed."""
    if native.allowed is not None:
        return None
    assert native.shown is not None
    return shown_text([item for item in native.shown.content if isinstance(item, str)])
