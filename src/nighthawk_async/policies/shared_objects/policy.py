"""The guard of shared objects as a policy. What it reports, and its limits, say `report`."""

from dataclasses import dataclass
from typing import ClassVar, get_args

from ...errors import NighthawkError
from ...natural.blocks import NaturalBlock
from ...runtime.policies import Policies
from ...runtime.policy import InnerExtent, Policy, Position
from ...runtime.step_context import StepContext
from .guard import MutationGuard
from .report import ConcurrentMutation

__all__ = ["SharedObjectsPolicy", "with_concurrent_mutation"]


@dataclass(frozen=True, slots=True, eq=False)
class SharedObjectsPolicy(Policy):
    """Notices when a step changes what another step in flight has bound.

    Args:
        mode: What happens then.
    """

    mode: ConcurrentMutation

    position: ClassVar[Position] = Position.SHARED_OBJECTS

    def guard_commands(self, context: StepContext, block: NaturalBlock) -> MutationGuard:
        """The guard of one step."""
        return MutationGuard(context, mode=self.mode, filename=block.filename, line=block.line)


def with_concurrent_mutation(policies: Policies, mode: ConcurrentMutation, extent: InnerExtent) -> Policies:
    """The policies with what `run` and `scope` were told of concurrent mutation.

    Args:
        policies: The policies without.
        mode: What happens when a step changes what another one has bound.
        extent: The run or scope.

    Raises:
        NighthawkError: It is no such mode.
    """
    if mode not in get_args(ConcurrentMutation):
        raise NighthawkError(
            f"concurrent_mutation must be one of {get_args(ConcurrentMutation)}, not {mode!r}"
        )
    if mode == "ignore":
        return policies.without(SharedObjectsPolicy)
    return policies.with_policy(SharedObjectsPolicy(mode))
