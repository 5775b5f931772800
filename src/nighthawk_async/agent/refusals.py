"""Refusals as a model reads them, and the loop guard for repeated calls.

`docs/refusals.md` lists the messages to models. They are counted: for the run, the step, its node and
metrics. Errors that concern only the host are no refusals.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace as replace_fields
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..causes import with_causes
from ..configuration import LoopGuard
from ..errors import (
    ContextTooLongError,
    CorrectionCause,
    ExecutionError,
    HookError,
    NighthawkError,
    RefusalError,
    RepeatedToolCallError,
    ToolBoundaryError,
    ToolEvaluationError,
    ToolValidationError,
)
from ..kernel.commit import find_interception_error
from ..kernel.conclude import INITIALIZE_IT
from ..kernel.environment import Environment, find_environment
from ..kernel.reports import Corrected, ReadLeniently, correction_attributes, reading_attributes
from ..kernel.tool_calls import ToolOutcome, outcome_of_failure
from ..observation import READ_AS, find_node_writer
from ..prompt.stubs import TypeNames, fields_by_key, stub_of
from ..prompt.types import is_type_alias
from ..tracing import note_event
from ..types.messages import ToolCall, ToolResult, UserContent
from ..types.model_output import Refusal
from ..types.outcomes import Reading
from ..types.quick_init import quick_init

if TYPE_CHECKING:
    from ..kernel.events import ToolLoopAction


def find_host_error(error: BaseException) -> NighthawkError | None:
    """The error of the host that an error came from; None for none.

    An interception that cannot continue, a policy of the step that has no room, deciding code that failed: no
    model can fix these, so they are not shown to it. They leave the step bare.

    Args:
        error: An error of a step, or of code that was called from a step.
    """
    interception = find_interception_error(error)
    if interception is not None:
        return interception
    environment = find_environment()
    if environment is not None and environment.step is not None:
        for find in environment.step.host_errors:
            if (found := find(error)) is not None:
                return found
    return next((each for each in with_causes(error) if isinstance(each, HookError)), None)


def count_correction(cause: CorrectionCause) -> None:
    """Count a correction that is sent to the model of the step in progress.

    Args:
        cause: The cause of the correction.
    """
    environment = find_environment()
    if environment is None or environment.step is None:
        return
    environment.usage_meter.count_correction(cause)
    actor = environment.step.actor
    actor.progress.corrections[cause] += 1
    if actor.node is not None:
        actor.node.set_attributes(correction_attributes(actor.progress.corrections))
    note_event(Corrected(cause=cause))


def count_readings(readings: Iterable[Reading]) -> None:
    """Count the forms in which an answer or a call was read, and mark the node of the active work with them.

    Args:
        readings: The forms; none for an answer as it should be.
    """
    readings = tuple(dict.fromkeys(readings))
    environment = find_environment()
    if not readings or environment is None or environment.step is None:
        return
    actor = environment.step.actor
    for reading in readings:
        environment.usage_meter.count_reading(reading)
        actor.progress.readings[reading] += 1
        note_event(ReadLeniently(reading=reading))
    if actor.node is not None:
        actor.node.set_attributes(reading_attributes(actor.progress.readings))
    node = find_node_writer()
    if node is not None:
        node.set_attributes({READ_AS: ", ".join(readings)})


_MAX_CHARACTERS = 500


def refusal_error(step_id: str, refusal: Refusal | None, quoted: str) -> RefusalError:
    """The error of an answer that the model, or the filter of its provider, refused.

    Args:
        step_id: The step.
        refusal: The reason; None when the provider gave none.
        quoted: The beginning of the model's words.
    """
    category, explanation = (None, None) if refusal is None else (refusal.category, refusal.explanation)
    kind = "" if category is None else f" ({category[:100]})"
    what = f"step {step_id}: the provider's content filter withheld the answer{kind}"
    shown = quote(explanation) if explanation else quoted
    error = RefusalError(f"{what}: {shown}", category=category, explanation=explanation)
    return error.without_content(what)


def context_error(step_id: str, quoted: str) -> ContextTooLongError:
    """The error of an answer that ended because the model's context was full; the next one has less room.

    Args:
        step_id: The step.
        quoted: The beginning of the model's words.
    """
    what = f"step {step_id}: the answer was cut off because the context of the model is full"
    return ContextTooLongError(f"{what}; the model said: {quoted}").without_content(what)


CONTEXT_IS_FULL = ("model_context_window_exceeded", "model_length")
"""Words of providers for the end of an answer for which the context has no more room."""


def quote(text: str) -> str:
    """Quote at most 500 characters of a model's text."""
    said = text.strip() or "nothing"
    return said if len(said) <= _MAX_CHARACTERS else said[:_MAX_CHARACTERS] + "…"


ANSWER_AGAIN = "Answer again with JSON only."
CUT_OFF = "the answer was cut off at its length limit; be brief"

_MAX_STUB_CHARACTERS = 600
_MAX_PATHS = 3


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Refusals:
    """Phrases the refusals of one step.

    Args:
        step_id: The step; not shown to its model.
        names: The names by which the block writes types.
    """

    step_id: str
    names: TypeNames

    def text(self, error: NighthawkError) -> str:
        """Return the fault of an answer, its place, and the allowed values.

        Args:
            error: The reason why it was refused.
        """
        text = str(error).removeprefix(f"step {self.step_id}: ").replace(INITIALIZE_IT, "; give it one")
        stub = self.stub(error)
        return f"{text}\n{stub}" if stub else text

    def of_call(self, error: NighthawkError) -> ToolOutcome:
        """Return the outcome of a failed tool call; see `outcome_of_failure`.

        Args:
            error: The error with which the step actor replied.
        """
        outcome, stub = outcome_of_failure(error), self.stub(error)
        if outcome.error is None or not stub:
            return outcome
        return ToolOutcome(error=replace(outcome.error, message=f"{outcome.error.message}\n{stub}"))

    def stub(self, error: NighthawkError) -> str:
        """The stub of the type that a value does not match, where it fails; empty without one."""
        mismatch = _find_mismatch(error)
        if mismatch is None:
            return ""
        stubs = [self._stub_at(mismatch.annotation, path) for path in mismatch.paths[:_MAX_PATHS] or ((),)]
        text = "\n".join(dict.fromkeys(filter(None, stubs)))
        return text if len(text) <= _MAX_STUB_CHARACTERS else f"{text[:_MAX_STUB_CHARACTERS]}…"

    def _stub_at(self, annotation: object, path: tuple[str | int, ...]) -> str:
        """The stub of the innermost type on a path that has one."""
        for reached in reversed([*_types_on(annotation, path)]):
            stub = stub_of(reached, self.names)
            if stub:
                return stub
        return ""


def refusal_text(start: str, reason: str, what_to_do: str) -> str:
    """A message about an answer that was refused."""
    if not what_to_do:
        return f"{start}{reason}"
    end = "\n" if "\n" in reason else " " if reason.endswith((".", "!", "?")) else ". "
    return f"{start}{reason}{end}{what_to_do}"


def cause_of(error: NighthawkError) -> CorrectionCause:
    """Return the cause of a refusal.

    Args:
        error: The reason why it was refused.
    """
    match error:
        case ExecutionError(cause=str(cause)):
            return cause
        case ToolBoundaryError():
            return error.kind
        case _:
            return "execution"


def _find_mismatch(error: BaseException | None) -> ToolValidationError | None:
    while error is not None:
        if isinstance(error, ToolValidationError):
            return error if error.annotation is not None else None
        # What the code of an expression raised is about values of its own, unless it is a refused argument.
        is_raised = isinstance(error, ToolEvaluationError)
        cause = error.__cause__
        error = None if is_raised and not isinstance(cause, ToolBoundaryError) else cause
    return None


def _types_on(annotation: object, path: tuple[str | int, ...]) -> Iterator[object]:
    """The types from the outermost to the end of a path; segments without a type are labels of pydantic's."""
    reached = [annotation]
    yield annotation
    for step in path:
        inner = [each for outer in reached for each in _inner_types(outer, step)]
        if inner:
            reached = inner
            yield inner[0]


def _inner_types(annotation: object, step: str | int) -> Iterator[object]:
    """The types of the values under a field, a key or a position of a value of a type."""
    annotation = _without_wrapping(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    cls = annotation if origin is None else origin
    if cls is Union or cls is UnionType:
        for each in arguments:
            yield from _inner_types(each, step)
    elif not isinstance(cls, type):
        return
    elif (fields := fields_by_key(cls)) is not None:
        if step in fields:
            yield fields[step]
    elif issubclass(cls, Mapping):
        yield from arguments[1:2]
    elif isinstance(step, int) and arguments:
        is_fixed = issubclass(cls, tuple) and arguments[-1] is not ...
        yield arguments[min(step, len(arguments) - 1) if is_fixed else 0]


def _without_wrapping(annotation: Any) -> object:
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif is_type_alias(annotation):
            try:
                annotation = annotation.__value__
            except Exception:  # the right-hand side of the alias may raise anything
                return object
        else:
            return annotation


_Key: TypeAlias = tuple[str, str]


class Repetition(Struct, frozen=True, kw_only=True):
    """The decision about a call.

    Args:
        key: The call: its name and its arguments, however they were written.
        count: The number of turns in which it was made with the same result, this one included.
        action: Execute it, refuse it, or fail the step.
    """

    key: _Key
    count: int
    action: Literal["proceed", "refuse", "fail"]


class _Streak(Struct, kw_only=True):
    """The last result of a call, and the consecutive turns that gave it without anything new.

    Args:
        content: The result.
        turn: The last of these turns.
        count: The number of them.
        is_new: Whether the result appeared for the first time in that turn.
    """

    content: tuple[UserContent, ...]
    turn: int
    count: int = 1
    is_new: bool = True


class RepeatedCalls(Struct, eq=False):
    """Counts the repetitions of one step.

    Args:
        guard: The limits for warning, refusing and failing.
    """

    guard: LoopGuard
    _streaks: dict[_Key, _Streak] = {}
    _turn: int = 0
    _turn_is_new: bool = False
    _last_new_turn: int = 0

    def begin(self, call: ToolCall, turn: int) -> Repetition:
        """Decide about a call that is about to be executed.

        Args:
            call: The call.
            turn: The turn of the step, from 1; 0 for an agent that has no turns, whose calls then count each.
        """
        self._enter(turn or self._turn + 1)
        key = (call.name, _canonical_arguments(call))
        count = self._count_now(key)
        if count >= self.guard.fail_after:
            return Repetition(key=key, count=count, action="fail")
        if count >= self.guard.refuse_after:
            self._keep(key, count)
            return Repetition(key=key, count=count, action="refuse")
        return Repetition(key=key, count=count, action="proceed")

    def finish(self, repetition: Repetition, content: tuple[UserContent, ...]) -> bool:
        """Record the result of a call that was executed.

        Args:
            repetition: The answer of `begin` about the call.
            content: The content that the model is about to see.

        Returns:
            Whether to warn the model.
        """
        streak = self._streaks.get(repetition.key)
        if streak is None or streak.content != content:
            self._streaks[repetition.key] = _Streak(content=content, turn=self._turn)
            self._turn_is_new = True
            return False
        self._keep(repetition.key, repetition.count)
        return repetition.count >= self.guard.warn_after

    def _enter(self, turn: int) -> None:
        if turn == self._turn:
            return
        if self._turn_is_new:
            self._last_new_turn = self._turn
        self._turn = turn
        self._turn_is_new = False

    def _count_now(self, key: _Key) -> int:
        streak = self._streaks.get(key)
        if streak is None:
            return 1
        if streak.turn == self._turn:
            return streak.count
        since_new = streak.turn if streak.is_new else streak.turn - 1
        return 1 if self._last_new_turn > since_new else streak.count + 1

    def _keep(self, key: _Key, count: int) -> None:
        streak = self._streaks[key]
        if streak.turn != self._turn:
            streak.turn, streak.count, streak.is_new = self._turn, count, False


def _canonical_arguments(call: ToolCall) -> str:
    """The canonical text of arguments, the same for every way of writing them; unchanged if not JSON."""
    try:
        value: object = msgspec.json.decode(call.arguments or "{}")
        return msgspec.json.encode(value, order="sorted").decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return call.arguments


_Result: TypeAlias = Callable[[], Awaitable[ToolResult]]
_GUIDANCE = "Go on with what is known, try something else, or end the block."


class GuardedCalls(Struct, frozen=True, eq=False):
    """The loop guard of one step.

    Args:
        environment: The environment of the step.
        repeated: Counts its repetitions.
    """

    environment: Environment
    repeated: RepeatedCalls

    def begin(
        self,
        call: ToolCall,
        turn: int,
        carry_out: Callable[[ToolCall], _Result],
        refuse: Callable[[ToolCall, ToolBoundaryError], Awaitable[ToolResult]],
    ) -> _Result:
        """Begin a call; return an awaitable of its result.

        Args:
            call: The call.
            turn: The turn of the step; 0 when its agent has none.
            carry_out: Begins the call.
            refuse: Returns the result of a call that is not executed.

        Raises (on awaiting):
            RepeatedToolCallError: The call was made too often.
        """
        repetition = self.repeated.begin(call, turn)
        match repetition.action:
            case "proceed":
                begun = carry_out(call)
                return lambda: self._watched(call, repetition, begun)
            case "refuse":
                return lambda: self._refused(call, repetition, refuse)
            case "fail":
                return lambda: self._fail(call, repetition)

    async def _watched(self, call: ToolCall, repetition: Repetition, result: _Result) -> ToolResult:
        given = await result()
        if not self.repeated.finish(repetition, given.content):
            return given
        await self._report(call, repetition, "warned")
        note = (
            f"Note: {call.name} was called like this in {repetition.count} turns, with the same result. "
            f"{_GUIDANCE}"
        )
        return replace_fields(given, content=(*given.content, note))

    async def _refused(
        self,
        call: ToolCall,
        repetition: Repetition,
        refuse: Callable[[ToolCall, ToolBoundaryError], Awaitable[ToolResult]],
    ) -> ToolResult:
        await self._report(call, repetition, "refused")
        error = ToolBoundaryError(
            kind="invalid_input",
            message=f"not carried out: {call.name} was called like this in {repetition.count} turns, and its "
            "result stayed the same",
            guidance=_GUIDANCE,
        )
        return await refuse(call, error)

    async def _fail(self, call: ToolCall, repetition: Repetition) -> ToolResult:
        await self._report(call, repetition, "failed")
        what = (
            f"step {self.environment.execution_ref.step_id}: the model called {call.name} in "
            f"{repetition.count} turns with the same arguments, and its result stayed the same (loop_guard)"
        )
        raise RepeatedToolCallError(f"{what}: {quote(call.arguments)}").without_content(what)

    async def _report(self, call: ToolCall, repetition: Repetition, action: "ToolLoopAction") -> None:
        # here, because most models do not repeat themselves
        from ..kernel.events import ToolLoopSuspected, report

        event = ToolLoopSuspected(
            execution_ref=self.environment.execution_ref,
            tool_name=call.name,
            repetitions=repetition.count,
            action=action,
        )
        await report(event)
