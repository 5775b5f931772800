"""`run`: the context manager in which steps run (specification 10)."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Never, ParamSpec, TypeVar, cast, get_args

from .actors.errors import check_seconds
from .agent.policies import Fitting
from .errors import NighthawkError
from .executors.choice import ExecutorChoice, chosen_executor, given_model
from .journal_ports import LocatedStores, RunOpener
from .kernel.environment import find_environment
from .kernel.policy import InnerScope, Policies, Policy, Position
from .kernel.run import Run
from .kernel.run_state import DEFAULT_MAX_DEPTH, Server, SyncBackend, checked_max_concurrent_steps
from .kernel.tools import ToolSet, ToolSource
from .lazy_exports import LazyModule
from .policies.arguments import (
    PolicyArguments,
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
from .policies.people.default_handler import find_default_handler
from .ports import Model
from .types.code import CodeLevel, CodeLevelName
from .types.model import ModelRequest
from .types.unset import UNSET, Unset

if TYPE_CHECKING:
    from .agent.task import AgentTask, Conversation
    from .compaction import compaction
    from .policies import many_steps as many_steps_policy
    from .skills import skill as skill_types

    located: LocatedStores
else:
    compaction = LazyModule("nighthawk_async.compaction.compaction")  # most conversations are short
    located = LazyModule("nighthawk_async.journal.located")  # most runs have no journal, or a store
    many_steps_policy = LazyModule("nighthawk_async.policies.many_steps")  # most runs have few steps at once
    skill_types = LazyModule("nighthawk_async.skills.skill")  # few programs have skills

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class CompactionPolicy(Fitting):
    """Replaces older messages of a conversation that passes the threshold of its executor's `Compaction`."""

    __slots__ = ()

    position: ClassVar[Position] = Position.COMPACTION
    holds_in_inner_runs: ClassVar[bool] = True

    async def fitted(
        self, model: Model, task: "AgentTask", request: ModelRequest, tokens: int
    ) -> ModelRequest:
        """Return a request with a compacted conversation, if need be; see `Fitting.fitted`."""
        return await compaction.fitting_request(model, task, request, tokens)

    def check_size(
        self, step_id: str, conversation: "Conversation", model: Model, request: ModelRequest
    ) -> None:
        """Refuse a request that is too large; see `Fitting.check_size`."""
        compaction.check_size(step_id, conversation, model, request)


_EVERYWHERE = Policies((CompactionPolicy(),))
"""The policies that every run has."""


def run(
    model: ExecutorChoice | None = None,
    *,
    step_executor: ExecutorChoice | None = None,
    run_id: str | None = None,
    sync_backend: SyncBackend = "trio",
    max_concurrent_steps: int | None = None,
    max_depth: int = DEFAULT_MAX_DEPTH,
    journal: "RunOpener | str | os.PathLike[str] | None" = None,
    park_after: float | None = None,
    tools: Sequence[ToolSource] | None = None,
    skills: "skill_types.SkillSource | None" = None,
    servers: Mapping[str, Server] | None = None,
    everywhere: bool = False,
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
    many_steps: bool = False,
    **unknown: Never,
) -> Run:
    """Run the steps inside with a model.

        async with nh.run("openai-responses:gpt-5.4-nano"): ...
        async with nh.run(StepExecutorConfiguration(model="anthropic:claude-haiku-4-5", max_turns=5)): ...

    A run inside another run replaces its executor and scopes. It inherits permissions and budgets from the
    parent run; all other policies are those that it is given.

    Args:
        model: The model of the steps: a model id (`provider:name`), a `StepExecutorConfiguration`, a `Model`
            object, or a step executor.
        step_executor: The specification's name of `model`; one of the two is given.
        run_id: The id of the run; None makes a new one.
        sync_backend: The AnyIO backend of the thread that runs synchronous natural functions.
        max_concurrent_steps: The number of slots for steps in flight; None for any number. Further steps wait
            and are admitted in order of arrival. A step that is started by a step in flight, in its tools or
            their tasks, shares its slot: it never waits and does not count. The slot is free when the last
            step in it has ended. A run inside a run counts its own steps.
        max_depth: The greatest depth of steps within steps, as when a block calls a natural function whose
            block calls another: 1 allows no nesting. A deeper one raises `NestedStepLimitError`, which a
            calling model sees as the error of its call. In a run inside a run, the parent's limit applies as
            well.
        journal: The store in which the run is recorded: the path of its file, its address, or what
            `nighthawk_async.journal.open` has made, which has options. A later run with the same `run_id`
            continues where this one ended. A run inside a run uses the parent's.
        park_after: The seconds after which the run is parked when everything in it waits for a time, a person
            or a message: it is cancelled, and `nighthawk_async.journal.RunParked` is raised at its end. A
            later run with the same `run_id` goes on. None: the process waits itself.
        tools: The tools of the steps inside, beside those that are visible already: callables as
            `nighthawk_async.tool` takes them, tools, and tool sets (`nighthawk_async.tool_set`).
        skills: The skills of the steps inside, from `nighthawk_async.skills.load`; see
            `nighthawk_async.scope`. A run inside a run has only those that it is given.
        servers: Servers of the Model Context Protocol by the names that every block inside can use, made by
            `nighthawk_async.mcp.stdio` and `nighthawk_async.mcp.http`. All are connected when the run is
            entered, with `async with`. See the page "MCP".
        everywhere: Whether it is the run of every call in the process that has none, in any task, thread or
            event loop. One run at a time can be that.
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
        many_steps: Whether thousands of steps will be in flight at once: while the run lasts, Python's
            garbage collector looks less often, in the whole process. Otherwise it takes up to half of the
            time of such a run. A threshold that the program has set higher stays.
        unknown: Any other argument is refused.

    Returns:
        A context manager, for `async with` and for `with`.

    Raises:
        NighthawkError: There is no model, or two, or the value is none; or another argument has a bad value.
        ToolRegistrationError: A tool cannot be offered, or its name is taken.
        nighthawk_async.mcp.ServerUnavailableError: A server cannot be started or reached (on entering).
        UnknownModelError: There is no such provider or model.
        MissingCredentialError: The provider's API key is not set.
        ConfigurationError: Another setting is wrong, a fallback model is not available, or two skills have
            one name.
    """
    executor = chosen_executor(given_model(model, step_executor))
    if sync_backend not in get_args(SyncBackend):
        raise NighthawkError(f"sync_backend must be one of {get_args(SyncBackend)}, not {sync_backend!r}")
    if run_id is not None and not isinstance(cast("object", run_id), str):
        raise NighthawkError(f"run_id must be a text, not {run_id!r}")
    _check_park_after(park_after, journal)
    offered = None if skills is None else skill_types.skills_of(skills)
    if hooks is None:
        raise NighthawkError("hooks must be a Hooks object, or a list of them, not None")

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

    def resolve_policies() -> Policies:
        arguments: PolicyArguments = {"concurrent_mutation": "warn", **given}
        parent = find_environment()
        if arguments.get("human") is None:
            arguments.pop("human", None)  # no handler
            default_handler = find_default_handler() if parent is None else None
            if default_handler is not None:
                arguments["human"] = default_handler
        enclosing = _EVERYWHERE if parent is None else parent.policies.of_inner_run()
        inside = with_arguments(enclosing, arguments, InnerScope(executor, is_added=True), entry=run)
        if many_steps:
            inside = inside.with_policy(many_steps_policy.ManySteps())
        return inside if offered is None else skill_types.with_skills(inside, offered)

    return Run(
        executor,
        run_id=run_id,
        sync_backend=sync_backend,
        max_concurrent_steps=checked_max_concurrent_steps(max_concurrent_steps),
        max_depth=max_depth,
        resolve_policies=resolve_policies,
        journal=None if journal is None else _opener_of(journal),
        park_after=park_after,
        tools=() if tools is None else _sets_of(tools),
        servers=None if servers is None else _checked_servers(servers),
        everywhere=everywhere,
    )


def _with_arguments_of(
    make: Callable[Parameters, object],
) -> Callable[[Callable[..., Result]], Callable[Parameters, Result]]:
    """Return a decorator for a function that passes its arguments on: it shows those of the other."""

    def decorate(function: Callable[..., Result]) -> Callable[Parameters, Result]:
        return wraps(make, assigned=())(function)  # for `help`; editors follow the call in its body

    return decorate


@_with_arguments_of(run)
async def start_run(model: ExecutorChoice | None = None, **arguments: Any) -> Run:
    """Open a run in a task of its own, and return it when it is open.

        run = await nh.start_run("openai-responses:gpt-5.4-nano", everywhere=True)
        ...
        await run.aclose()

    Beside `async with nighthawk_async.run(…)`, for programs in which no block of code is around everything:
    hooks that are called at startup and shutdown, cells of a notebook. The run ends with its event loop at
    the latest. `run.active()` enters it elsewhere; with `everywhere=True` it is the run of every call that
    has none. Leave it with `await run.aclose()`, from any task, thread or event loop; what its tasks have
    raised is raised there.

    Args:
        model: The model of the steps; see `nighthawk_async.run`.
        arguments: All others of `nighthawk_async.run`.

    Returns:
        The run, which is open.

    Raises:
        NighthawkError: What `nighthawk_async.run` and entering its run raise.
    """
    return await run(model, **arguments).start()


@_with_arguments_of(run)
def start_run_sync(model: ExecutorChoice | None = None, **arguments: Any) -> Run:
    """Open a run in a thread of its own, for programs without an event loop, and return it.

    Leave it with `run.close()`; see `start_run`.

    Args:
        model: The model of the steps; see `nighthawk_async.run`.
        arguments: All others of `nighthawk_async.run`.

    Returns:
        The run, which is open.

    Raises:
        NighthawkError: What `nighthawk_async.run` and entering its run raise.
    """
    return run(model, **arguments).start_sync()


def _check_park_after(seconds: object, store: object) -> None:
    try:
        check_seconds("park_after", seconds, or_none=True)
    except ValueError as error:
        raise NighthawkError(str(error)) from None
    if seconds is not None and store is None:
        raise NighthawkError("park_after needs a run with a journal: nighthawk_async.run(…, journal=…)")


def _sets_of(tools: Sequence[ToolSource]) -> tuple[ToolSet, ...]:
    from .kernel.tool_sets import sets_of  # here, because many programs offer no tools

    return sets_of(tools)


def _checked_servers(servers: Mapping[str, Server]) -> Mapping[str, Server]:
    """Return `servers=`.

    Raises:
        NighthawkError: It is no mapping of names to servers.
    """
    from .natural.program import is_usable_name  # here, because many programs have no servers

    if not isinstance(cast("object", servers), Mapping):
        raise NighthawkError(f"servers must be a mapping of names to servers, not {servers!r}")
    for name, server in servers.items():
        if not is_usable_name(name) or name.startswith("_"):
            raise NighthawkError(f"servers: {name!r} is no name that a block can use.")
        if not callable(getattr(cast("object", server), "bind", None)):
            raise NighthawkError(
                f"servers: {name!r} must be a server, as nighthawk_async.mcp.stdio and http make them, "
                f"not {server!r}"
            )
    return dict(servers)


def _opener_of(journal: RunOpener | str | os.PathLike[str]) -> RunOpener:
    """Return what opens the journal of the run.

    Raises:
        ConfigurationError: A text is no path or address of a store, or an extra is not installed.
        NighthawkError: It is no store.
    """
    if isinstance(journal, str | os.PathLike):
        return located.LocatedStore(journal)
    if not callable(getattr(cast("object", journal), "open_run", None)):
        raise NighthawkError(
            "journal must be a path, an address, or a store that nighthawk_async.journal.open made, "
            f"not {journal!r}"
        )
    return journal
