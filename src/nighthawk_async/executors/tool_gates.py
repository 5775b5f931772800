"""Policies at a tool call: before it is carried out, and before the model sees its result."""

from collections.abc import Mapping

from ..runtime.policies import Policies
from ..runtime.tool_function import ToolFunction
from ..types.messages import ToolCall, ToolResult
from .provided_tools import PROVIDED_TOOLS

__all__ = ["admitted_call", "shown_result"]


async def admitted_call(
    policies: Policies, call: ToolCall, functions: Mapping[str, ToolFunction], *, is_counted: bool = True
) -> ToolCall:
    """Let a call pass the active policies, outermost first; see `policy.Policy.before_tool_call`.

    Each policy parses the arguments for itself, so that none can change what the next one sees except by the
    call that it gives.

    Args:
        policies: The policies of the step.
        call: The call.
        functions: The tools of the program.
        is_counted: Whether it is a call that budgets count.

    Returns:
        The call to carry out.

    Raises:
        ToolBoundaryError: It is not carried out; the model is told why.
    """
    function = None if call.name in PROVIDED_TOOLS else functions.get(call.name)
    for policy in policies.that("guard_tool_call"):
        call = await policy.guard_tool_call(call, function, is_counted=is_counted)
    return call


async def shown_result(policies: Policies, result: ToolResult) -> ToolResult:
    """The result of a call as the active policies let the model see it, innermost first.

    Args:
        policies: The policies of the step.
        result: What the call gave, or how it failed.

    Raises:
        HookError: A hook failed.
    """
    for policy in reversed(policies.that("after_tool_call")):
        result = await policy.after_tool_call(result)
    return result
