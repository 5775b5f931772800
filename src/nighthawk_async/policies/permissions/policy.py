"""Permissions as a policy, and names that a block does not mention hidden as another one."""

import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, cast, get_args

from ...errors import ExecutionError, HumanError
from ...natural.blocks import NaturalBlock
from ...runtime.annotations import return_type
from ...runtime.commands import CallGuard
from ...runtime.environment import get_environment
from ...runtime.events import PermissionDecided
from ...runtime.policies import Policies
from ...runtime.policy import InnerScope, Policy, Position
from ...runtime.reporting import report_at_once
from ...runtime.step_context import StepContext
from ...runtime.tool_calls import parsed_arguments
from ...runtime.tool_function import ToolFunction
from ...types.messages import ToolCall
from ..people.approvals import request_approval
from ..people.errors import UndigestibleArgumentError
from .call import CallArguments, PermissionCall, describe_call
from .guarded_calls import CallGuard as PermissionCallGuard
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
    """The guard of the calls that a step's code makes.

    Args:
        sets: The active permissions; none where the step only sees no more than its block names.
        context: The state of the step.
    """
    if context.visible_builtins is not None:
        sets = (*sets, NO_INTERNALS)
    return PermissionCallGuard(context, sets, tools=get_environment().tool_scope, ask=_ask, report=_report)


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
        approval = await request_approval(call.action, arguments=_shown_arguments(call))
        approval.check(call.action, _shown_arguments(call))  # the object may have other attributes now
    except (HumanError, UndigestibleArgumentError) as error:
        raise refusal_after_asking(call, error) from error


def _shown_arguments(call: PermissionCall) -> dict[str, object]:
    """The arguments that people are told."""
    given = {name: call.arguments[name] for name in call.arguments if name in call.given}
    if call.unclear_receiver is not None and (fields := fields_of(call.unclear_receiver)):
        given["**self" if "self" in given else "self"] = fields
    return given


def _report(call: PermissionCall, decision: PermissionDecision) -> None:
    """Report a decision."""
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
    """Leave a step only what its block names.

    That is what its author wrote in angle brackets, the exception types that it may raise, the scope's
    implicit references, and the classes of the values that it has to produce. An implicit reference hides a
    local variable of its name that the block does not name.

    Args:
        context: The state of the step, which has not begun.
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
    """The classes in the types of write bindings and of the return value, by their names in the block."""
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
    except ExecutionError:  # a block that returns a value is told
        return ()


def _classes_in(annotations: Iterable[object]) -> Iterator[type]:
    """The classes that annotations are made of; of a member in `Literal`, its enumeration."""
    for annotation in annotations:
        if issubclass(type(annotation), type):  # not isinstance, which asks the value for its __class__
            yield cast("type", annotation)
        elif issubclass(type(annotation), Enum):
            yield type(annotation)
        yield from _classes_in(get_args(annotation))
        yield from _classes_in([value] if (value := getattr(annotation, "__value__", None)) else [])


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


def with_permissions(policies: Policies, permissions: Permissions | None, inner: InnerScope) -> Policies:
    """The policies with what `run` and `scope` were told of permissions.

    Args:
        policies: The policies without; their permissions hold as well.
        permissions: The permissions; None for no change.
        inner: The run or scope.

    Raises:
        NighthawkError: It is something else.
    """
    if permissions is None:
        return policies
    outer = policies.find(PermissionPolicy)
    return policies.with_policy(
        PermissionPolicy(added_permissions(() if outer is None else outer.sets, permissions))
    )
