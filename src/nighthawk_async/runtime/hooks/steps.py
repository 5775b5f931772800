"""The events of a step: its beginning, its commit, its end, and its parking in between. Floor 3."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from ...types.outcomes import StepOutcome
from ..conclude import StepResult, rewritten
from ..environment import Environment
from ..late_value import shown
from ..oversight.failures import failing_as_rewriter
from ..steering import ParkingMoment
from ..step import Step
from .calls import Registration, emit, emit_early, emit_finished
from .events import BeforeCommit, StepFinished, StepResumed, StepStarted, StepSuspended
from .read_only import read_only

__all__ = ["CommitHooks", "InTime", "with_step_events"]

_Concluded: TypeAlias = tuple[StepOutcome, StepResult]
InTime: TypeAlias = Callable[[Callable[[], Awaitable[_Concluded]]], Awaitable[_Concluded]]


async def with_step_events(
    environment: Environment,
    step: Step,
    carry_out: Callable[[], Awaitable[_Concluded]],
    *,
    in_time: InTime,
) -> _Concluded:
    """Carry out an admitted step, and tell hooks of its beginning, its parking and its end.

    The end is told whenever the beginning was, also when one of the hooks vetoed the step.

    Args:
        environment: What is in force in the step.
        step: The step.
        carry_out: Carries it out.
        in_time: Limits the time of something, the hooks of the beginning included.

    Raises:
        ExecutionError: A hook vetoed the step.
        StepAbortedError: A hook ended it.
        HookError: A hook failed.
        Exception: What carrying out raises.
    """
    has_begun = False

    async def begin_and_carry_out() -> _Concluded:
        nonlocal has_begun
        has_begun = True
        await emit(environment, StepStarted(execution_ref=environment.execution_ref, program=step.program))
        step.actor.observe_parking(lambda moment: _tell_parking(environment, moment))
        return await carry_out()

    try:
        outcome, result = await in_time(begin_and_carry_out)
    except BaseException as error:
        if has_begun:
            await emit_finished(environment, _finished(environment, step, None, error))
        raise
    await emit_finished(environment, _finished(environment, step, outcome, None))
    return outcome, result


class CommitHooks:
    """The hooks that look at one commit: each decides once, before a return expression is evaluated.

    One that wants the return value decides when there is one. When it then modifies the bindings, the
    expression is not evaluated a second time.

    Args:
        environment: What is in force in the step.
        step: The step.
        outcome: How it ends.
        shown: Where to note what hooks were shown.
    """

    __slots__ = ("_environment", "_outcome", "_shown", "_step", "_undecided")

    def __init__(
        self, environment: Environment, step: Step, outcome: StepOutcome, shown: list[object]
    ) -> None:
        self._environment = environment
        self._step = step
        self._outcome = outcome
        self._undecided: tuple[Registration, ...] | None = None
        self._shown = shown

    async def ask(self, result: StepResult) -> StepResult:
        """Ask those that have not decided yet.

        Args:
            result: What the step comes to; its return value is UNSET while it is not evaluated.

        Returns:
            What to commit: when hooks modified the bindings, those, validated.

        Raises:
            StepRejectedError: A hook vetoed the commit.
            StepAbortedError: A hook ended the step.
            HookError: A hook failed, or what hooks modified is not acceptable.
        """
        if not self._environment.policies.hooks:
            return result
        bindings = read_only(result.bindings)
        event = shown(
            BeforeCommit(
                execution_ref=self._environment.execution_ref, outcome=self._outcome, bindings=bindings
            ),
            result.return_value,
        )
        event, self._undecided = await emit_early(
            self._environment, event, among=self._undecided, shown=self._shown
        )
        if event.bindings is bindings:  # no hook answered `Modify`, which takes a copy
            return result
        with failing_as_rewriter("BeforeCommit"):
            return rewritten(
                self._step.context, self._outcome, result, rewriter="BeforeCommit", bindings=event.bindings
            )


async def _tell_parking(environment: Environment, moment: ParkingMoment) -> None:
    event = StepSuspended if moment == "suspended" else StepResumed
    await emit(environment, event(execution_ref=environment.execution_ref))


def _finished(
    environment: Environment, step: Step, outcome: StepOutcome | None, error: BaseException | None
) -> StepFinished:
    return StepFinished(
        execution_ref=environment.execution_ref,
        outcome=outcome,
        usage=step.actor.progress.usage_meter.usage,
        error=error,
    )
