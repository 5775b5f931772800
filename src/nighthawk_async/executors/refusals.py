"""Refusals as a model reads them: with the stub of the type that a value does not match.

`docs/refusals.md` lists the messages to models. They are counted: for the run, the step, its node and
metrics. Errors that concern only the host are no refusals.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from msgspec.structs import replace

from ..causes import with_causes
from ..errors import (
    CorrectionCause,
    ExecutionError,
    HookError,
    NighthawkError,
    ToolBoundaryError,
    ToolEvaluationError,
    ToolValidationError,
)
from ..prompt.annotations import is_type_alias
from ..prompt.stubs import TypeNames, fields_by_key, stub_of
from ..runtime.activities import Corrected, correction_attributes
from ..runtime.conclude import INITIALIZE_IT
from ..runtime.environment import find_environment
from ..runtime.model_access import find_interception_error
from ..runtime.policies import Policies
from ..runtime.policy import check_answer
from ..runtime.tool_calls import ToolOutcome, outcome_of_failure
from ..runtime.tool_function import PROVIDED_TOOL_NAMES, Tool
from ..tracing import note_event
from ..types.messages import ToolCall, ToolResult
from ..types.quick_init import quick_init


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
    for policy in () if environment is None else environment.policies.overriding["find_host_error"]:
        found = policy.find_host_error(error)
        if found is not None:
            return found
    return next((each for each in with_causes(error) if isinstance(each, HookError)), None)


async def admitted_call(
    policies: Policies, call: ToolCall, functions: Mapping[str, Tool], *, is_counted: bool = True
) -> ToolCall:
    """Let a call pass the active policies, outermost first; see `policy.Policy.before_tool_call`.

    Each policy parses the arguments for itself, so that it can change the input of the next one only through
    the call that it returns.

    Args:
        policies: The policies of the step.
        call: The call.
        functions: The tools of the program.
        is_counted: Whether budgets count the call.

    Returns:
        The call to execute.

    Raises:
        ToolBoundaryError: It is not executed; the model gets the reason.
    """
    for policy in policies.overriding["guard_tool_call"]:
        function = None if call.name in PROVIDED_TOOL_NAMES else functions.get(call.name)
        call = await policy.guard_tool_call(call, function, is_counted=is_counted)
    return call


async def shown_result(policies: Policies, result: ToolResult) -> ToolResult:
    """Let the result of a call pass the active policies, innermost first; returns what the model sees.

    Args:
        policies: The policies of the step.
        result: The result of the call, or its failure.

    Raises:
        HookError: A hook failed, or a policy returned something else.
    """
    for policy in reversed(policies.overriding["after_tool_call"]):
        result = await policy.after_tool_call(result)
        method = f"{type(policy).__qualname__}.after_tool_call"
        check_answer(result, ToolResult, method)
        check_answer(result.content, tuple, method)
    return result


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


_MAX_CHARACTERS = 500


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
