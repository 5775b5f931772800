"""Refusals as a model reads them: with the stub of the type that a value does not match.

`docs/refusals.md` lists what models are told.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from msgspec.structs import replace

from ..errors import (
    CorrectionCause,
    ExecutionError,
    NighthawkError,
    ToolBoundaryError,
    ToolEvaluationError,
    ToolValidationError,
)
from ..prompt.annotations import is_type_alias
from ..prompt.stubs import TypeNames, fields_by_key, stub_of
from ..runtime.conclude import INITIALIZE_IT
from ..runtime.tool_outcome import ToolOutcome, outcome_of_failure

__all__ = ["ANSWER_AGAIN", "CUT_OFF", "Refusals", "cause_of", "told_text"]

ANSWER_AGAIN = "Answer again with JSON only."
CUT_OFF = "the answer was cut off at its length limit; be brief"

_MAX_STUB_CHARACTERS = 600
_MAX_PATHS = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Refusals:
    """Words the refusals of one step.

    Args:
        step_id: The step, which its model is not told.
        names: The names by which the block writes types.
    """

    step_id: str
    names: TypeNames

    def text(self, error: NighthawkError) -> str:
        """Return the fault of an answer, its place, and the allowed values.

        Args:
            error: The reason why it was refused.
        """
        told = str(error).removeprefix(f"step {self.step_id}: ").replace(INITIALIZE_IT, "; give it one")
        stub = self.stub(error)
        return f"{told}\n{stub}" if stub else told

    def of_call(self, error: NighthawkError) -> ToolOutcome:
        """Return the outcome of a failed tool call; see `outcome_of_failure`.

        Args:
            error: What the step actor replied with.
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


def told_text(start: str, reason: str, what_to_do: str) -> str:
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
        # What the code of an expression raised is about values of its own.
        error = None if isinstance(error, ToolEvaluationError) else error.__cause__
    return None


def _types_on(annotation: object, path: tuple[str | int, ...]) -> Iterator[object]:
    """The types from the outermost to where a path leads; what leads nowhere is a label of pydantic's."""
    reached = [annotation]
    yield annotation
    for step in path:
        inner = [each for outer in reached for each in _inner_types(outer, step)]
        if inner:
            reached = inner
            yield inner[0]


def _inner_types(annotation: object, step: str | int) -> Iterator[object]:
    """The types of what stands under a field, a key or a position of a value of a type."""
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
