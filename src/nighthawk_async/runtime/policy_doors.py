"""Calls of a step to its policies: each is loaded when one of its kind is active. Floor 3.

See `policies` for why. Whether there is a policy of its kind is asked here alone; what each function does
then, the one of the same purpose behind it says.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..types.outcomes import StepOutcome
from .conclude import StepResult
from .environment import Environment
from .step import Inspect, Step, Verify
from .step_context import StepContext

if TYPE_CHECKING:
    from .hooks.registry import Hooks
    from .hooks.steps import InTime
    from .oversight.verification import Verification
    from .partial_delivery import PartialDelivery
    from .permissions.guarded_calls import CallGuard

__all__ = [
    "call_guard_of",
    "carry_out_with_events",
    "carry_out_within_timeout",
    "commit_inspector_of",
    "partial_delivery_of",
    "verifier_of",
]

Result = TypeVar("Result")


def call_guard_of(environment: Environment, context: StepContext) -> CallGuard | None:
    """See `permissions.gate.make_call_guard`."""
    if not environment.policies.permissions and context.visible_builtins is None:
        return None
    from .permissions.gate import make_call_guard

    return make_call_guard(environment, context)


def verifier_of(
    environment: Environment, own: Sequence[Verification], *, step_id: str, program: str
) -> Verify | None:
    """See `oversight.verifier.make_verifier`."""
    policies = environment.policies
    if policies.is_verifying or not (own or policies.verifications):
        return None
    from .oversight.verifier import make_verifier

    return make_verifier(environment, own, step_id=step_id, program=program)


def commit_inspector_of(environment: Environment, step: Step) -> Inspect | None:
    """See `oversight.commits.make_commit_inspector`."""
    if environment.oversight is None and not environment.policies.hooks:
        return None
    from .oversight.commits import make_commit_inspector

    return make_commit_inspector(environment, step)


def carry_out_with_events(
    environment: Environment,
    step: Step,
    carry_out: Callable[[], Awaitable[tuple[StepOutcome, StepResult]]],
    *,
    in_time: InTime,
) -> Awaitable[tuple[StepOutcome, StepResult]]:
    """See `hooks.steps.with_step_events`."""
    if not environment.policies.hooks:
        return in_time(carry_out)
    from .hooks.steps import with_step_events

    return with_step_events(environment, step, carry_out, in_time=in_time)


def partial_delivery_of(
    environment: Environment, step: Step, on_partial: Hooks | None
) -> PartialDelivery | None:
    """See `partial_delivery.PartialDelivery`."""
    policies = environment.policies
    if on_partial is None and step.actor.node is None and not (policies.hooks or policies.partial_sinks):
        return None
    from .partial_delivery import PartialDelivery

    return PartialDelivery(environment, step, on_partial)


async def carry_out_within_timeout(environment: Environment, work: Callable[[], Awaitable[Result]]) -> Result:
    """See `attempts.attempts.within_timeout`."""
    from .attempts.attempts import within_timeout

    return await within_timeout(environment, work)
