"""One step in progress: its actor, its program, and how it ended. Floor 3."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..types.outcomes import StepOutcome
from .conclude import StepResult, conclude
from .step_actor import StepActor
from .step_context import StepContext

__all__ = ["Step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conclusion:
    outcome: StepOutcome
    result: StepResult


class Step:
    """One step in progress.

    An executor may conclude the step itself, so that it can tell the model why an outcome was refused. The
    runner then takes that conclusion and evaluates nothing a second time.

    Args:
        actor: The actor that owns the step's state.
        program: The program text as the model sees it.
    """

    __slots__ = ("_conclusion", "actor", "program")

    def __init__(self, *, actor: StepActor, program: str) -> None:
        self.actor = actor
        self.program = program
        self._conclusion: _Conclusion | None = None

    @property
    def context(self) -> StepContext:
        """The state of the step."""
        return self.actor.context

    async def conclude(self, outcome: StepOutcome, bindings: Mapping[str, object]) -> StepResult:
        """Validate how the step ends; the same outcome object is concluded once.

        Args:
            outcome: The outcome.
            bindings: The values of the write bindings to commit.

        Raises:
            ExecutionError: The outcome, a binding or the return value is not acceptable.
        """
        if self._conclusion is not None and self._conclusion.outcome is outcome:
            return self._conclusion.result
        result = await conclude(self.actor, outcome, bindings)
        self._conclusion = _Conclusion(outcome=outcome, result=result)
        return result
