"""Calls the checks of a step to decide whether it is done.

The checks of the function come first, then those of the scopes, the innermost first; the first one that
refuses decides. A check runs within the step, and the steps that it starts are not checked themselves,
neither by scopes nor by their functions.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from ...errors import HookError, VerificationError
from ...kernel.commands import await_value
from ...kernel.commit import failing_as_hook
from ...kernel.conclude import OutcomeRefusedError, StepResult
from ...kernel.environment import get_environment, using_environment
from ...kernel.events import VerificationRefused, report
from ...kernel.policy import Policy
from ...parallel.calling import call_any
from ...types.outcomes import StepOutcome
from ...values.error_text import callable_name
from .inspection import Continue, Proposal, Verification

_DEFAULT_FEEDBACK = "a check finds that it is not done; look again at what the block asks"


class Verifier:
    """The checks of one step and the number of their refusals.

    Args:
        verifications: The checks in the order in which they are called.
        during: The policy that replaces their own while a check runs.
        step_id: The step.
        program: Its program text.
    """

    def __init__(
        self, verifications: tuple[Verification, ...], during: Policy, *, step_id: str, program: str
    ) -> None:
        self._refusals = dict.fromkeys(verifications, 0)
        self._during = during
        self._step_id = step_id
        self._program = program
        self._failure: VerificationError | None = None

    def add(self, verifications: Iterable[Verification]) -> None:
        """Call more checks after these, each once."""
        self._refusals |= {each: 0 for each in verifications if each not in self._refusals}

    async def __call__(self, outcome: StepOutcome, result: StepResult, *, is_last: bool) -> None:
        """Check an outcome.

        Args:
            outcome: The outcome.
            result: The result of the step.
            is_last: Whether the step cannot propose another one.

        Raises:
            OutcomeRefusedError: A check refused it.
            VerificationError: A check refused it, and the step cannot propose another one.
            HookError: A check raised, or its answer is invalid.
        """
        if self._failure is not None:
            raise self._failure
        proposal = Proposal(
            step_id=self._step_id,
            program=self._program,
            outcome=outcome,
            bindings=result.bindings,
            return_value=result.return_value,
        )
        for verification in self._refusals:
            feedback = await self._feedback(verification, proposal)
            if feedback is not None:
                await self._refuse(verification, feedback, is_last=is_last)

    async def _feedback(self, verification: Verification, proposal: Proposal) -> str | None:
        """Return the feedback of a check; None when the step is done."""
        name = _name_of(verification)
        match await self._ask(verification, proposal, name):
            case None | True:
                return None
            case False:
                return _DEFAULT_FEEDBACK
            case str() as text:
                return text.strip() or None
            case Continue(feedback=feedback):
                return feedback
            case answer:
                answered = f"step {self._step_id}: check {name} answered"
                remedy = "it must answer True or None for done; False, a text or Continue to go on"
                error = HookError(f"{answered} {answer!r}; {remedy}", hook=name)
                raise error.without_content(f"{answered} {type(answer).__name__}; {remedy}")

    async def _ask(self, verification: Verification, proposal: Proposal, name: str) -> object:
        environment = get_environment()
        policies = environment.policies.with_policy(self._during)
        with (
            failing_as_hook(f"step {self._step_id}: check {name}", hook=name),
            using_environment(replace(environment, policies=policies)),
        ):
            return await await_value(call_any(verification.check, proposal))

    async def _refuse(self, verification: Verification, feedback: str, *, is_last: bool) -> None:
        self._refusals[verification] += 1
        refusals = self._refusals[verification]
        name = _name_of(verification)
        await self._report(verification, name, feedback)
        if refusals < verification.max_refusals and not is_last:
            what = f"step {self._step_id}: check {name} refused the outcome"
            raise OutcomeRefusedError(f"{what}: {feedback}", feedback=feedback).without_content(what)
        times = "once" if refusals == 1 else f"{refusals} times"
        what = f"step {self._step_id}: check {name} refused the outcome ({times})"
        self._failure = VerificationError(f"{what}: {feedback}", feedback=feedback).without_content(what)
        raise self._failure

    async def _report(self, verification: Verification, name: str, feedback: str) -> None:
        event = VerificationRefused(
            execution_ref=get_environment().execution_ref,
            check=name,
            feedback=feedback,
            refusals=self._refusals[verification],
            max_refusals=verification.max_refusals,
        )
        await report(event)


def _name_of(verification: Verification) -> str:
    return callable_name(cast("Any", verification.check))
