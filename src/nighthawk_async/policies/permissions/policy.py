"""Permissions as a policy, and names that a block does not mention hidden as another one."""

from dataclasses import dataclass
from typing import ClassVar

from ...natural.blocks import NaturalBlock
from ...runtime.call_guard import CallGuard
from ...runtime.environment import get_environment
from ...runtime.policies import Policies
from ...runtime.policy import InnerExtent, Policy, Position
from ...runtime.step_context import StepContext
from ...runtime.tool_arguments import parsed_arguments
from ...runtime.tool_function import ToolFunction
from ...types.messages import ToolCall
from .gate import make_call_guard, permit_provided_tool, permit_tool
from .permissions import Permissions, added_permissions
from .visible_names import hide_unnamed

__all__ = ["PermissionPolicy", "VisibleNamesPolicy", "with_permissions"]


@dataclass(frozen=True, slots=True, eq=False)
class PermissionPolicy(Policy):
    """Lets only permitted calls be made, by models and by what they write.

    Args:
        sets: The permissions, which all hold, those of outer scopes first.
    """

    sets: tuple[Permissions, ...]

    position: ClassVar[Position] = Position.PERMISSIONS
    holds_in_inner_runs: ClassVar[bool] = True

    def guard_calls(self, context: StepContext) -> CallGuard:
        """The guard of the calls that the step's code makes."""
        return make_call_guard(self.sets, context)

    async def guard_tool_call(
        self, call: ToolCall, function: ToolFunction | None, *, is_counted: bool
    ) -> ToolCall:
        """Let a call be made, or not, or ask people about it."""
        if function is None:
            await permit_provided_tool(self.sets, call.name, parsed_arguments(call))
        else:
            await permit_tool(self.sets, function, call.arguments)
        return call


class VisibleNamesPolicy(Policy):
    """Shows a step only what its block names (`StepContextLimits.visible_names`)."""

    position: ClassVar[Position] = Position.VISIBLE_NAMES

    def prepare(self, context: StepContext, block: NaturalBlock) -> None:
        """Hide the other names."""
        hide_unnamed(context, block, get_environment().implicit_references)

    def guard_calls(self, context: StepContext) -> CallGuard:
        """The guard that keeps code from reaching them by other ways, where there are no permissions."""
        return make_call_guard((), context)


def with_permissions(policies: Policies, permissions: Permissions | None, extent: InnerExtent) -> Policies:
    """The policies with what `run` and `scope` were told of permissions.

    Args:
        policies: The policies without; their permissions hold as well.
        permissions: What is permitted; None for no change.
        extent: The run or scope.

    Raises:
        NighthawkError: It is something else.
    """
    if permissions is None:
        return policies
    outer = policies.find(PermissionPolicy)
    return policies.with_policy(
        PermissionPolicy(added_permissions(() if outer is None else outer.sets, permissions))
    )
