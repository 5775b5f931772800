"""`run`: the extent in which an executor carries steps out (specification 10). Floor 3."""

import uuid
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from contextvars import copy_context
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, cast, get_args

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ..actors import BareTaskGroup
from ..errors import NighthawkError
from ..executions import find_execution
from ..lazy_exports import LazyModule
from ..observation import observed
from ..parallel import open_task_root
from ..types.execution import ExecutionRef
from .admission import checked_max_concurrent_steps
from .budgets.account import in_force
from .environment import Environment, current_tool_scope, find_environment, using_environment
from .execution_marks import mark_log_records
from .human.stand_in import find_stand_in
from .mutation.report import ConcurrentMutation
from .nesting import DEFAULT_MAX_DEPTH, inner_max_depth
from .policies import NO_POLICIES, Policies
from .run_state import RunState, SyncBackend
from .run_tasks import open_run_extent
from .step_executor import StepExecutor, check_executor
from .surroundings import Surroundings
from .tools.registry import ToolScope
from .tracing import identity_attributes, span
from .usage_meter import UsageMeter

if TYPE_CHECKING:
    from . import run_policies
    from .hooks.extents import ExtentEvents
else:
    run_policies = LazyModule("nighthawk_async.runtime.run_policies")  # because of what policies.py says

__all__ = ["Run", "run"]

mark_log_records()


class Run:
    """The extent of a run; enter it with `async with`, or with `with`.

    `async with` owns the run's connections and embedded models on this event loop. Inside `with`,
    asynchronous steps share theirs as long as any of them is in progress; synchronous steps share those of
    the run's portal thread.

    Leaving the run waits for the tasks of its task group. Steps that other threads or tasks still carry out
    under it are not waited for: synchronous ones are cancelled, further ones are refused.
    """

    def __init__(
        self,
        step_executor: StepExecutor,
        *,
        run_id: str | None,
        sync_backend: SyncBackend,
        concurrent_mutation: ConcurrentMutation,
        max_concurrent_steps: int | None,
        max_depth: int,
        resolve_policies: Callable[[], Policies],
    ) -> None:
        check_executor(step_executor)
        self._resolve_policies = resolve_policies
        self._max_depth = max_depth
        self._outer = outer = find_environment()
        self._state = RunState(
            sync_backend=sync_backend,
            concurrent_mutation=concurrent_mutation,
            max_concurrent_steps=max_concurrent_steps,
        )
        self._environment = Environment(
            execution_ref=ExecutionRef(
                run_id=run_id or uuid.uuid4().hex,
                scope_id=uuid.uuid4().hex,
                parent_execution_id=_find_execution_id(),
            ),
            step_executor=step_executor,
            run_state=self._state,
            tool_scope=ToolScope(current_tool_scope()),
            usage_meter=UsageMeter(None if outer is None else outer.usage_meter),
            max_depth=inner_max_depth(None if outer is None else outer.max_depth, max_depth),
            policies=resolve_policies(),  # at once, so that bad arguments are refused here
        )
        self._stack = ExitStack()
        self._async_stack = AsyncExitStack()
        self._is_entered = False
        self._task_group: TaskGroup | None = None
        self._surroundings: Surroundings | None = None

    @property
    def execution_ref(self) -> ExecutionRef:
        """The identity of the run."""
        return self._environment.execution_ref

    @property
    def usage_meter(self) -> UsageMeter:
        """The usage of the run's steps so far; readable after the run as well."""
        return self._environment.usage_meter

    @property
    def task_group(self) -> TaskGroup:
        """The run's task group: a task started in it ends before the run does.

        Raises:
            NighthawkError: The run was entered with `with`, or is not active.
        """
        if self._task_group is None:
            raise NighthawkError("Only an active run that was entered with `async with` has a task group.")
        return self._task_group

    @asynccontextmanager
    async def extent(self, name: str = "extent") -> AsyncGenerator[None, None]:
        """Be inside the active run in a task that was not started in it, as a request of a server is.

        The block is a task of its own below the run's, and shares the run's connections on this event loop.
        The run does not wait for it: leave it first.

        Args:
            name: What it is called among the run's tasks.

        Raises:
            NighthawkError: The run is not active.
        """
        if self._surroundings is None:
            raise NighthawkError(
                "Only an active run has an extent; enter the run before, and leave it afterwards."
            )
        with self._surroundings.in_force(), open_task_root(name):
            async with self._state.using_resources():
                yield

    def __enter__(self) -> "Run":
        self._claim()
        with ExitStack() as stack:
            stack.callback(self._state.portals.close)
            stack.enter_context(self._extent())
            if self._environment.policies.hooks:
                stack.enter_context(self._events())
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(exc_type, exc, traceback)

    async def __aenter__(self) -> "Run":
        self._claim()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._close_portals)
            await stack.enter_async_context(self._state.using_resources())
            stack.enter_context(self._extent())
            if self._environment.policies.hooks:
                await stack.enter_async_context(self._events())
            self._task_group = await stack.enter_async_context(BareTaskGroup())
            self._async_stack = stack.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._async_stack.__aexit__(exc_type, exc, traceback)

    def _claim(self) -> None:
        if self._is_entered:
            raise NighthawkError("A run can be entered once; call nighthawk_async.run again for another run.")
        self._is_entered = True
        outer = find_environment()
        if outer is not self._outer:  # what is in force counts when the run is entered
            self._environment = replace(
                self._environment,
                execution_ref=replace(self.execution_ref, parent_execution_id=_find_execution_id()),
                tool_scope=ToolScope(current_tool_scope()),
                usage_meter=UsageMeter(None if outer is None else outer.usage_meter),
                max_depth=inner_max_depth(None if outer is None else outer.max_depth, self._max_depth),
                policies=self._resolve_policies(),
            )

    @contextmanager
    def _extent(self) -> Generator[None, None, None]:
        run_span = span("nighthawk.run", identity_attributes(self.execution_ref))
        budgets = self._environment.policies.budgets
        told = observed("run", "run", attributes=lambda: identity_attributes(self.execution_ref))
        with run_span, in_force(budgets), told:
            before = copy_context()
            with using_environment(self._environment), open_run_extent():
                self._surroundings = Surroundings(before)
                try:
                    yield
                finally:
                    self._task_group = self._surroundings = None
                    self._state.end()

    def _events(self) -> "ExtentEvents":
        from .hooks.extents import run_events  # here, because of what policies.py says

        return run_events(self._environment)

    async def _close_portals(self) -> None:
        """Stop the portal threads. Shielded; what is in progress on them is cancelled, so it ends soon."""
        if not self._state.portals.is_started:
            self._state.portals.close()
            return
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._state.portals.close)


def _find_execution_id() -> str | None:
    execution = find_execution()
    return None if execution is None else execution.id


def run(
    step_executor: StepExecutor,
    *,
    run_id: str | None = None,
    sync_backend: SyncBackend = "trio",
    concurrent_mutation: ConcurrentMutation = "warn",
    max_concurrent_steps: int | None = None,
    max_depth: int = DEFAULT_MAX_DEPTH,
    hooks: "run_policies.Hooks | Sequence[run_policies.Hooks]" = (),
    verify: "run_policies.Verify" = (),
    human: "run_policies.HumanHandler | None" = None,
    permissions: "run_policies.Permissions | None" = None,
    budget: "run_policies.Budget | None" = None,
    step_budget: "run_policies.Budget | None" = None,
    resilience: "run_policies.StepBaseline | None" = None,
) -> Run:
    """Carry out the steps inside with an executor.

    Works inside another run too, whose executor and scopes it replaces.

    Args:
        step_executor: What carries the steps out.
        run_id: The id of the run; None makes a new one.
        sync_backend: The AnyIO backend of the thread that carries out synchronous natural functions.
        concurrent_mutation: What happens when a step changes, through its tools, an object that another step
            in flight has bound: `warn` gives a `ConcurrentMutationWarning`; `error` makes the tool call fail
            and puts the object back; `ignore` does not look.
        max_concurrent_steps: How many places for steps in flight there are; None for any number. Further
            steps wait and are admitted in the order in which they came. A step that a step in flight brings
            about, in its tools or their tasks, joins its place: it never waits and does not count. The place
            is free when the last step at it has ended. A run inside a run counts its own steps.
        max_depth: How many steps may be within each other, as when a block calls a natural function whose
            block calls another: 1 for none within another. A further one raises `NestedStepLimitError`, which
            a calling model is told as the error of its call. In a run inside a run, the outer limit holds
            as well.
        hooks: What is called for events. When the run is entered with `with`, the hooks of its own beginning
            and end must be `def`. A run inside a run has the hooks that it is given, and no others.
        verify: What says whether a step inside is done, as for `scope`. A run inside a run has the checks
            that it is given, and no others.
        human: What asks people, for `ask_user` and `request_approval`; None for nobody, or for the people at
            the dashboard that an application is served with (`Dashboard.beside`). A run inside a run asks
            nobody unless it is given a handler.
        permissions: Which calls are permitted; see `nighthawk_async.permissions`. In a run inside a run,
            those around it hold as well.
        budget: What all steps inside may spend together; see `nighthawk_async.budget`. The budgets of a run
            around this one hold in it as well.
        step_budget: What each step inside may spend, by an account of its own.
        resilience: What gives each step inside another chance: a `nighthawk_async.resilience.Baseline`. A run
            inside a run has the one that it is given, or none.

    Returns:
        A context manager, for `async with` and for `with`.

    Raises:
        NighthawkError: The object is no step executor, or another argument has a bad value.
        ConfigurationError: A model to fall back to cannot be had.
    """
    if sync_backend not in get_args(SyncBackend):
        raise NighthawkError(f"sync_backend must be one of {get_args(SyncBackend)}, not {sync_backend!r}")
    if concurrent_mutation not in get_args(ConcurrentMutation):
        raise NighthawkError(
            f"concurrent_mutation must be one of {get_args(ConcurrentMutation)}, not {concurrent_mutation!r}"
        )
    if run_id is not None and not isinstance(cast("object", run_id), str):
        raise NighthawkError(f"run_id must be a text, not {run_id!r}")

    def resolve_policies() -> Policies:
        asked = find_stand_in() if human is None and find_environment() is None else human
        told = (asked, permissions, budget, step_budget, resilience)
        if find_environment() is None and hooks == () and verify == () and all(each is None for each in told):
            return NO_POLICIES
        return run_policies.policies_of_run(
            step_executor,
            hooks=hooks,
            verify=verify,
            human=asked,
            permissions=permissions,
            budget=budget,
            step_budget=step_budget,
            resilience=resilience,
        )

    return Run(
        step_executor,
        run_id=run_id,
        sync_backend=sync_backend,
        concurrent_mutation=concurrent_mutation,
        max_concurrent_steps=checked_max_concurrent_steps(max_concurrent_steps),
        max_depth=max_depth,
        resolve_policies=resolve_policies,
    )
