"""The identity of what is running."""

from dataclasses import dataclass

__all__ = ["ExecutionRef"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRef:
    """Runtime execution identity (specification 5.3 and 10).

    Args:
        run_id: The id of the outermost run, which ties processes together in traces.
        scope_id: The id of the current run or scope.
        step_id: The id of the current step, `python_module:line`; None outside a step.
        execution_id: The id of this one execution of the step, or of this attempt at it: no other one has it,
            in any process. None outside a step.
        parent_execution_id: The id of the execution that brought this one about, in whatever run, task or
            thread; of a run or scope, that in which it was entered. None at the top.
    """

    run_id: str
    scope_id: str
    step_id: str | None = None
    execution_id: str | None = None
    parent_execution_id: str | None = None
