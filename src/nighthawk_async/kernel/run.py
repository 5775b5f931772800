"""A run: the scope in which an executor executes steps (specification 10).

At the end: what runs add to tasks, mailboxes and progress reports, which do not know of runs.
"""

import uuid
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from contextvars import Context, ContextVar, copy_context
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ..actors import BareTaskGroup, open_namespace
from ..actors.ordering import install_orders
from ..errors import NighthawkError
from ..executions import find_execution
from ..journal_ports import RunJournal, RunOpener
from ..lazy_exports import LazyModule
from ..observation import NodeWriter, find_node_writer, observed
from ..parallel.task_current import find_node, find_positions, find_task, open_task_root
from ..parallel.task_node import ArgumentDigest, ResourceKeeper, TaskHooks, install_task_hooks
from ..tracing import traced
from ..types.execution import ExecutionRef
from ..types.usage import Usage
from .calls import fold_frames, folding_frames
from .context import StepExecutor, check_executor
from .environment import (
    ENVIRONMENT,
    OPEN_RUNS,
    Environment,
    current_tool_scope,
    find_environment,
    find_journal,
    find_orders,
    mark_log_records,
    using_environment,
)
from .policy import Policies, enter_scope, enter_scope_async
from .reports import KernelActivity, identity_attributes
from .run_state import RunState, Server, SyncBackend, inner_max_depth
from .tools import ToolScope, ToolSet
from .usage_meter import UsageMeter

if TYPE_CHECKING:
    from ..actors import mailbox
    from ..values import stable_digest
    from . import active_run, run_host
    from .active_run import ActiveRun, Guests
    from .run_host import RunHost, ThreadRunHost
else:
    active_run = LazyModule("nighthawk_async.kernel.active_run")  # most runs are used where they were entered
    run_host = LazyModule("nighthawk_async.kernel.run_host")
    mailbox = LazyModule("nighthawk_async.actors.mailbox")  # a task makes its own on first use
    stable_digest = LazyModule(
        "nighthawk_async.values.stable_digest"
    )  # runs without a journal digest nothing


class ChangedContext:
    """The context variables that have changed since an earlier context.

    Args:
        before: The earlier context.
    """

    __slots__ = ("_values",)

    def __init__(self, before: Context) -> None:
        self._values: tuple[tuple[ContextVar[Any], Any], ...] = tuple(
            (variable, value)
            for variable, value in copy_context().items()
            if variable not in before or before[variable] is not value
        )

    @contextmanager
    def active(self) -> Generator[None, None, None]:
        """Set them during the `with` statement, in any task or thread."""
        tokens = [(variable, variable.set(value)) for variable, value in self._values]
        try:
            yield
        finally:
            for variable, token in reversed(tokens):
                variable.reset(token)


mark_log_records()


class Run:
    """A run; enter it with `async with`, or with `with`.

    `async with` owns the run's connections and embedded models on this event loop. Inside `with`,
    asynchronous steps share theirs while any of them is in progress; synchronous steps share those of the
    run's portal thread.

    Made by `nighthawk_async.run`.

    Leaving the run waits for the tasks of its task group. It does not wait for steps that other threads or
    tasks still execute in it: synchronous ones are cancelled, further ones are refused.
    """

    def __init__(
        self,
        step_executor: StepExecutor,
        *,
        run_id: str | None,
        sync_backend: SyncBackend,
        max_concurrent_steps: int | None,
        max_depth: int,
        resolve_policies: Callable[[], Policies],
        journal: RunOpener | None = None,
        park_after: float | None = None,
        tools: Sequence[ToolSet] = (),
        servers: Mapping[str, Server] | None = None,
        is_traced: bool = True,
        everywhere: bool = False,
    ) -> None:
        check_executor(step_executor)
        self._everywhere = everywhere
        self._is_traced = is_traced  # the run of a worker is no work of the program's
        self._resolve_policies = resolve_policies
        self._max_depth = max_depth
        self._tools = tools
        self._servers = servers or {}
        self._server_objects: dict[str, object] = {}  # filled when the servers are connected
        self._outer = outer = find_environment()
        self._state = RunState(
            sync_backend=sync_backend,
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
            tool_scope=ToolScope(current_tool_scope(), tools),
            usage_meter=UsageMeter(None if outer is None else outer.usage_meter),
            max_depth=inner_max_depth(None if outer is None else outer.max_depth, max_depth),
            implicit_references=MappingProxyType(self._server_objects),
            policies=resolve_policies(),  # resolved at once, so that bad arguments are refused here
            journal=None if outer is None else outer.journal,
        )
        self._journal = journal
        self._park_after = park_after
        self._stack = ExitStack()
        self._async_stack = AsyncExitStack()
        self._is_entered = False
        self._task_group: TaskGroup | None = None
        self._changed_context: ChangedContext | None = None
        self._guests: Guests | None = None
        self._writers: tuple[NodeWriter | None, NodeWriter | None] = None, None
        self._host: RunHost | ThreadRunHost | None = None

    @property
    def execution_ref(self) -> ExecutionRef:
        """The identity of the run."""
        return self._environment.execution_ref

    @property
    def usage_meter(self) -> UsageMeter:
        """The usage of the run's steps so far; readable after the run too."""
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

    @property
    def guests(self) -> "Guests":
        """The guests of the run: callers that were not started in it.

        Raises:
            NighthawkError: The run is not active.
        """
        OPEN_RUNS.check_process_of(self)
        if self._changed_context is None:
            raise NighthawkError(
                "Only an active run can be entered elsewhere; enter the run before, and leave it afterwards."
            )
        if self._guests is None:
            self._guests = active_run.Guests(self._environment, self._changed_context.active, *self._writers)
        return self._guests

    @property
    def guest_environment(self) -> Environment:
        """The environment of what is called in the run from elsewhere."""
        return self.guests.environment

    def active(self, name: str = "active") -> "ActiveRun[Run]":
        """Make the run the active one in another task, thread or event loop of the process.

            with run.active():
                label = classify(text)

        What is called inside is part of the run, which ends steps that are in progress when it ends; and of
        the caller, whose cancellation reaches it. Any number of callers may be inside at the same time, each
        with a call of `active` of its own.

        Args:
            name: The name of the caller's part among the run's tasks.

        Returns:
            A context manager, for `with` and for `async with`. With `async with`, the steps inside share
            their connections on this event loop, as they do in any case on the loop that has entered the run.

        Raises:
            NighthawkError: The run is not active (on entering).
            RunForkedError: It was opened in the process that this one was forked from (on entering).
        """
        return active_run.ActiveRun(self, name)

    @asynccontextmanager
    async def extent(self, name: str = "extent") -> AsyncGenerator[None, None]:
        """Join the active run from a task that was not started in it, such as a server's request.

        The block counts as a task of the run, and shares the run's connections on this event loop. The run
        does not wait for it: leave it before the run, which ends the steps that are in progress then.

        Args:
            name: Its name among the run's tasks.

        Raises:
            NighthawkError: The run is not active.
        """
        with self.guests.admitted(name):
            async with self._state.using_resources(), keeping_resources():
                yield

    async def start(self) -> "Run":
        """Enter the run in a task of its own, and return it; see `nighthawk_async.start_run`.

        Raises:
            NighthawkError: It was entered before.
            Exception: What entering it raises.
        """
        self._host = run_host.RunHost(self, f"run {self._run_id}")
        await self._host.start()
        return self

    def start_sync(self) -> "Run":
        """Enter the run in a thread of its own, and return it; see `nighthawk_async.start_run_sync`.

        Raises:
            NighthawkError: It was entered before.
            Exception: What entering it raises.
        """
        self._host = run_host.ThreadRunHost(self, f"run {self._run_id}")
        self._host.start_sync()
        return self

    async def aclose(self) -> None:
        """Leave a run that was started with `nighthawk_async.start_run`; does nothing if it has been left.

        It waits for the tasks of the run's task group, and ends the steps that others execute in it.

        Raises:
            NighthawkError: It was not started so.
            RunForkedError: It was started in the process that this one was forked from.
            ExceptionGroup: Tasks of its task group have failed.
        """
        OPEN_RUNS.check_process_of(self)
        if not isinstance(self._host, run_host.RunHost):
            raise NighthawkError("aclose() leaves a run that was started with nighthawk_async.start_run.")
        await self._host.aclose()

    def close(self) -> None:
        """Leave a run that was started with `nighthawk_async.start_run_sync`; see `aclose`.

        Raises:
            NighthawkError: It was not started so.
            RunForkedError: It was started in the process that this one was forked from.
        """
        OPEN_RUNS.check_process_of(self)
        if not isinstance(self._host, run_host.ThreadRunHost):
            raise NighthawkError("close() leaves a run that was started with nighthawk_async.start_run_sync.")
        self._host.close()

    def __enter__(self) -> "Run":
        if self._servers:
            raise NighthawkError(
                "A run with servers= is entered with `async with`: servers need its event loop."
            )
        self._claim()
        with folding_frames(), ExitStack() as stack:
            stack.callback(self._state.portals.close)
            if self._journal is not None:
                opened = self._journal.open_run(self._run_id, self._park_after)
                self._use_journal(stack.enter_context(opened))
            stack.enter_context(self._active())
            enter_scope(self._environment.policies, "run", stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with folding_frames():
            self._stack.__exit__(exc_type, exc, traceback)
        fold_frames(exc)

    async def __aenter__(self) -> "Run":
        self._claim()
        with folding_frames():
            async with AsyncExitStack() as stack:
                stack.push_async_callback(self._close_portals)
                await stack.enter_async_context(self._state.using_resources())
                if self._journal is not None:
                    opened = self._journal.open_run(self._run_id, self._park_after)
                    self._use_journal(await stack.enter_async_context(opened))
                stack.enter_context(self._active())
                await enter_scope_async(self._environment.policies, "run", stack)
                await stack.enter_async_context(keeping_resources())
                if self._servers:
                    await self._connect_servers()
                self._task_group = await stack.enter_async_context(self._make_task_group())
                self._async_stack = stack.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        with folding_frames():
            is_handled = await self._async_stack.__aexit__(exc_type, exc, traceback)
        fold_frames(exc)
        return is_handled

    async def _connect_servers(self) -> None:
        """Connect all servers at the same time; the first failure ends the others."""
        failures: list[Exception] = []
        connected: dict[str, object] = {}

        async def connect(name: str, server: Server) -> None:
            try:
                connected[name] = await server.bind(name)
            except Exception as error:
                failures.append(error)
                group.cancel_scope.cancel()

        async with BareTaskGroup() as group:
            for name, server in self._servers.items():
                group.start_soon(connect, name, server)
        if failures:
            for other in failures[1:]:
                failures[0].add_note(str(other))
            raise failures[0]
        self._server_objects.update({name: connected[name] for name in self._servers})

    def _make_task_group(self) -> AbstractAsyncContextManager[TaskGroup]:
        journal = self._environment.journal
        return BareTaskGroup() if self._park_after is None or journal is None else journal.open_tasks()

    def _claim(self) -> None:
        if self._is_entered:
            raise NighthawkError("A run can be entered once; call nighthawk_async.run again for another run.")
        self._is_entered = True
        outer = find_environment()
        if outer is not self._outer:  # the environment at entry counts
            self._environment = replace(
                self._environment,
                execution_ref=replace(self.execution_ref, parent_execution_id=_find_execution_id()),
                tool_scope=ToolScope(current_tool_scope(), self._tools),
                usage_meter=UsageMeter(None if outer is None else outer.usage_meter),
                max_depth=inner_max_depth(None if outer is None else outer.max_depth, self._max_depth),
                policies=self._resolve_policies(),
                journal=None if outer is None else outer.journal,
            )

    @property
    def _run_id(self) -> str:
        return self.execution_ref.run_id

    def _use_journal(self, journal: RunJournal) -> None:
        self._environment = replace(self._environment, journal=journal)

    @contextmanager
    def _active(self) -> Generator[None, None, None]:
        activity = KernelActivity(name="run", execution_ref=self.execution_ref)
        node = observed("run", "run", attributes=lambda: identity_attributes(self.execution_ref))
        around = find_node_writer()
        with traced(activity) if self._is_traced else nullcontext(), node as writer:
            self._writers = around, writer
            before = copy_context()
            with using_environment(self._environment), open_run_scope():
                if self._journal is not None and self._environment.journal is not None:
                    self._environment.journal.begin(find_positions().path)
                self._changed_context = ChangedContext(before)
                OPEN_RUNS.add(self, is_everywhere=self._everywhere)
                self._state.begin()
                try:
                    yield
                finally:
                    OPEN_RUNS.remove(self)
                    self._task_group = self._changed_context = None
                    self._state.end()
                    if self._guests is not None:
                        self._guests.end()

    async def _close_portals(self) -> None:
        """Stop the portal threads. Shielded; their work is cancelled, so this is short."""
        if not self._state.portals.is_started:
            self._state.portals.close()
            return
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._state.portals.close)


def _find_execution_id() -> str | None:
    execution = find_execution()
    return None if execution is None else execution.id


@contextmanager
def open_run_scope() -> Generator[None, None, None]:
    """Make the block a task of its own, and a scope for the names of mailboxes."""
    with open_task_root("run"), open_namespace("run"):
        yield


@asynccontextmanager
async def keeping_resources() -> AsyncGenerator[None, None]:
    """Let the task that the block is, a run for example, keep resources; they are closed at its end."""
    node = find_node()
    async with BareTaskGroup() as task_group, ResourceKeeper("task", node.id, task_group) as node.keeper:
        yield


def _find_usage() -> Usage | None:
    """Return the usage so far of the caller's innermost run or scope; None outside every run."""
    environment = find_environment()
    return None if environment is None else environment.usage_meter.usage


def _find_execution() -> ExecutionRef | None:
    environment = find_environment()
    return None if environment is None else environment.execution_ref


def _find_owner() -> object | None:
    """Return the task of the caller where the run has a journal."""
    environment = ENVIRONMENT.get()  # not `find_journal`, which is one more call: many times in each step
    return None if environment is None or environment.journal is None else find_task()


def _digest_arguments(value: object) -> ArgumentDigest:
    """Return the digest of arguments by the rule of the active run."""
    journal = find_journal()
    if journal is None or journal.identity_version > 1:
        return stable_digest.argument_digest(value)
    return ArgumentDigest(stable_digest.digest_of_version_1(value), (value,))


def _make_mailbox(task_id: str) -> "mailbox.Mailbox[Any]":
    return mailbox.in_order_of(mailbox.Mailbox(name=task_id), f"mailbox of {task_id}")


install_orders(find_orders)
install_task_hooks(
    TaskHooks(
        make_mailbox=_make_mailbox,
        open_scope=lambda: open_namespace("task_group"),
        find_execution=_find_execution,
        find_usage=_find_usage,
        find_owner=_find_owner,
        digest=_digest_arguments,
        find_decisions=find_journal,
    )
)
