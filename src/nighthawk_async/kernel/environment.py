"""The environment of a step: one frozen value in one context variable; resources; the synchronous bridge.

At the end: policies around model requests that are active in a context, in runs and outside of them. The
policies of a run end with it, and a nested run has its own. These ones hold for all requests of a `with`
statement: in threads, in nested runs, and where there is no run. Of several at one position, the innermost
one counts. The one that is nearest to the model is a `SourcePolicy`: what it gives has the place of the
model's own response, for the journal, for charges and for traces.
"""

import logging
import os
import sys
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncContextDecorator,
    ContextDecorator,
)
from contextvars import ContextVar
from dataclasses import dataclass, field
from operator import attrgetter
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, TypeVarTuple, cast, overload

from anyio import from_thread

from ..actors.ordering import Orders
from ..errors import NighthawkError, RunForkedError
from ..journal_ports import RunJournal
from ..lazy_exports import LazyModule
from ..natural.tree import CLOSURE_NAMES
from ..parallel import under_thread_deadlines
from ..parallel.errors import ResourceOwnerError
from ..parallel.event_loop import is_loop_thread, is_worker_thread
from ..parallel.task_current import change_place, find_node
from ..parallel.task_node import ResourceKeeper, TaskNode
from ..ports import Model
from ..tracing import Tracing
from ..types.execution import OUTSIDE_RUNS, ExecutionRef
from ..types.model import ModelRequest
from ..types.quick_init import quick_init
from .actor import StepActor
from .context import StepContext, StepExecutor
from .features import Feature
from .fold import Events, ModelCall, OpenRequest, OpenResponse
from .policy import NO_POLICIES, Policies, Policy, Position
from .run_state import DEFAULT_MAX_DEPTH, RUN_OF_PARENT, RunState, portal_depth
from .step import Step
from .tools import GLOBAL_TOOLS, ToolScope
from .usage_meter import UsageMeter

if TYPE_CHECKING:
    from ..parallel import resources
    from .function_calls import FunctionCall
else:
    resources = LazyModule("nighthawk_async.parallel.resources")  # few programs keep some


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Environment:
    """The active settings and state of a run, scope or step.

    Args:
        execution_ref: The identity of what is running.
        step_executor: The executor of steps.
        run_state: The state of the run.
        tool_scope: The innermost scope of tools.
        usage_meter: The meter of the innermost run or scope.
        system_prompt_suffix_fragments: Texts appended to system prompts.
        user_prompt_suffix_fragments: Texts appended to user prompts.
        implicit_references: Names and values that every block can use.
        policies: The active policies.
        step: The step in progress; None between steps.
        tracing: The tracing when the step began; None for none.
        step_path: The addresses of the blocks in progress in this run, outermost first.
        max_depth: The greatest depth of nested steps, including enclosing ones.
        journal: The journal of the run; None for none.
        function_call: The innermost call of a function that policies are around; None for none.
    """

    execution_ref: ExecutionRef
    step_executor: StepExecutor
    run_state: RunState
    tool_scope: ToolScope
    usage_meter: UsageMeter
    system_prompt_suffix_fragments: tuple[str, ...] = ()
    user_prompt_suffix_fragments: tuple[str, ...] = ()
    implicit_references: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    policies: Policies = NO_POLICIES
    step: Step | None = None
    tracing: Tracing | None = None
    step_path: tuple[str, ...] = ()
    max_depth: int = DEFAULT_MAX_DEPTH
    journal: RunJournal | None = None
    function_call: "FunctionCall | None" = None

    def of_call(self) -> "Environment":
        """The environment of a call in this one, which may have tools of its own."""
        return self._changed(tool_scope=ToolScope(self.tool_scope))

    def within_call(self, call: "FunctionCall") -> "Environment":
        """The environment of what happens in a call that policies are around."""
        return self._changed(function_call=call)

    def of_step(self, step: Step, address: str, tracing: Tracing | None) -> "Environment":
        """The environment of a step in this one.

        Args:
            step: The step.
            address: The address of its block.
            tracing: The tracing; None for none.
        """
        return self._changed(
            execution_ref=step.context.execution_ref,
            step=step,
            tracing=tracing,
            step_path=(*self.step_path, address),
            policies=step.policies,
        )

    def _changed(self, **changes: object) -> "Environment":
        """The same with other values for some fields: `dataclasses.replace` in a fraction of the time."""
        new = object.__new__(Environment)
        for set_field, value in zip(_FIELDS.values(), _values_of(self), strict=True):
            set_field(new, value)
        for name, value in changes.items():
            _FIELDS[name](new, value)
        return new


_FIELDS = {name: vars(Environment)[name].__set__ for name in Environment.__slots__}
_values_of: Callable[[Environment], tuple[object, ...]] = attrgetter(*_FIELDS)


# The kernel asks once, at the beginning of a call and of a step, and hands the environment on as an argument;
# the code of users and executors asks where it is called.
ENVIRONMENT: ContextVar[Environment | None] = ContextVar("nighthawk_async_environment", default=None)


class OpenRun(Protocol):
    """A run that is open, as far as those see it who are not in it; see `run.Run`."""

    @property
    def guest_environment(self) -> Environment:
        """The environment of what is called in it from elsewhere."""
        ...

    def active(self, name: str = ...) -> AbstractContextManager[object]:
        """Make it the active one."""
        ...


class OpenRuns:
    """The open runs of the process.

    In a process that is forked, the runs of its parent are not open.

    Attributes:
        everywhere: The run of every call that has none; None for none.
    """

    __slots__ = ("_runs", "_runs_of_parent", "everywhere")

    def __init__(self) -> None:
        self._runs: set[int] = set()
        self._runs_of_parent: set[int] = set()
        self.everywhere: OpenRun | None = None

    def add(self, run: OpenRun, *, is_everywhere: bool) -> None:
        """Note that a run was opened.

        Raises:
            NighthawkError: It is to be the run of every call that has none, and another one is.
        """
        if is_everywhere:
            if self.everywhere is not None:
                raise NighthawkError(
                    "A run with everywhere=True is open already in this process; leave it first, or enter "
                    "this one without everywhere=True."
                )
            self.everywhere = run
        self._runs.add(id(run))
        self._runs_of_parent.discard(id(run))

    def leave_to_parent(self) -> None:
        """Forget the open runs, in a process that has been forked."""
        self._runs_of_parent |= self._runs
        self._runs.clear()
        self.everywhere = None

    def check_process_of(self, run: object) -> None:
        """Check that a run was not opened by the parent of this process.

        Raises:
            RunForkedError: It was.
        """
        if id(run) in self._runs_of_parent:
            raise RunForkedError(RUN_OF_PARENT)

    def remove(self, run: OpenRun) -> None:
        """Note that a run was closed."""
        self._runs.discard(id(run))
        if self.everywhere is run:
            self.everywhere = None

    def find_elsewhere(self) -> OpenRun | None:
        """The run of a caller who is in none: the one that is everywhere; None for none."""
        return self.everywhere if ENVIRONMENT.get() is None else None

    def environment(self) -> Environment:
        """The environment of a caller who is in no run.

        Raises:
            NighthawkError: No run is active, and none is everywhere.
        """
        if (everywhere := self.everywhere) is not None:
            return everywhere.guest_environment
        if self._runs_of_parent and not self._runs:
            raise RunForkedError(RUN_OF_PARENT)
        raise NighthawkError(_OPEN_ELSEWHERE if self._runs else _NOT_OPEN)


OPEN_RUNS = OpenRuns()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=OPEN_RUNS.leave_to_parent)

_NOT_OPEN = (
    "No run is active. Enter one around the call: `async with nighthawk_async.run(executor): …`, "
    "or `with nighthawk_async.run(executor): …` in synchronous code."
)
_OPEN_ELSEWHERE = (
    "No run is active here. One is open in this process, but it is active only in the task that has entered "
    "it, and in what that task starts. Open it with everywhere=True, or enter it here as well, with "
    "`with run.active():` or `async with run.active():` around the call: with FastAPI and other services in "
    "the endpoint (or use nighthawk_async.asgi.NighthawkMiddleware), with WSGI and thread pools in the "
    "function that the thread calls, in a notebook in each cell, with pytest in the test."
)


def find_environment() -> Environment | None:
    """The active environment; None outside every run."""
    return ENVIRONMENT.get()


def find_journal() -> RunJournal | None:
    """The journal of the run; None without one, and outside every run."""
    environment = ENVIRONMENT.get()
    return None if environment is None else environment.journal


def find_orders() -> Orders | None:
    """The orders in which the tasks of the run use mailboxes and the like; None without a journal."""
    environment = ENVIRONMENT.get()
    return None if environment is None or environment.journal is None else environment.journal.orders


def get_environment() -> Environment:
    """The active environment.

    Raises:
        NighthawkError: No run is active.
    """
    environment = ENVIRONMENT.get()
    return OPEN_RUNS.environment() if environment is None else environment


class using_environment:  # noqa: N801  (a context manager that reads as a function at its call)
    """Activate an environment during the `with` statement."""

    __slots__ = ("_environment", "_token")

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __enter__(self) -> None:
        self._token = ENVIRONMENT.set(self._environment)

    def __exit__(self, *exc_details: object) -> None:
        ENVIRONMENT.reset(self._token)


def current_tool_scope() -> ToolScope:
    """The innermost scope of tools: that of the call, scope or run, else that of the program."""
    environment = ENVIRONMENT.get()
    return GLOBAL_TOOLS if environment is None else environment.tool_scope


def get_step_executor() -> StepExecutor:
    """The active step executor.

    Raises:
        NighthawkError: No run is active.
    """
    return get_environment().step_executor


def get_execution_ref() -> ExecutionRef:
    """The identity of what is running.

    Raises:
        NighthawkError: No run is active.
    """
    return get_environment().execution_ref


def get_current_step() -> Step:
    """The step in progress.

    Raises:
        NighthawkError: No step is active.
    """
    environment = ENVIRONMENT.get()
    if environment is None or environment.step is None:
        raise NighthawkError(
            "No step is active. This works only in what a natural block calls: tools, binding functions, "
            "executors."
        )
    return environment.step


def get_current_step_context() -> StepContext:
    """The state of the step in progress (specification 5.4).

    Raises:
        NighthawkError: No step is active.
    """
    return get_current_step().context


def get_current_step_actor() -> StepActor:
    """The actor of the step in progress, to steer it or to take a snapshot of it.

    Raises:
        NighthawkError: No step is active.
    """
    return get_current_step().actor


def get_usage_meter() -> UsageMeter:
    """The usage meter of the innermost run or scope.

    Raises:
        NighthawkError: No run is active.
    """
    return get_environment().usage_meter


def get_system_prompt_suffix_fragments() -> tuple[str, ...]:
    """A snapshot of the texts the run's scopes append to system prompts.

    Raises:
        NighthawkError: No run is active.
    """
    return get_environment().system_prompt_suffix_fragments


def get_user_prompt_suffix_fragments() -> tuple[str, ...]:
    """A snapshot of the texts the run's scopes append to user prompts.

    Raises:
        NighthawkError: No run is active.
    """
    return get_environment().user_prompt_suffix_fragments


def get_implicit_references() -> Mapping[str, object]:
    """A snapshot of the names that the run's scopes make available to every block.

    Raises:
        NighthawkError: No run is active.
    """
    return get_environment().implicit_references


Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_PACKAGE = __name__.partition(".")[0]


def run_from_sync(function: Callable[[*Arguments], Coroutine[Any, Any, Result]], *args: *Arguments) -> Result:
    """Run an async function that executes steps, from synchronous code, and wait for it.

    In a worker thread of a running loop it enters that loop. Anywhere else it runs on a portal thread of the
    run. On the thread of a running loop that works too, and warns once per run, because it blocks the loop.

    Raises:
        NighthawkError: No run is active, or it has ended.
    """
    run_state = get_environment().run_state
    if is_loop_thread():
        if portal_depth() == 0 and run_state.warn_once("blocked loop"):
            warnings.warn(
                "A synchronous function was called on the thread of a running event loop and blocks it; make "
                "it `async def`, or call it with anyio.to_thread.run_sync.",
                RuntimeWarning,
                stacklevel=_stacklevel_of_call(),
            )
    elif is_worker_thread():
        return from_thread.run(_within_deadlines(function), *args)
    return run_state.portals.call(_within_deadlines(_run_on_portal), function, *args)


def _stacklevel_of_call() -> int:
    """Return the stack level, for a warning, of the call of the natural function or of `step_sync`."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    is_natural = frame is not None and CLOSURE_NAMES[0] in frame.f_code.co_freevars
    return level + 1 if is_natural else level


def _within_deadlines(
    function: Callable[[*Arguments], Coroutine[Any, Any, Result]],
) -> Callable[[*Arguments], Coroutine[Any, Any, Result]]:
    """Wrap the function in the time limits of the current thread."""
    return cast("Any", under_thread_deadlines(function))


async def _run_on_portal(
    function: Callable[[*Arguments], Coroutine[Any, Any, Result]], *args: *Arguments
) -> Result:
    change_place(is_elsewhere=True)  # of the task in which the portal runs the function
    return await function(*args)


def run_on_own_loop(
    function: Callable[[*Arguments], Coroutine[Any, Any, Result]], *args: *Arguments
) -> Result:
    """Run an async function on the loop of the current worker thread, and wait for it.

    Raises:
        NighthawkError: The current thread is not a worker thread of an event loop.
    """
    if is_loop_thread() or not is_worker_thread():
        raise NighthawkError(
            "A step in progress can be reached from a worker thread of its event loop only; "
            "on the loop itself, await the async method."
        )
    return from_thread.run(_within_deadlines(function), *args)


def mark_with_execution(error: BaseException | None, execution_ref: ExecutionRef) -> None:
    """Record on an error of the library which execution raised it, unless a nested step already did.

    Args:
        error: The error; None for none.
        execution_ref: The identity of the execution that it leaves.
    """
    if isinstance(error, NighthawkError) and error.execution_id is None:
        error.execution_id = execution_ref.execution_id


class _Marks(logging.Filter):
    """Adds the identity of the execution to records, for formatters: `%(execution_id)s`."""

    def filter(self, record: logging.LogRecord) -> bool:
        environment = find_environment()
        ref = OUTSIDE_RUNS if environment is None else environment.execution_ref
        error = record.exc_info[1] if record.exc_info else None
        failed = error.execution_id if isinstance(error, NighthawkError) else None
        vars(record).update(
            run_id=ref.run_id or None,
            scope_id=ref.scope_id or None,
            step_id=ref.step_id,
            execution_id=ref.execution_id or failed,
            parent_execution_id=ref.parent_execution_id,
        )
        return True


_MARKS = _Marks()


def mark_log_records() -> None:
    """Add the identity of the execution to the records of the library's logger; idempotent."""
    logging.getLogger("nighthawk").addFilter(_MARKS)  # adds the same filter only once


Resource = TypeVar("Resource")


def shared_in_run(
    key: Hashable, opener: Callable[[], AbstractAsyncContextManager[Resource]]
) -> AbstractAsyncContextManager[Resource]:
    """The resource that the active run keeps on this event loop; without a run, one for the block only.

    Args:
        key: The identity of the resource within a run.
        opener: Returns the context manager to enter if the resource is not open yet.
    """
    environment = find_environment()
    of_loop = None if environment is None else environment.run_state.current_resources()
    return opener() if of_loop is None else of_loop.shared(key, opener)


Closing = TypeVar("Closing", bound="resources.AsyncClosable | resources.Closable")

ResourceOwner: TypeAlias = Literal["step", "task", "parent", "run"]
"""The owner of a resource: the current step, the current task, the task above it, or the run."""


@overload
async def resource(
    name: str, opener: Callable[[], AbstractAsyncContextManager[Result]], *, owner: ResourceOwner = "task"
) -> Result: ...
@overload
async def resource(
    name: str, opener: Callable[[], Awaitable[Closing]], *, owner: ResourceOwner = "task"
) -> Closing: ...
@overload
async def resource(
    name: str, opener: Callable[[], AbstractContextManager[Result]], *, owner: ResourceOwner = "task"
) -> Result: ...
async def resource(name: str, opener: Callable[[], Any], *, owner: ResourceOwner = "task") -> Any:
    """Return the resource of a name that lives with its owner, such as a browser, a session or a shell.

    The first call opens it; all others, also those that arrive meanwhile, get the same object. It is closed
    when the work of the owner has ended, and that of everything that the owner has started, after a success,
    an error or a cancellation, and before anybody sees the end: those that were opened last first, each
    within 10 seconds, shielded from cancellation.

    It is opened and closed in one task of its own, with the context variables that the owner began with. So
    it may hold task groups and cancel scopes open. If opening fails, all who wait get the error, and the next
    call opens it anew; so does the next call after it has ended by itself. A call that is cancelled leaves
    the others waiting; when nobody waits any more, the opening is cancelled.

    An error of closing ends the owner with that error; several are raised in an exception group. If the owner
    has ended with an error already, that one is raised, with notes of the others.

    Args:
        name: Its name, unique among the resources of the owner.
        opener: A function without arguments that returns an async context manager, a context manager, or an
            awaitable of an object with `aclose` or `close`. Context managers give what they are entered with.
            It is the same function in all calls: another one is refused. Its arguments, if a lambda or
            `functools.partial` holds them, are those of the first call.
        owner: `task`, the task that the caller is part of: started by `nighthawk_async.open_tasks`, or the
            run itself. `step`, the step in progress; each attempt is one. `parent`, the task whose block of
            tasks the current task was started in, or in which a nested run was entered. `run`, the innermost
            run.

    Raises:
        NighthawkError: No run is active; or the owner is `step`, and no step is.
        ResourceOwnerError: There is no such owner, it belongs to another event loop, or it has ended; or the
            run was entered with `with`, and the caller is on an event loop of the program.
        ResourceConflictError: Another function opens the resource of this name.
        ResourceDeadlockError: The opener waits for its own resource.
        ValueError: The name is empty, or contains `/`, `[` or `]`; or there is no such kind of owner.
        TypeError: The opener is not such a function.
        Exception: Any exception raised by the opener.
    """
    if not name or any(character in name for character in "/[]"):
        raise ValueError(f"the name of a resource is not empty and contains no '/', '[' or ']': {name!r}")
    if not callable(opener) or isinstance(cast("object", opener), AsyncContextDecorator | ContextDecorator):
        raise TypeError(
            f"the resource {name!r} needs a function without arguments that opens it, such as open_shell and "
            f"not open_shell(), not {opener!r}"
        )
    keeper = _checked(_find_keeper(get_environment(), owner), name, owner)
    return await resources.use_resource(keeper, name, name, opener)


def find_task_keeper() -> ResourceKeeper | None:
    """The keeper of the current task, or of the step where the task keeps nothing here; None for none."""
    environment = find_environment()
    if environment is None:
        return None
    keepers = [_keeper_of(find_node(), environment.run_state)]
    if environment.step is not None:
        keepers.append(environment.step.actor.keeper)
    return next((each for each in keepers if each is not None and each.is_here and not each.is_ending), None)


def _find_keeper(environment: Environment, owner: ResourceOwner) -> ResourceKeeper | None:
    match owner:
        case "step":
            return get_current_step().actor.keeper
        case "task":
            return _keeper_of(find_node(), environment.run_state)
        case "parent":
            node = find_node()
            if node.owner is None:
                raise ResourceOwnerError(f"task {node.id} has no parent that could own a resource")
            return _keeper_of(node.owner, environment.run_state)
        case "run":
            if environment.run_state.is_stand_in:
                raise ResourceOwnerError(
                    "the run is in the program, and this call of it on a worker, which cannot keep resources "
                    "of the run: let the task or the step own it, or enter a run in the function"
                )
            return environment.run_state.find_keeper()
    raise ValueError(f"the owner of a resource is 'step', 'task', 'parent' or 'run', not {owner!r}")


def _keeper_of(node: TaskNode, run_state: RunState) -> ResourceKeeper | None:
    return run_state.find_keeper() if node is run_state.root else node.keeper


def _checked(keeper: ResourceKeeper | None, name: str, owner: ResourceOwner) -> ResourceKeeper:
    if keeper is None:
        raise ResourceOwnerError(
            f"the {owner} cannot keep the resource {name!r}: it has not begun, or was not entered with "
            "`async with`; enter the run with `async with`, or let the step in progress own the resource"
        )
    if not keeper.is_here:
        raise ResourceOwnerError(
            f"{keeper.title} belongs to another event loop, so it keeps no resource {name!r} for the caller; "
            "let the step own it, or make the synchronous function `async def`"
        )
    return keeper


class SourcePolicy(Policy):
    """Gives responses in place of every model, or asks the model and observes: a recorder, a replay.

    Its `around_request` raises `InterceptionError` where there is none.
    """

    position = Position.MODEL

    @property
    def is_offline(self) -> bool:
        """Whether it never asks a model, so that no endpoint, key or embedded model is needed."""
        return False


_around_requests = Feature[tuple[Policy, ...]](())
_sources_everywhere: list[SourcePolicy] = []


def begin_policy(policy: Policy) -> None:
    """Activate a policy around the requests of the caller until `end_policy`; in many tasks, if need be."""
    _around_requests.set((*_around_requests.get(), policy))


def end_policy(policy: Policy) -> None:
    """End the innermost activation of a policy; without effect where it is not active."""
    active = _around_requests.get()
    for index in reversed(range(len(active))):
        if active[index] is policy:
            _around_requests.set((*active[:index], *active[index + 1 :]))
            return


class using_policy:  # noqa: N801  (a context manager that reads as a function at its call)
    """Activate a policy around the requests of the `with` statement."""

    __slots__ = ("_policy",)

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def __enter__(self) -> None:
        begin_policy(self._policy)

    def __exit__(self, *exc_details: object) -> None:
        end_policy(self._policy)


class using_source_everywhere:  # noqa: N801
    """Activate a source for the whole program, wherever the context has none of its own.

    For test fixtures: a test may run in a context that was made before its fixtures ran.
    """

    __slots__ = ("_policy",)

    def __init__(self, policy: SourcePolicy) -> None:
        self._policy = policy

    def __enter__(self) -> None:
        _sources_everywhere.append(self._policy)

    def __exit__(self, *exc_details: object) -> None:
        _sources_everywhere.remove(self._policy)


def find_policies() -> tuple[Policy, ...]:
    """Return the active ones but the source, one for each position."""
    active = _around_requests.get()
    if not active:
        return ()
    return tuple({each.position: each for each in active if not isinstance(each, SourcePolicy)}.values())


def find_source() -> SourcePolicy | None:
    """Return the active source; None where models give the responses."""
    for policy in reversed(_around_requests.get()):
        if isinstance(policy, SourcePolicy):
            return policy
    return _sources_everywhere[-1] if _sources_everywhere else None


def needs_endpoint() -> bool:
    """Whether requests reach their model, so that it needs its key or its weights."""
    source = find_source()
    return source is None or not source.is_offline


def in_order(policies: Iterable[Policy]) -> tuple[Policy, ...]:
    """Return policies in the order of their positions."""
    return tuple(sorted(policies, key=_position_of))


def _position_of(policy: Policy) -> int:
    return policy.position


def ask_source(
    environment: Environment | None,
    model: Model,
    request: ModelRequest,
    place: str | None,
    answer: OpenResponse | None = None,
) -> Events:
    """Return the response of the journal, of a policy, of the active source or of the model.

    Args:
        environment: The environment of the caller; None outside every run.
        model: The model to ask.
        request: The request.
        place: Its place in a run with a journal; None without one.
        answer: Opens a response that a policy gives in place of the model's; None for none.

    Raises:
        InterceptionError: The source has no answer.
        ConfigurationError: The request asks for what the model lacks.
        ModelError: The request failed.
    """

    def ask(asked: Model = model) -> Events:
        if answer is not None and asked is model:
            return answer()
        source = find_source()
        return asked.stream(request) if source is None else _response_of(source, ModelCall(asked, request))

    if environment is None or environment.journal is None or place is None:
        return ask()
    return environment.journal.respond(place, model.name, ask)


def _response_of(source: SourcePolicy, call: ModelCall) -> Events:
    def send(answer: OpenResponse | None) -> Events:
        return call.model.stream(call.request) if answer is None else answer()

    return source.around_request(call, OpenRequest((), call, send, 0))
