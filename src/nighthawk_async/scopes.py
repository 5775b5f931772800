"""`scope`: a part of a run with other settings (specification 10)."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Literal, Never, ParamSpec, TypeVar, cast

from .configuration import StepExecutorConfiguration
from .errors import NighthawkError
from .executors.choice import ExecutorChoice, chosen_inner_executor
from .kernel.context import ConfigurableStepExecutor, StepExecutor
from .kernel.environment import OPEN_RUNS, Environment, find_environment, get_environment, using_environment
from .kernel.policy import InnerScope, Policies, Policy, Position, enter_scope, enter_scope_async
from .kernel.reports import KernelActivity
from .kernel.run_state import inner_max_depth
from .kernel.tool_sets import sets_of
from .kernel.tools import ToolScope, ToolSet, ToolSource
from .kernel.usage_meter import UsageMeter
from .lazy_exports import LazyModule
from .natural.program import is_usable_name
from .parallel.calling import wrap_calls
from .policies.arguments import (
    attempt_types,
    budget_types,
    egress_types,
    given_policies,
    hook_types,
    mutation_types,
    oversight_types,
    people_types,
    permission_types,
    with_arguments,
)
from .tracing import traced
from .types.code import CodeLevel, CodeLevelName
from .types.json import is_text
from .types.unset import UNSET, Unset

if TYPE_CHECKING:
    from .skills import skill as skill_types
    from .transcripts.transcript import Transcript
else:
    Transcript = object
    skill_types = LazyModule("nighthawk_async.skills.skill")  # few programs have skills

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Scope:
    """Context manager of a scope, for `with` and for `async with`. Returns the active step executor.

    It is a decorator as well, also outside of a run: `@nh.scope(budget=nh.budget(cost=1))`.

    Args:
        resolve: Returns the environment of the scope for that of its parent.
    """

    def __init__(self, resolve: Callable[[Environment], Environment]) -> None:
        self._resolve = resolve
        self._parent = parent = find_environment()
        self._environment = None if parent is None else resolve(parent)  # now, to refuse bad arguments here
        self._stack = ExitStack()
        self._async_stack = AsyncExitStack()
        self._is_entered = False

    def __enter__(self) -> StepExecutor:
        with ExitStack() as stack:
            environment = self._enter_scope(stack)
            enter_scope(environment.policies, "scope", stack)
            self._stack = stack.pop_all()
        return environment.step_executor

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(exc_type, exc, traceback)

    async def __aenter__(self) -> StepExecutor:
        async with AsyncExitStack() as stack:
            environment = self._enter_scope(stack)
            await enter_scope_async(environment.policies, "scope", stack)
            self._async_stack = stack.pop_all()
        return environment.step_executor

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._async_stack.__aexit__(exc_type, exc, traceback)

    def __call__(self, function: Callable[Parameters, Result], /) -> Callable[Parameters, Result]:
        """Decorate a function: each of its calls is inside a scope of its own with these settings.

        Args:
            function: The function, async or not; a static or class method stays one.

        Raises:
            TypeError: It cannot be called, or is a generator.
        """
        return cast(
            "Callable[Parameters, Result]",
            wrap_calls(function, lambda: Scope(self._resolve), subject="A scope"),
        )

    def _enter_scope(self, stack: ExitStack | AsyncExitStack) -> Environment:
        if self._is_entered:
            raise NighthawkError(
                "A scope can be entered once; call nighthawk_async.scope again for another scope."
            )
        self._is_entered = True
        if (elsewhere := OPEN_RUNS.find_elsewhere()) is not None:
            stack.enter_context(elsewhere.active())
        parent, environment = get_environment(), self._environment
        if environment is None or parent is not self._parent:  # the environment at entry counts
            environment = self._resolve(parent)
        stack.enter_context(traced(KernelActivity(name="scope", execution_ref=environment.execution_ref)))
        stack.enter_context(using_environment(environment))
        return environment


def scope(
    *,
    scope_id: str | None = None,
    mode: Literal["inherit", "replace"] = "inherit",
    model: ExecutorChoice | None = None,
    step_executor_configuration: StepExecutorConfiguration | None = None,
    step_executor: ExecutorChoice | None = None,
    max_depth: int | None = None,
    system_prompt_suffix_fragments: Sequence[str] | None = None,
    user_prompt_suffix_fragments: Sequence[str] | None = None,
    implicit_references: Mapping[str, object] | None = None,
    tools: Sequence[ToolSource] | None = None,
    skills: "skill_types.SkillSource | None" = None,
    past: Transcript | Unset | None = UNSET,
    hooks: "hook_types.Hooks | Sequence[hook_types.Hooks] | Unset | None" = UNSET,
    oversight: "oversight_types.Oversight | Unset | None" = UNSET,
    verify: "oversight_types.Verify | Unset | None" = UNSET,
    human: "people_types.HumanHandler | Unset | None" = UNSET,
    permissions: "permission_types.Permissions | Unset | None" = UNSET,
    egress: "egress_types.Egress | Unset | None" = UNSET,
    budget: "budget_types.Budget | Unset | None" = UNSET,
    step_budget: "budget_types.Budget | Unset | None" = UNSET,
    resilience: "attempt_types.StepBaseline | Unset | None" = UNSET,
    concurrent_mutation: "mutation_types.ConcurrentMutation | Unset" = UNSET,
    code: "CodeLevelName | CodeLevel | Unset" = UNSET,
    policies: "Policy | Sequence[Policy] | Unset | None" = UNSET,
    **unknown: Never,
) -> Scope:
    """Run the steps inside with other settings.

    Args:
        scope_id: The id of the scope; None makes a new one.
        mode: `inherit` appends fragments, adds hooks, checks, policies and tools, merges references;
            `replace` replaces what is given. None means no change in both modes; in `replace` mode an empty
            list or mapping clears.
        model: Another model: a model id (`provider:name`), a `StepExecutorConfiguration`, a `Model` object,
            or a step executor. A model id or a configuration changes that of the active executor, which keeps
            a model or agent object that it was made from.
        step_executor_configuration: The specification's name of `model`, for a configuration.
        step_executor: The specification's name of `model`. With a configuration as well, that is the
            configuration of this executor.
        max_depth: The greatest depth of steps within steps inside; see `nighthawk_async.run`. Parent limits
            apply as well, in both modes. None for no change.
        system_prompt_suffix_fragments: Texts appended to system prompts.
        user_prompt_suffix_fragments: Texts appended to user prompts.
        implicit_references: Names and values that every block inside can use without mentioning them.
        tools: The tools of the steps inside: callables as `nighthawk_async.tool` takes them, tools, and tool
            sets (`nighthawk_async.tool_set`). In `replace` mode all other tools of the program are hidden,
            those of `nighthawk_async.tool` included.
        skills: The skills of the steps inside, from `nighthawk_async.skills.load`. Models get their names and
            descriptions and a tool that reads them; a block names one by its name, with `_` in place of `-`.
        past: The transcript of an earlier step (`nighthawk_async.transcript`), which the conversation of each
            step inside begins with: each from the same point. Steps that these steps start, through tools,
            have none of it. None for none, omitted for no change.
        hooks: Functions that are called for events; a `Hooks` object, or several.
        oversight: Who inspects tool calls and commits, and may change or reject them; None for nobody.
        verify: The checks of whether a step inside is done.
        human: The handler that asks people, for `ask_user` and `request_approval`.
        permissions: The calls that are permitted; see `nighthawk_async.permissions`.
        egress: The hosts that may be reached; see `nighthawk_async.egress`.
        budget: The budget of all steps inside together; see `nighthawk_async.budget`.
        step_budget: The budget of each step inside, with an account of its own.
        resilience: The retries, fallbacks and timeout of each step inside: a
            `nighthawk_async.resilience.Baseline`; None for none.
        concurrent_mutation: The reaction to a step that changes an object which another step in flight has
            bound: `warn` (the default of a run), `error`, `first` or `ignore`.
        code: What code of models may do: `none`, `shown` (the default), `python`, or a sandbox.
        policies: The program's own policies, one or a list: objects of classes derived from
            `nighthawk_async.Policy`. Of these twelve arguments, permissions, egress, budgets and the level of
            code hold in nested runs as well.
        unknown: Any other argument is refused.

    Returns:
        A context manager, for `with` and for `async with`, that returns the active executor; and a decorator,
        with which each call of a function is inside a scope of its own.

    Raises:
        NighthawkError: No run is active (a decorator raises it when its function is called), the mode or an
            argument is not one of those above, the executor takes no configuration, or a reference is already
            bound to something else.
        ConfigurationError: The model of the configuration is not available, or two skills have one name.
        ToolRegistrationError: A tool cannot be offered, or its name is taken.
        TranscriptError: The past is no transcript.
    """
    if mode not in ("inherit", "replace"):
        raise NighthawkError(f"mode must be 'inherit' or 'replace', not {mode!r}")
    is_added = mode == "inherit"
    if model is not None:
        _check_is_only_model(step_executor, step_executor_configuration)
        step_executor = model
    sets = None if tools is None else sets_of(tools)
    offered = None if skills is None else skill_types.skills_of(skills)
    inner_past = UNSET if past is UNSET else _past_of(past)
    given = given_policies(
        unknown,
        hooks=hooks,
        oversight=oversight,
        verify=verify,
        human=human,
        permissions=permissions,
        egress=egress,
        budget=budget,
        step_budget=step_budget,
        resilience=resilience,
        concurrent_mutation=concurrent_mutation,
        code=code,
        policies=policies,
    )

    def resolve(parent: Environment) -> Environment:
        executor = _inner_executor(parent.step_executor, step_executor, step_executor_configuration)
        inner = InnerScope(executor, is_added=is_added)
        inside = with_arguments(parent.policies, given, inner, entry=scope)
        if not isinstance(inner_past, Unset):
            inside = inside.with_only(Position.PASTS, inner_past)
        if offered is not None:
            inside = skill_types.with_skills(inside, offered, is_added=is_added)
        return _inner_environment(
            parent,
            scope_id=scope_id,
            executor=executor,
            policies=inside,
            max_depth=max_depth,
            system_prompt_suffix_fragments=system_prompt_suffix_fragments,
            user_prompt_suffix_fragments=user_prompt_suffix_fragments,
            implicit_references=implicit_references,
            tools=sets,
            is_added=is_added,
        )

    return Scope(resolve)


def _check_is_only_model(executor: object, configuration: object) -> None:
    given = {"step_executor": executor, "step_executor_configuration": configuration}
    for name, value in given.items():
        if value is not None:
            raise NighthawkError(f"nighthawk_async.scope has both model=… and {name}=…; give model=… alone.")


def _past_of(transcript: object) -> Policy | None:
    from .transcripts.past import past_of  # here, because most scopes have no past

    return past_of(transcript)


def _inner_environment(
    parent: Environment,
    *,
    scope_id: str | None,
    executor: StepExecutor,
    policies: Policies,
    max_depth: int | None,
    system_prompt_suffix_fragments: Sequence[str] | None,
    user_prompt_suffix_fragments: Sequence[str] | None,
    implicit_references: Mapping[str, object] | None,
    tools: Sequence[ToolSet] | None,
    is_added: bool,
) -> Environment:
    """Return the environment of a scope.

    Args:
        parent: The parent environment.
        scope_id: The id of the scope; None makes a new one.
        executor: The executor inside.
        policies: The policies inside.
        max_depth: The greatest depth of steps within steps; None for no change.
        system_prompt_suffix_fragments: Texts appended to system prompts; None for no change.
        user_prompt_suffix_fragments: Texts appended to user prompts; None for no change.
        implicit_references: Names and values for every block inside; None for no change.
        tools: The tools of the steps inside; None for no change.
        is_added: Whether the arguments are added to those of the parent, or replace them.

    Raises:
        NighthawkError: An argument has a bad value, or a reference is already bound to something else.
    """
    return replace(
        parent,
        execution_ref=replace(parent.execution_ref, scope_id=_checked_scope_id(scope_id)),
        step_executor=executor,
        tool_scope=ToolScope(None if tools is not None and not is_added else parent.tool_scope, tools or ()),
        usage_meter=UsageMeter(parent.usage_meter),
        max_depth=parent.max_depth if max_depth is None else inner_max_depth(parent.max_depth, max_depth),
        policies=policies,
        system_prompt_suffix_fragments=_fragments(
            parent.system_prompt_suffix_fragments, system_prompt_suffix_fragments, is_added=is_added
        ),
        user_prompt_suffix_fragments=_fragments(
            parent.user_prompt_suffix_fragments, user_prompt_suffix_fragments, is_added=is_added
        ),
        implicit_references=_references(parent.implicit_references, implicit_references, is_added=is_added),
    )


def _checked_scope_id(scope_id: str | None) -> str:
    if scope_id is not None and not is_text(scope_id):
        raise NighthawkError(f"scope_id must be a text, not {scope_id!r}")
    return scope_id or uuid.uuid4().hex


def _inner_executor(
    current: StepExecutor, given: ExecutorChoice | None, configuration: StepExecutorConfiguration | None
) -> StepExecutor:
    """Return the executor of a scope.

    Args:
        current: The executor of the parent.
        given: Another executor; None for no change.
        configuration: Another configuration; None for no change.

    Raises:
        NighthawkError: It is no executor, or takes no configuration.
        ConfigurationError: The model of the configuration is not available.
    """
    executor = current if given is None else chosen_inner_executor(given, current)
    if configuration is None:
        return executor
    if not isinstance(executor, ConfigurableStepExecutor):
        raise NighthawkError(
            f"{type(executor).__name__} takes no StepExecutorConfiguration; pass model=… instead."
        )
    return executor.with_configuration(configuration)


def _fragments(current: tuple[str, ...], given: Sequence[str] | None, *, is_added: bool) -> tuple[str, ...]:
    if given is None:
        return current
    if isinstance(given, str) or not all(map(is_text, given)):
        raise NighthawkError(f"Prompt suffix fragments must be a sequence of texts, not {given!r}.")
    return (*current, *given) if is_added else tuple(given)


def _references(
    current: Mapping[str, object], given: Mapping[str, object] | None, *, is_added: bool
) -> Mapping[str, object]:
    if given is None:
        return current
    for name in given:
        if not is_usable_name(name):
            raise NighthawkError(f"The implicit reference {name!r} is no name a block can use.")
        if is_added and name in current and current[name] is not given[name]:
            raise NighthawkError(
                f"The implicit reference {name!r} is already bound to another object; use mode='replace'."
            )
    return MappingProxyType({**current, **given} if is_added else dict(given))
