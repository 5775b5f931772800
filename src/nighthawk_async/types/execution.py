"""The identity of running code, and the values of a step while its model's answer streams."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from .quick_init import quick_init


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRef:
    """Runtime execution identity (specification 5.3 and 10).

    Args:
        run_id: The id of the outermost run, which ties processes together in traces.
        scope_id: The id of the current run or scope.
        step_id: The id of the current step, `python_module:line`; None outside a step.
        execution_id: The id of this one execution of the step, or of this attempt at it; unique across
            processes. None outside a step.
        parent_execution_id: The id of the execution that started this one, in any run, task or thread; for a
            run or scope, that in which it was entered. None at the top.
    """

    run_id: str
    scope_id: str
    step_id: str | None = None
    execution_id: str | None = None
    parent_execution_id: str | None = None


OUTSIDE_RUNS = ExecutionRef(run_id="", scope_id="")
"""The identity outside every run."""

RETURN_NAME = "return"
"""The name of the return value among the values of a step. No variable is called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialValues:
    """The values of a step so far, while its model's answer streams. As an event of hooks: Observation only.

    Each value is valid for its type. A text, a list, a set, a tuple, a dict and a TypedDict grow; everything
    else, including an instance of a model, appears when it is complete. Values that are not valid yet are
    left out.

    Args:
        execution_ref: The run, scope, step and execution they belong to.
        values: The values by the names of the write bindings; the return value is called `return`.
        attempt: The number of the model's answer that they are from, from 1. When an answer was refused, the
            values of the next one take the place of these.
        is_final: Whether they are the values that the step is about to commit. They are the last ones. A step
            that failed before the commit has none.
    """

    execution_ref: ExecutionRef
    values: Mapping[str, Any]
    attempt: int = 1
    is_final: bool = False


OnPartial: TypeAlias = Callable[[PartialValues], object]
"""A callback for the values of steps: a function, `def` or `async def`."""


class PartialSink(Protocol):
    """A listener to the values of steps."""

    @property
    def is_listening(self) -> bool:
        """Whether it wants values now."""
        ...

    def put(self, partial: PartialValues) -> None:
        """Take them, without waiting."""
        ...

    def step_ended(self, execution_id: str) -> None:
        """No more values of that step follow."""
        ...
