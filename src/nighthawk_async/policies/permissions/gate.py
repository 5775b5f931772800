"""Permissions at work in a step: asking people, and telling of decisions.

A denial, and a request for approval, is an event on the current span and for hooks. Neither holds the values
of arguments.
"""

from collections.abc import Mapping, Sequence

from opentelemetry import trace

from ...errors import HumanError
from ...runtime.environment import get_environment
from ...runtime.events import PermissionDecided
from ...runtime.step_context import StepContext
from ...runtime.tool_function import ToolFunction
from ..people.approvals import request_approval
from ..people.errors import UndigestibleArgumentError
from .call import CallArguments, PermissionCall, describe_call
from .guarded_calls import CallGuard
from .internals import NO_INTERNALS
from .permissions import PermissionDecision, Permissions, decide
from .receivers import fields_of
from .refusals import refusal_after_asking, refusal_of_call

__all__ = ["make_call_guard", "permit_provided_tool", "permit_tool"]


def make_call_guard(sets: Sequence[Permissions], context: StepContext) -> CallGuard:
    """The guard of the calls that a step's code makes.

    Args:
        sets: The active permissions; none where the step only sees no more than its block names.
        context: The state of the step.
    """
    if context.visible_builtins is not None:
        sets = (*sets, NO_INTERNALS)
    return CallGuard(context, sets, tools=get_environment().tool_scope, ask=_ask, report=_report)


async def permit_tool(sets: Sequence[Permissions], function: ToolFunction, arguments: str) -> None:
    """Let a tool of the program be called.

    Args:
        sets: The active permissions.
        function: The tool.
        arguments: The arguments as the model gave them, in JSON.

    Raises:
        ToolBoundaryError: The call is not permitted, or the arguments do not fit.
        HookError: A rule failed, or a hook did.
    """
    given = function.validated(arguments)
    values = CallArguments(values={**function.defaults, **given}, given=frozenset(given))
    call = describe_call(function.function, values, kind="tool", tool_name=function.name)
    await _permit(call, decide(sets, call))


async def permit_provided_tool(
    sets: Sequence[Permissions], name: str, arguments: Mapping[str, object]
) -> None:
    """Let a tool of the runtime be called. It is allowed unless a rule is about it.

    Args:
        sets: The active permissions.
        name: The tool.
        arguments: The arguments.

    Raises:
        ToolBoundaryError: The call is not permitted.
        HookError: A rule failed, or a hook did.
    """
    call = PermissionCall(
        name=name, kind="tool", arguments=arguments, callable=None, names=(name,), given=frozenset(arguments)
    )
    await _permit(call, decide(sets, call, default="allow"))


async def _permit(call: PermissionCall, decision: PermissionDecision) -> None:
    if decision.verdict == "allow":
        return
    _report(call, decision)
    if decision.verdict == "deny":
        raise refusal_of_call(call, decision)
    await _ask(call)


async def _ask(call: PermissionCall) -> None:
    """Ask people about a call.

    Raises:
        ToolBoundaryError: It was not approved.
    """
    try:
        approval = await request_approval(call.action, arguments=_told(call))
        approval.check(call.action, _told(call))  # the object may have other attributes now
    except (HumanError, UndigestibleArgumentError) as error:
        raise refusal_after_asking(call, error) from error


def _told(call: PermissionCall) -> dict[str, object]:
    """The arguments that people are told."""
    given = {name: call.arguments[name] for name in call.arguments if name in call.given}
    if call.unclear_receiver is not None and (fields := fields_of(call.unclear_receiver)):
        given["**self" if "self" in given else "self"] = fields
    return given


def _report(call: PermissionCall, decision: PermissionDecision) -> None:
    """Tell of a decision."""
    environment = get_environment()
    span = trace.get_current_span()
    if span.is_recording():
        span.add_event(
            "nighthawk.permission.decided",
            {
                "nighthawk.permission.name": call.name,
                "nighthawk.permission.kind": call.kind,
                "nighthawk.permission.decision": decision.verdict,
                "nighthawk.permission.rule": decision.rule or "default",
            },
        )
    if environment.policies.that("report"):
        event = PermissionDecided(
            execution_ref=environment.execution_ref,
            name=call.name,
            kind=call.kind,
            decision=decision.verdict,
            rule=decision.rule,
        )
        environment.policies.report_at_once(event)
