"""A resilience baseline as a policy: several attempts at a step, each in its time."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from ...runtime.conclude import StepResult
from ...runtime.environment import Environment
from ...runtime.policies import Policies
from ...runtime.policy import InnerExtent, Policy, Position
from ...runtime.step_attempt import CarryOutAttempt
from ...types.unset import Unset
from .attempts import carry_out_attempts, within_timeout
from .resilience import StepBaseline, StepResilience, resilience_in_force

__all__ = ["AttemptsPolicy", "with_resilience"]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class AttemptsPolicy(Policy):
    """Gives each step another chance.

    Args:
        resilience: How often, with which models, and how long each attempt may take.
    """

    resilience: StepResilience

    position: ClassVar[Position] = Position.ATTEMPTS

    async def around_attempts(self, step_id: str, carry_out: CarryOutAttempt) -> StepResult:
        """Carry a block out until a step succeeds, or fails for good."""
        return await carry_out_attempts(step_id, self.resilience, carry_out, _adapted)

    async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:
        """Carry one step out in the time that it has."""
        timeout = self.resilience.timeout
        return await (proceed() if timeout is None else within_timeout(timeout, proceed))


def _adapted(environment: Environment, resilience: StepResilience) -> Environment:
    policies = environment.policies.with_policy(AttemptsPolicy(resilience))
    return replace(environment, step_executor=resilience.executor, policies=policies)


def with_resilience(policies: Policies, given: StepBaseline | Unset | None, extent: InnerExtent) -> Policies:
    """The policies with what `run` and `scope` were told of resilience.

    Args:
        policies: The policies without.
        given: What they were told; None for nothing, unset for no change besides the executor.
        extent: The run or scope.

    Raises:
        NighthawkError: It is no baseline.
        ConfigurationError: A model cannot be had.
    """
    outer = policies.find(AttemptsPolicy)
    resilience = resilience_in_force(
        None if outer is None else outer.resilience, given, extent.executor, is_added=extent.is_added
    )
    if resilience is None:
        return policies.without(AttemptsPolicy)
    return policies.with_policy(AttemptsPolicy(resilience))
