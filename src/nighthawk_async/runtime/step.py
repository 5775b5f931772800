"""One step in progress: its actor, its program, and how it ended. Floor 3."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from ..executions import Execution
from ..types.outcomes import StepOutcome
from .conclude import StepResult, conclude
from .step_actor import StepActor
from .step_context import StepContext

__all__ = ["Inspect", "Step", "Verify"]


class Inspect(Protocol):
    """Has hooks and oversight look at what a step is about to commit."""

    async def __call__(self, outcome: StepOutcome, result: StepResult, *, is_last: bool) -> StepResult:
        """What to commit; raises when one of them is against it."""
        ...


class Verify(Protocol):
    """Has checks look at how a step is about to end; returns when all agree."""

    async def __call__(self, outcome: StepOutcome, result: StepResult, *, is_last: bool) -> None:
        """Raise `VerificationError` when one refuses."""
        ...


class _Conclusion(Struct, frozen=True, kw_only=True):
    outcome: StepOutcome
    result: StepResult


class Step:
    """One step in progress.

    An executor may conclude the step itself, so that it can tell the model why an outcome was refused. The
    runner then takes that conclusion, and evaluates and verifies nothing a second time.

    Args:
        actor: The actor that owns the step's state.
        program: The program text as the model sees it.
        is_interpolated: Whether the program text holds rendered values, as that of an f-string does.
        verify: What the outcome must pass; None for nothing.
        execution: This execution of it.

    Attributes:
        inspect: What the commit must pass, and may be changed by; None for nothing.
        rejections_left: How many commits may still be rejected before the step fails. An executor that can
            send a rejection back to its model sets it.
    """

    __slots__ = (
        "_conclusion",
        "_verify",
        "actor",
        "execution",
        "inspect",
        "is_interpolated",
        "program",
        "rejections_left",
    )

    def __init__(
        self,
        *,
        actor: StepActor,
        program: str,
        is_interpolated: bool = False,
        verify: Verify | None = None,
        execution: Execution,
    ) -> None:
        self.actor = actor
        self.execution = execution
        self.program = program
        self.is_interpolated = is_interpolated
        self._verify = verify
        self._conclusion: _Conclusion | None = None
        self.inspect: Inspect | None = None
        self.rejections_left = 0

    @property
    def context(self) -> StepContext:
        """The state of the step."""
        return self.actor.context

    async def conclude(
        self, outcome: StepOutcome, bindings: Mapping[str, object], *, is_last: bool = False
    ) -> StepResult:
        """Validate, verify and inspect how the step ends; the same outcome object is concluded once.

        Args:
            outcome: The outcome.
            bindings: The values of the write bindings to commit.
            is_last: Whether nobody will propose another outcome.

        Raises:
            ExecutionError: The outcome, a binding or the return value is not acceptable.
            OutcomeRefusedError: A check refused it, or a hook or oversight rejected the commit.
            VerificationError: A check refused it, and there will be no other one.
            StepRejectedError: The commit was rejected, and there will be no other one.
            StepAbortedError: A hook or oversight ended the step.
            HookError: A check, a hook or oversight failed.
        """
        if self._conclusion is not None and self._conclusion.outcome is outcome:
            return self._conclusion.result
        result = await conclude(self.actor, outcome, bindings)
        if self._verify is not None:
            await self._verify(outcome, result, is_last=is_last)
        if self.inspect is not None:
            result = await self.inspect(outcome, result, is_last=is_last)
        self._conclusion = _Conclusion(outcome=outcome, result=result)
        return result
