"""Gates of tool calls before they run, and of results before the model sees them. Floor 4.

    hooks -> oversight -> permissions -> budgets -> carried out -> hooks

A gate takes a call and gives the call to carry out: the same one, or one with other arguments, which are
validated like those of the model. It raises `ToolBoundaryError` to send the model a failure instead, and
anything else to fail the step. Each gate parses the arguments for itself, so that none can change what the
next one sees except by what it gives.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from ..runtime.budgets.steps import charge_tool_call
from ..runtime.environment import Environment
from ..runtime.hooks.calls import emit
from ..runtime.hooks.events import AfterToolCall, BeforeToolCall
from ..runtime.hooks.read_only import deeply_read_only
from ..runtime.oversight.decisions import overseen_arguments
from ..runtime.oversight.inspection import Oversight
from ..runtime.permissions.gate import permit_provided_tool, permit_tool
from ..runtime.tools.function import ToolFunction
from ..types.messages import ToolCall, ToolResult
from .provided_tools import PROVIDED_TOOLS
from .tool_arguments import parsed_arguments, with_arguments

__all__ = ["ToolGate", "gates_in_force", "seen_by_hooks"]

ToolGate: TypeAlias = Callable[[ToolCall], Awaitable[ToolCall]]


def gates_in_force(
    environment: Environment, functions: Mapping[str, ToolFunction], *, are_calls_counted: bool = True
) -> tuple[ToolGate, ...]:
    """The gates that calls pass, in their order; empty when nothing governs them.

    Permissions come after whatever may change a call: people approve exactly what is carried out.

    Args:
        environment: What is in force in the step.
        functions: The user's tools.
        are_calls_counted: Whether they are calls that budgets count.
    """
    gates: list[ToolGate] = []
    if environment.policies.hooks:
        gates.append(partial(_ask_hooks, environment))
    if environment.oversight is not None:
        gates.append(partial(_ask_oversight, environment, environment.oversight))
    if environment.policies.permissions:
        gates.append(partial(_ask_permissions, environment, functions))
    if are_calls_counted and environment.policies.budgets:
        gates.append(partial(_ask_budgets, environment))
    return tuple(gates)


async def seen_by_hooks(environment: Environment, result: ToolResult) -> ToolResult:
    """The result of a call, as the hooks in force let the model see it.

    Args:
        environment: What is in force in the step.
        result: What the call gave, or how it failed.

    Raises:
        HookError: A hook failed.
    """
    event = await emit(
        environment,
        AfterToolCall(
            execution_ref=environment.execution_ref,
            tool_name=result.name,
            call_id=result.call_id,
            content=result.content,
            is_error=result.is_error,
        ),
    )
    return result if event.content is result.content else replace(result, content=event.content)


async def _ask_hooks(environment: Environment, call: ToolCall) -> ToolCall:
    arguments = deeply_read_only(parsed_arguments(call))
    event = await emit(
        environment,
        BeforeToolCall(
            execution_ref=environment.execution_ref,
            tool_name=call.name,
            call_id=call.id,
            arguments=arguments,
        ),
    )
    if event.arguments is arguments:  # no hook answered `Modify`, which takes a copy
        return call
    return with_arguments(call, event.arguments, author="A hook")


async def _ask_oversight(environment: Environment, oversight: Oversight, call: ToolCall) -> ToolCall:
    told = deeply_read_only(parsed_arguments(call))
    arguments = await overseen_arguments(environment, oversight, call.name, told)
    return call if arguments is None else with_arguments(call, arguments, author="Oversight")


async def _ask_budgets(environment: Environment, call: ToolCall) -> ToolCall:
    await charge_tool_call(environment, call.name)
    return call


async def _ask_permissions(
    environment: Environment, functions: Mapping[str, ToolFunction], call: ToolCall
) -> ToolCall:
    function = functions.get(call.name)
    if function is None or call.name in PROVIDED_TOOLS:
        await permit_provided_tool(environment, call.name, parsed_arguments(call))
    else:
        await permit_tool(environment, function, call.arguments)
    return call
