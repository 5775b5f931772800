"""`scope`: an extent inside a run in which some things are different (specification 10). Floor 3."""

import keyword
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import Literal, cast

from ..configuration import StepExecutorConfiguration
from ..errors import NighthawkError
from ..types.unset import UNSET, Unset
from .attempts.resilience import StepBaseline, resilience_in_force
from .budgets.account import in_force
from .budgets.budget import Budget, with_budget_arguments
from .environment import Environment, get_environment, using_environment
from .hooks.extents import scope_events
from .hooks.registry import Hooks, combined_hooks
from .human.handler import HumanHandler, checked_human_handler
from .nesting import inner_max_depth
from .oversight.inspection import Oversight, checked_oversight
from .oversight.verification import Verify, checked_verifications
from .permissions.permissions import Permissions, added_permissions
from .policies import Policies
from .step_executor import ConfigurableStepExecutor, StepExecutor, check_executor
from .tools.registry import ToolScope
from .tracing import identity_attributes, span
from .usage_meter import UsageMeter

__all__ = ["Scope", "scope"]


class Scope:
    """The extent of a scope; enter it with `with` or with `async with`. Gives the step executor in force.

    Args:
        resolve: Gives the environment inside for the one around.
    """

    def __init__(self, resolve: Callable[[Environment], Environment]) -> None:
        self._resolve = resolve
        self._outer = get_environment()
        self._environment = resolve(self._outer)  # at once, so that bad arguments are refused here
        self._stack = ExitStack()
        self._async_stack = AsyncExitStack()
        self._is_entered = False

    def __enter__(self) -> StepExecutor:
        with ExitStack() as stack:
            self._enter_extent(stack)
            stack.enter_context(scope_events(self._environment))
            self._stack = stack.pop_all()
        return self._environment.step_executor

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(exc_type, exc, traceback)

    async def __aenter__(self) -> StepExecutor:
        async with AsyncExitStack() as stack:
            self._enter_extent(stack)
            await stack.enter_async_context(scope_events(self._environment))
            self._async_stack = stack.pop_all()
        return self._environment.step_executor

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._async_stack.__aexit__(exc_type, exc, traceback)

    def _enter_extent(self, stack: ExitStack | AsyncExitStack) -> None:
        if self._is_entered:
            raise NighthawkError(
                "A scope can be entered once; call nighthawk_async.scope again for another scope."
            )
        self._is_entered = True
        outer = get_environment()
        if outer is not self._outer:  # what is in force counts when the scope is entered
            self._environment = self._resolve(outer)
        stack.enter_context(span("nighthawk.scope", identity_attributes(self._environment.execution_ref)))
        stack.enter_context(using_environment(self._environment))
        stack.enter_context(in_force(self._environment.policies.budgets))


def scope(
    *,
    scope_id: str | None = None,
    mode: Literal["inherit", "replace"] = "inherit",
    step_executor_configuration: StepExecutorConfiguration | None = None,
    step_executor: StepExecutor | None = None,
    oversight: Oversight | Unset | None = UNSET,
    hooks: Hooks | Sequence[Hooks] | None = None,
    verify: Verify | None = None,
    human: HumanHandler | Unset | None = UNSET,
    permissions: Permissions | None = None,
    budget: Budget | None = None,
    step_budget: Budget | None = None,
    resilience: StepBaseline | Unset | None = UNSET,
    max_depth: int | None = None,
    system_prompt_suffix_fragments: Sequence[str] | None = None,
    user_prompt_suffix_fragments: Sequence[str] | None = None,
    implicit_references: Mapping[str, object] | None = None,
) -> Scope:
    """Carry out the steps inside with some things different.

    Args:
        scope_id: The id of the scope; None makes a new one.
        mode: `inherit` appends fragments, adds hooks and checks, merges references; `replace` replaces
            what is given. None means no change in both modes; in `replace` mode an empty list or mapping
            clears.
        step_executor_configuration: Another configuration for the executor.
        step_executor: Another executor.
        oversight: What inspects tool calls and commits; None for nothing, omitted for no change.
        hooks: What is called for events, after the hooks of outer scopes. An object that is in force already
            is not called twice. When the scope is entered with `with`, the hooks of its own beginning and end
            must be `def`.
        verify: What says whether a step inside is done: a function of a `Proposal`, or several, or what
            `nighthawk_async.verification` gives. Those of outer scopes must agree as well, unless
            `mode` replaces them.
        human: What asks people, for `ask_user` and `request_approval`; None for nobody, omitted for no
            change.
        permissions: Which calls are permitted; see `nighthawk_async.permissions`. Those in force already hold
            as well, in both modes.
        budget: What all steps inside may spend together; see `nighthawk_async.budget`. Outer ones hold as
            well, in both modes.
        step_budget: What each step inside may spend, by an account of its own; likewise.
        resilience: What gives each step inside another chance: a `nighthawk_async.resilience.Baseline`; None
            for nothing, omitted for no change. Where it says nothing, what holds around it goes on, unless
            `mode` replaces it.
        max_depth: How many steps inside may be within each other; see `nighthawk_async.run`. Outer limits
            hold as well, in both modes. None for no change.
        system_prompt_suffix_fragments: Texts appended to system prompts.
        user_prompt_suffix_fragments: Texts appended to user prompts.
        implicit_references: Names and values that every block inside can use without mentioning them.

    Returns:
        A context manager, for `with` and for `async with`, that gives the executor in force.

    Raises:
        NighthawkError: No run is active, the mode or an argument is not one of those above, the executor
            takes no configuration, or a reference is already bound to something else.
        ConfigurationError: The model of the configuration cannot be had.
    """
    if mode not in ("inherit", "replace"):
        raise NighthawkError(f"mode must be 'inherit' or 'replace', not {mode!r}")
    is_added = mode == "inherit"

    def resolve(outer: Environment) -> Environment:
        executor = _resolve_executor(outer.step_executor, step_executor, step_executor_configuration)
        return replace(
            outer,
            execution_ref=replace(outer.execution_ref, scope_id=_checked_scope_id(scope_id)),
            step_executor=executor,
            tool_scope=ToolScope(outer.tool_scope),
            usage_meter=UsageMeter(outer.usage_meter),
            max_depth=outer.max_depth if max_depth is None else inner_max_depth(outer.max_depth, max_depth),
            policies=with_budget_arguments(
                _policies(
                    outer.policies,
                    oversight=oversight,
                    hooks=hooks,
                    verify=verify,
                    human=human,
                    permissions=permissions,
                    resilience=resilience,
                    executor=executor,
                    is_added=is_added,
                ),
                budget=budget,
                step_budget=step_budget,
            ),
            system_prompt_suffix_fragments=_fragments(
                outer.system_prompt_suffix_fragments, system_prompt_suffix_fragments, is_added=is_added
            ),
            user_prompt_suffix_fragments=_fragments(
                outer.user_prompt_suffix_fragments, user_prompt_suffix_fragments, is_added=is_added
            ),
            implicit_references=_references(
                outer.implicit_references, implicit_references, is_added=is_added
            ),
        )

    return Scope(resolve)


def _checked_scope_id(scope_id: str | None) -> str:
    if scope_id is not None and not isinstance(cast("object", scope_id), str):
        raise NighthawkError(f"scope_id must be a text, not {scope_id!r}")
    return scope_id or uuid.uuid4().hex


def _policies(
    outer: Policies,
    *,
    oversight: Oversight | Unset | None,
    hooks: Hooks | Sequence[Hooks] | None,
    verify: Verify | None,
    human: HumanHandler | Unset | None,
    permissions: Permissions | None,
    resilience: StepBaseline | Unset | None,
    executor: StepExecutor,
    is_added: bool,
) -> Policies:
    policies = outer
    if not isinstance(oversight, Unset):
        policies = replace(policies, oversight=checked_oversight(oversight))
    if hooks is not None:
        policies = replace(policies, hooks=combined_hooks(outer.hooks if is_added else (), hooks))
    if verify is not None:
        added = outer.verifications if is_added else ()
        policies = replace(policies, verifications=(*added, *checked_verifications(verify)))
    if not isinstance(human, Unset):
        policies = replace(policies, human=checked_human_handler(human))
    if permissions is not None:
        policies = replace(policies, permissions=added_permissions(outer.permissions, permissions))
    if outer.resilience is not None or not isinstance(resilience, Unset):
        inside = resilience_in_force(outer.resilience, resilience, executor, is_added=is_added)
        policies = replace(policies, resilience=inside)
    return policies


def _resolve_executor(
    current: StepExecutor, given: StepExecutor | None, configuration: StepExecutorConfiguration | None
) -> StepExecutor:
    executor = current if given is None else given
    check_executor(executor)
    if configuration is None:
        return executor
    if not isinstance(executor, ConfigurableStepExecutor):
        raise NighthawkError(
            f"{type(executor).__name__} takes no StepExecutorConfiguration; pass step_executor=… instead."
        )
    return executor.with_configuration(configuration)


def _fragments(current: tuple[str, ...], given: Sequence[str] | None, *, is_added: bool) -> tuple[str, ...]:
    if given is None:
        return current
    if isinstance(given, str) or not all(isinstance(cast("object", text), str) for text in given):
        raise NighthawkError(f"Prompt suffix fragments must be a sequence of texts, not {given!r}.")
    return (*current, *given) if is_added else tuple(given)


def _references(
    current: Mapping[str, object], given: Mapping[str, object] | None, *, is_added: bool
) -> Mapping[str, object]:
    if given is None:
        return current
    for name in given:
        if not _is_usable_name(name):
            raise NighthawkError(f"The implicit reference {name!r} is no name a block can use.")
        if is_added and name in current and current[name] is not given[name]:
            raise NighthawkError(
                f"The implicit reference {name!r} is already bound to another object; use mode='replace'."
            )
    return MappingProxyType({**current, **given} if is_added else dict(given))


def _is_usable_name(name: object) -> bool:
    return (
        isinstance(name, str)
        and name.isidentifier()
        and not keyword.iskeyword(name)
        and not name.startswith("__")
    )
