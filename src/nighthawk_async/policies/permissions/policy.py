"""Policies that check permissions, and that hide the names that a block does not mention."""

import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, cast, get_args

from ...errors import ExecutionError, HumanError
from ...kernel.commands import CallGuard
from ...kernel.context import StepContext
from ...kernel.declared_types import return_type
from ...kernel.environment import get_environment
from ...kernel.events import PermissionDecided, report_at_once
from ...kernel.fold import ToolCallProceed
from ...kernel.policy import InnerScope, Policies, Policy, Position
from ...kernel.step import Step
from ...kernel.tool_calls import parsed_arguments
from ...kernel.tool_sets import ForeignTool
from ...kernel.tools import Tool, ToolFunction
from ...natural.blocks import NaturalBlock
from ...types.messages import ToolCall, ToolResult
from ..people.approvals import ask_for_approval
from ..people.errors import UndigestibleArgumentError
from .call import CallArguments, PermissionCall, describe_call
from .guarded_calls import CallGuard as PermissionCallGuard
from .implementations import implementation_of
from .internals import NO_INTERNALS
from .permissions import (
    PermissionDecision,
    Permissions,
    added_permissions,
    decide,
    refusal_after_asking,
    refusal_of_call,
)
from .receivers import fields_of


def make_call_guard(sets: Sequence[Permissions], context: StepContext) -> CallGuard:
    """Return the guard of the calls that a step's code makes.

    Args:
        sets: The active permissions; empty when the step is only limited to the names in its block.
        context: The state of the step.
    """
    if context.visible_builtins is not None:
        sets = (*sets, NO_INTERNALS)
    return PermissionCallGuard(context, sets, tools=get_environment().tool_scope, ask=_ask, report=_report)


async def permit_tool(sets: Sequence[Permissions], function: Tool, arguments: str) -> None:
    """Check the call of a tool of the program, and ask people if it needs an approval.

    Args:
        sets: The active permissions.
        function: The tool.
        arguments: The arguments as the model gave them, in JSON.

    Raises:
        ToolBoundaryError: The call is not permitted, or the arguments do not fit.
        HookError: A rule or a hook failed.
    """
    given = function.validated(arguments)
    values = CallArguments(values={**function.defaults, **given}, given=frozenset(given))
    if isinstance(function, ToolFunction):
        call = describe_call(function.function, values, kind="tool", tool_name=function.name)
    else:  # the function of a foreign tool may serve many of them, so its names identify none
        call = _call_of_foreign_tool(function, values)
    await _permit(call, decide(sets, call))


def _call_of_foreign_tool(tool: Tool, arguments: CallArguments) -> PermissionCall:
    return PermissionCall(
        name=tool.name,
        kind="tool",
        arguments=arguments.values,
        callable=None,
        names=(tool.name,),
        given=arguments.given,
        definition_digest=tool.definition_digest if isinstance(tool, ForeignTool) else None,
    )


async def permit_provided_tool(
    sets: Sequence[Permissions], name: str, arguments: Mapping[str, object]
) -> None:
    """Check the call of a tool of the runtime, which is allowed unless a rule matches; see `permit_tool`.

    Args:
        sets: The active permissions.
        name: The tool.
        arguments: The arguments.

    Raises:
        ToolBoundaryError: The call is not permitted.
        HookError: A rule or a hook failed.
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
        shown, implementation = _shown_arguments(call), implementation_of(call)
        approval = await ask_for_approval(call.action, shown, implementation=implementation)
        approval.check(call.action, _shown_arguments(call))  # the object may have other attributes now
    except (HumanError, UndigestibleArgumentError) as error:
        raise refusal_after_asking(call, error) from error


def _shown_arguments(call: PermissionCall) -> dict[str, object]:
    """Return the arguments to show to people."""
    given = {name: call.arguments[name] for name in call.arguments if name in call.given}
    if call.unclear_receiver is not None and (fields := fields_of(call.unclear_receiver)):
        given["**self" if "self" in given else "self"] = fields
    if call.definition_digest is not None:
        given["**definition" if "definition" in given else "definition"] = call.definition_digest()
    return given


def _report(call: PermissionCall, decision: PermissionDecision) -> None:
    event = PermissionDecided(
        execution_ref=get_environment().execution_ref,
        name=call.name,
        kind=call.kind,
        decision=decision.verdict,
        rule=decision.rule,
    )
    report_at_once(event)


def hide_unnamed(
    context: StepContext,
    block: NaturalBlock,
    implicit_references: Mapping[str, object],
) -> None:
    """Hide all names from a step but those that its block mentions.

    Visible are the names in angle brackets, the exception types that it may raise, the implicit references of
    the scope, and the classes of the values that it has to produce. An implicit reference hides a local
    variable of the same name that the block does not mention.

    Args:
        context: The state of the step, before it starts.
        block: The block.
        implicit_references: Names that the scope makes available.
    """
    named = block.named.union(context.raise_error_types)
    types = dict(_types_to_produce(context))
    own = (named | types.keys()).intersection(context.step_locals)
    others = (named - block.local_names - block.free_names) | types.keys() | implicit_references.keys()
    for name in context.step_locals.keys() - own:
        del context.step_locals[name]
    globals_, others = context.step_globals, others - own
    context.referenced_globals = {name: globals_[name] for name in others if name in globals_}
    context.visible_builtins = frozenset(
        name for name in others if name not in globals_ and name in vars(builtins)
    )


def _types_to_produce(context: StepContext) -> Iterator[tuple[str, type]]:
    """Yield the classes in the types of write bindings and the return value, by their names in the block."""
    for kind in _classes_in((*context.binding_types.values(), *_return_types(context))):
        name = kind.__name__
        scope = context.step_locals if name in context.step_locals else context.step_globals
        if scope.get(name) is kind:
            yield name, kind


def _return_types(context: StepContext) -> tuple[object, ...]:
    if "return" not in context.allowed_kinds:
        return ()
    try:
        return (return_type(context),)
    except ExecutionError:  # reported later, if the block returns a value
        return ()


def _classes_in(annotations: Iterable[object]) -> Iterator[type]:
    """Yield the classes in annotations; for an enumeration member in `Literal`, its enumeration."""
    for annotation in annotations:
        if issubclass(type(annotation), type):  # not isinstance, which asks the value for its __class__
            yield cast("type", annotation)
        elif issubclass(type(annotation), Enum):
            yield type(annotation)
        yield from _classes_in(get_args(annotation))
        yield from _classes_in([value] if (value := getattr(annotation, "__value__", None)) else [])


def hide_other_names(step: Step) -> None:
    """Hide all names from a step but those of `hide_unnamed`, and keep code from reaching them otherwise."""
    hide_unnamed(step.context, step.block, get_environment().implicit_references)
    step.actor.call_guard = make_call_guard((), step.context)


@dataclass(frozen=True, slots=True, eq=False)
class PermissionPolicy(Policy):
    """Checks the calls that models and their code make.

    Args:
        sets: The permissions, which all apply, those of parent scopes first.
    """

    sets: tuple[Permissions, ...]

    position: ClassVar[Position] = Position.PERMISSIONS
    holds_in_inner_runs: ClassVar[bool] = True

    def prepare(self, step: Step) -> None:
        """Guard the calls that the step's code makes."""
        step.actor.call_guard = make_call_guard(self.sets, step.context)

    async def around_tool_call(self, call: ToolCall, proceed: ToolCallProceed) -> ToolResult:
        """Check a call, and ask people if it needs an approval."""
        if proceed.tool is None:
            await permit_provided_tool(self.sets, call.name, parsed_arguments(call))
        else:
            await permit_tool(self.sets, proceed.tool, call.arguments)
        return await proceed()


def with_permissions(policies: Policies, permissions: Permissions | None, inner: InnerScope) -> Policies:
    """Add the `permissions` argument of `run` and `scope` to the policies.

    Args:
        policies: The policies before; their permissions stay active.
        permissions: The permissions; None for no change.
        inner: The run or scope.

    Raises:
        NighthawkError: The argument is not permissions.
    """
    if permissions is None:
        return policies
    parent = policies.find(PermissionPolicy)
    return policies.with_policy(
        PermissionPolicy(added_permissions(() if parent is None else parent.sets, permissions))
    )
