"""The identity of what is running. Floor 0."""

from dataclasses import dataclass

__all__ = ["ExecutionRef"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRef:
    """Runtime execution identity (specification 5.3 and 10).

    Args:
        run_id: The id of the outermost run, which ties processes together in traces.
        scope_id: The id of the current run or scope.
        step_id: The id of the current step, `python_module:line`; None outside a step.
    """

    run_id: str
    scope_id: str
    step_id: str | None = None
