"""The model loop of one step as a state machine without I/O, and whether a proposed answer ends the step.

    next_request() -> feed(model event) -> effects … -> tool_finished(…) … -> end_turn() -> next action

One turn is one model request. Tool calls are effects that may be executed at once, while the response
continues. `nh_outcome` is not executed: the turn ends with a proposal, which the driver has validated, and
answers with `refuse` if it is invalid.
"""

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..errors import (
    AnnotationError,
    CorrectionCause,
    ErrorKind,
    ExecutionError,
    ModelError,
    NighthawkError,
    StepLimitError,
    StepRejectedError,
    VerificationError,
)
from ..kernel.conclude import OutcomeRefusedError, done_note
from ..kernel.reports import write_note
from ..kernel.tool_calls import ToolError, excess_of, project_error
from ..kernel.tools import OUTCOME_TOOL_NAME, PROVIDED_TOOL_NAMES
from ..lazy_exports import LazyModule
from ..types.messages import (
    AssistantMessage,
    BinaryContent,
    Citation,
    FileUrl,
    Message,
    ProviderContent,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
    UserContent,
    UserMessage,
)
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
from ..types.model_output import CitationAdded, MediaCompleted, Refusal
from ..types.outcomes import RaiseStepOutcome, Reading, StepOutcome
from ..types.usage import Usage
from .answer_form import outcome_tool, wrapped_schema
from .model_call import unreported_usage
from .outcome_codec import Answer, has_answer, parse_answer
from .refusals import (
    ANSWER_AGAIN,
    CONTEXT_IS_FULL,
    CUT_OFF,
    cause_of,
    context_error,
    count_correction,
    count_readings,
    find_host_error,
    quote,
    refusal_error,
    refusal_text,
)
from .task import AgentTask

if TYPE_CHECKING:
    from . import made_media, readings as lenient
else:
    lenient = LazyModule(f"{__package__}.readings")  # most calls have the name of a tool
    made_media = LazyModule(f"{__package__}.made_media")  # few blocks take media

_END_AGAIN = "End the block again."


class RunToolCall(Struct, frozen=True, kw_only=True):
    """Execute a tool call now, and pass its result to `tool_finished` with this position."""

    position: int
    call: ToolCall


class NextTurn(Struct, frozen=True, kw_only=True):
    """Ask the model again."""


class ProposedOutcome(Struct, frozen=True, kw_only=True):
    """Have this answer validated: first the values of write bindings, then the outcome.

    Args:
        answer: The answer.
    """

    answer: Answer


TurnEnd: TypeAlias = NextTurn | ProposedOutcome


class _Turn(Struct, kw_only=True):
    """The content of one response so far."""

    text: list[str] = []
    reasoning: list[str] = []
    calls: list[ToolCall] = []
    media: list[BinaryContent | FileUrl] = []
    citations: list[Citation] = []
    results: dict[int, ToolResult] = {}
    outcome_position: int | None = None
    readings: list[Reading] = []
    finish_reason: FinishReason | None = None
    provider_reason: str | None = None
    refusal: Refusal | None = None
    provider_content: ProviderContent | None = None
    steered: int | None = None
    usage: Usage | None = None
    has_ended: bool = False

    @property
    def message(self) -> AssistantMessage:
        """The response so far."""
        return AssistantMessage(
            text="".join(self.text),
            reasoning="".join(self.reasoning),
            tool_calls=tuple(self.calls),
            media=tuple(self.media),
            citations=tuple(self.citations),
            provider_content=self.provider_content,
        )


class AgentLoop:
    """Decides a step's requests to the model, the calls to execute, and the end.

    Args:
        task: The step.
    """

    def __init__(self, task: AgentTask) -> None:
        self._task = task
        self._conversation = task.conversation
        program = UserMessage(content=task.user_prompt)
        self._conversation.begin(task.system_prompt, program, past=task.past)
        self._tools = task.tools
        self._response_format: ResponseFormat | None = None
        self._form = task.form
        self._is_strict = task.answers == "strict"
        if task.outcome_transport == "tool":
            self._tools = (*task.tools, outcome_tool(self._form))
        else:
            self._response_format = ResponseFormat(name="outcome", schema=wrapped_schema(self._form))
        self._turn = _Turn()
        self._turn_tools: tuple[ToolDefinition, ...] = ()
        self._turns = 0
        self._tool_calls = 0
        self._corrections = 0
        self._notes: list[str] = []
        self._causes: list[CorrectionCause] = []
        self._media: list[BinaryContent | FileUrl] = []  # of all turns

    @property
    def has_turn_left(self) -> bool:
        """Whether the step may have another turn."""
        return self._turns < self._task.max_turns

    @property
    def messages_due(self) -> int | None:
        """The number of messages of the user for the next turn; None for all.

        A provider that goes on by itself answers those that it has; the others may go into that answer, or
        into the turn after it, if there is one.
        """
        return self._turn.steered if self._turns + 1 < self._task.max_turns else None

    @property
    def conversation(self) -> tuple[Message, ...]:
        """All messages so far, as they were before compaction.

        The last calls may lack results; a response that broke off is text alone.
        """
        turn = self._turn
        end: list[Message] = []
        if not turn.has_ended and (turn.text or turn.calls or turn.media):
            end.append(turn.message)
        messages = self._conversation.messages
        if turn.results and isinstance([*messages, *end][-1], AssistantMessage):
            results = tuple(result for _, result in sorted(turn.results.items()))
            end.append(ToolResultsMessage(results=results))
        if end and turn.finish_reason is None:  # what providers want back with the calls had not arrived
            from .plain_messages import calls_as_text  # here, because few responses break off

            end = [calls_as_text(message) for message in end]
        return (*messages, *end)

    @property
    def turn_results(self) -> tuple[ToolResult, ...]:
        """The results of the calls of the current turn so far, those of refused calls included."""
        return tuple(result for _, result in sorted(self._turn.results.items()))

    def next_request(self, steered: tuple[UserContent, ...] = ()) -> ModelRequest:
        """Begin a turn.

        Args:
            steered: Messages for the model that arrived since the last turn.

        Raises:
            StepLimitError: The step has had as many turns as it may.
            ToolRegistrationError: A deferred tool that was found cannot be offered to the model.
        """
        if not self.has_turn_left:
            what = f"step {self._task.step_id}: no outcome after {self._turns} model requests (max_turns)"
            raise StepLimitError(f"{what}; the model last said: {self._quoted()}").without_content(what)
        self._turns += 1
        self._turn = _Turn()
        if steered:
            self._conversation.add(UserMessage(content=steered), is_kept=True)
        tools = self._offered_tools()
        self._turn_tools = tools
        return ModelRequest(
            system_prompt=self._task.system_prompt,
            messages=tuple(self._conversation.sent),
            tools=tools,
            tool_choice="required" if self._task.outcome_transport == "tool" else "auto",
            response_format=self._response_format,
            settings=self._task.settings,
            site=self._task.site,
        )

    def _offered_tools(self) -> tuple[ToolDefinition, ...]:
        """The tools of the next request: found ones come last, so that the others keep their places."""
        found = self._task.found_tools()
        return (*self._tools, *found) if found else self._tools

    def feed(self, event: ModelEvent) -> RunToolCall | None:
        """Process one event of the response.

        Raises:
            StepLimitError: The step has made as many tool calls as it may.
        """
        match event:
            case TextDelta():
                self._turn.text.append(event.text)
            case ReasoningDelta():
                self._turn.reasoning.append(event.text)
            case ToolCallCompleted():
                return self._take_call(event.call)
            case UsageReported():
                self._turn.usage = event.usage
            case ResponseFinished():
                self._turn.finish_reason = event.reason
                self._turn.provider_reason = event.provider_reason
                self._turn.provider_content = event.provider_content
                self._turn.refusal = event.refusal
                self._turn.steered = event.steered
            case MediaCompleted():
                self._turn.media.append(event.content)
                self._media.append(event.content)
            case CitationAdded():
                self._turn.citations.append(event.citation)
            case _:
                pass
        return None

    def tool_finished(self, position: int, result: ToolResult) -> None:
        """Process the result of a tool call."""
        self._turn.results[position] = result

    def turn_usage(self, error: ModelError | None = None) -> Usage:
        """The usage of the current turn's request; marked incomplete when the provider reported none.

        Args:
            error: The error of the request; None when it did not fail.
        """
        return self._turn.usage or unreported_usage(error)

    def end_turn(self) -> TurnEnd:
        """End a turn whose response and tool calls are complete.

        Raises:
            ExecutionError: The model answered with something malformed too often.
            RefusalError: It, or its provider, refused to answer.
            ContextTooLongError: The answer ended because the context was full.
        """
        turn = self._turn
        if turn.finish_reason == "content_filter" and not turn.calls:
            raise refusal_error(self._task.step_id, turn.refusal, self._quoted())
        self._conversation.add_response(turn.message, turn.usage, len(self._turn_tools))
        turn.has_ended = True
        if turn.outcome_position is not None:
            return self._end_with_outcome_call(turn.outcome_position)
        if turn.calls:
            self._conversation.add(self._results())
            return NextTurn()
        if turn.finish_reason == "pause" and turn.provider_content is not None:
            return NextTurn()
        if turn.finish_reason == "steered" or (turn.steered is not None and self.has_turn_left):
            return NextTurn()  # the provider goes on by itself
        return self._end_with_text()

    def take_notes(self) -> list[str]:
        """Return the reasons for refused outcomes since the last call, for observers."""
        notes, self._notes = self._notes, []
        return notes

    def take_causes(self) -> list[CorrectionCause]:
        """Return the causes of refused outcomes since the last call, for counting."""
        causes, self._causes = self._causes, []
        return causes

    def refuse(self, error: NighthawkError) -> None:
        """Give the model the reason why its outcome was refused.

        Args:
            error: The error that refused it.

        Raises:
            ExecutionError: That happened too often.
        """
        self._refuse(self._task.word_refusal(error), cause_of(error))

    def _refuse(self, reason: str, cause: CorrectionCause) -> None:
        position = self._turn.outcome_position
        if position is not None:
            self._turn.results[position] = _error_result(self._turn.calls[position], reason)
            self._conversation.add_refusal(self._results())
        else:
            text = refusal_text("That outcome was refused: ", reason, self._what_to_do(cause))
            self._conversation.add_refusal(UserMessage(content=(text,)))
        self._count_correction(reason)
        self._causes.append(cause)

    def _what_to_do(self, cause: CorrectionCause) -> str:
        """The advice for the next answer; empty if the refusal contains it."""
        if cause == "no_outcome":
            return ""
        return ANSWER_AGAIN if self._task.outcome_transport == "native" else _END_AGAIN

    def send_back(self, feedback: str) -> None:
        """Give the model the feedback of a check; no correction, because nothing was malformed.

        Args:
            feedback: The feedback.
        """
        self._answer_outcome(
            f"not accepted yet: {feedback}", kind="oversight", guidance="Go on, then end the block again."
        )
        self._causes.append("oversight")

    def hold_back(self, note: str = "") -> None:
        """Inform the model that its outcome does not count yet, because messages for it arrived meanwhile.

        Args:
            note: A further note on the outcome.
        """
        self._answer_outcome(
            f"not accepted yet: a message for you arrived meanwhile; heed it, then end the block again{note}",
            kind="transient",
        )

    def _answer_outcome(self, reason: str, *, kind: ErrorKind, guidance: str = "") -> None:
        """Answer the outcome of this turn, which reached the loop as a call or as text."""
        self._notes.append(f"outcome {reason}")
        position = self._turn.outcome_position
        add = self._conversation.add_refusal if kind == "oversight" else self._conversation.add
        if position is not None:
            call = self._turn.calls[position]
            self._turn.results[position] = _error_result(call, reason, kind, guidance or _END_AGAIN)
            add(self._results())
        else:
            text = refusal_text("That outcome was ", reason, guidance)
            add(UserMessage(content=(text,)))

    def _take_call(self, call: ToolCall) -> RunToolCall | None:
        turn = self._turn
        position = len(turn.calls)
        turn.calls.append(call)
        if turn.outcome_position is not None:
            reason = f"not carried out: it came after {OUTCOME_TOOL_NAME}, which must be the last call"
            turn.results[position] = _error_result(call, reason)
            return None
        if self._task.outcome_transport == "tool" and self._delivers_outcome(call):
            turn.outcome_position = position
            return None
        if self._tool_calls >= self._task.max_tool_calls:
            count = self._tool_calls
            what = f"step {self._task.step_id}: no outcome after {count} tool calls (max_tool_calls)"
            raise StepLimitError(f"{what}; the model last said: {self._quoted()}").without_content(what)
        self._tool_calls += 1
        return RunToolCall(position=position, call=call)

    def _delivers_outcome(self, call: ToolCall) -> bool:
        if self._is_strict or call.name in PROVIDED_TOOL_NAMES:
            return call.name == OUTCOME_TOOL_NAME
        offered = [tool.name for tool in self._turn_tools]
        if call.name in offered:
            return False
        readings: list[Reading] = []
        if lenient.read_tool_name(call.name, offered, readings) != OUTCOME_TOOL_NAME:
            return False
        self._turn.readings += readings
        return True

    def _end_with_outcome_call(self, position: int) -> TurnEnd:
        failed = [
            result.name
            for place, result in sorted(self._turn.results.items())
            if place < position and result.is_error
        ]
        reason, cause = None, "calls_failed"
        if failed and not self._is_reasoned_raise(self._turn.calls[position].arguments):
            reason = (
                f"not accepted, because calls before it failed: {', '.join(failed)}; fix them and end again"
            )
        elif position < len(self._turn.calls) - 1:
            cause = "calls_after_outcome"
            reason = (
                "not accepted, because calls came after it, which were not carried out; make it the last call"
            )
        if reason is not None:
            self._notes.append(f"outcome {reason}")
            self._causes.append(cause)
            self._turn.results[position] = _error_result(self._turn.calls[position], reason)
            self._conversation.add(self._results())
            return NextTurn()
        return self._propose(self._turn.calls[position].arguments)

    def _is_reasoned_raise(self, text: str) -> bool:
        """Whether an outcome raises for a reason other than a result in the same response."""
        try:
            outcome = parse_answer(text, self._form, is_strict=self._is_strict).outcome
        except ExecutionError:
            return False
        return isinstance(outcome, RaiseStepOutcome) and bool(
            outcome.raise_message or outcome.raise_expression
        )

    def _end_with_text(self) -> TurnEnd:
        text = "".join(self._turn.text)
        if self._media and not text.lstrip().startswith("{"):
            answer = made_media.answer_of_media(self._form, self._media)
            if answer is not None:
                return ProposedOutcome(answer=answer)
        if self._task.outcome_transport == "native" or text.lstrip().startswith("{"):
            return self._propose(text)
        if self._turn.finish_reason == "length":
            self._refuse_cut_off()
        elif not self._is_strict and has_answer(text, self._form):
            return self._propose(text)
        else:
            self._refuse(
                f"end the block by calling {OUTCOME_TOOL_NAME}; text alone does nothing", "no_outcome"
            )
        return NextTurn()

    def _propose(self, text: str) -> TurnEnd:
        excess = excess_of(text, self._task.max_tool_argument_bytes)
        if excess is not None:
            self._refuse(f"the fields of the outcome {excess}; refer to values by their names", "too_long")
            return NextTurn()
        is_cut_off = self._turn.finish_reason == "length"
        try:
            answer = parse_answer(text, self._form, is_strict=self._is_strict or is_cut_off)
            if self._form.media:
                answer = made_media.with_made_media(answer, self._form, self._media)
        except ExecutionError as error:
            if is_cut_off:
                self._refuse_cut_off()
            else:
                self.refuse(error)
            return NextTurn()
        if self._turn.readings:
            answer = replace(answer, readings=(*self._turn.readings, *answer.readings))
        return ProposedOutcome(answer=answer)

    def _refuse_cut_off(self) -> None:
        if self._turn.provider_reason in CONTEXT_IS_FULL:
            raise context_error(self._task.step_id, self._quoted())
        self._refuse(CUT_OFF, "cut_off")

    def _results(self) -> ToolResultsMessage:
        results = tuple(self._turn.results[position] for position in range(len(self._turn.calls)))
        return ToolResultsMessage(results=results)

    def _count_correction(self, reason: str) -> None:
        if self._corrections >= self._task.max_corrective_turns:
            what = f"step {self._task.step_id}: no acceptable outcome after {self._corrections} corrections"
            message = f"{what}: {reason}; the model said: {self._quoted()}"
            raise ExecutionError(message).without_content(what)
        self._corrections += 1
        self._notes.append(f"outcome refused: {reason}")

    def _quoted(self) -> str:
        calls = [f"{call.name}({call.arguments})" for call in self._turn.calls]
        return quote(" ".join(["".join(self._turn.text), *calls]))


def _error_result(
    call: ToolCall, reason: str, kind: ErrorKind = "invalid_input", guidance: str = _END_AGAIN
) -> ToolResult:
    error = ToolError(kind=kind, message=reason, guidance=guidance)
    return ToolResult(call_id=call.id, name=call.name, content=(project_error(error),), is_error=True)


async def is_final(task: AgentTask, loop: AgentLoop, answer: Answer) -> bool:
    """Whether the step ends with an answer; if not, the loop has the reason for the model.

    Args:
        task: The step.
        loop: Its loop, which has proposed the answer.
        answer: The answer.

    Raises:
        ExecutionError: The answer is refused for good.
    """
    outcome = answer.outcome
    if answer.readings:
        count_readings(answer.readings)
    if await _is_held_back(task, loop):
        return False
    try:
        if answer.bindings:
            await task.set_bindings(answer.bindings)
        await task.conclude(outcome)
    except OutcomeRefusedError as error:
        if not loop.has_turn_left:
            raise _without_a_turn(error) from error.__cause__
        loop.send_back(error.feedback)
        return False
    except (AnnotationError, VerificationError, StepRejectedError):
        raise
    except ExecutionError as error:
        if (host_error := find_host_error(error)) is not None:
            raise host_error from host_error.__cause__
        loop.refuse(error)
        return False
    return not await _is_held_back(task, loop, outcome)  # validation may take long


def report_refusals(loop: AgentLoop) -> None:
    """Show the refused outcomes of a turn to observers, and count them.

    Args:
        loop: The loop of the step in progress.
    """
    for note in loop.take_notes():
        write_note(note)
    for cause in loop.take_causes():
        count_correction(cause)


async def _is_held_back(task: AgentTask, loop: AgentLoop, done: StepOutcome | None = None) -> bool:
    if await task.may_end() or not loop.has_turn_left:
        return False
    loop.hold_back("" if done is None else done_note(done))
    return True


def _without_a_turn(error: OutcomeRefusedError) -> ExecutionError:
    no_turn = "no turn is left for another one (max_turns)"
    message, without_content = f"{error}; {no_turn}", f"{error.message_without_content}; {no_turn}"
    if isinstance(error, StepRejectedError):
        return StepRejectedError(message).without_content(without_content)
    return VerificationError(message, feedback=error.feedback).without_content(without_content)
