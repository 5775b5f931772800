"""State of one run: admission of its steps, their depth, resources by event loop, portal threads.

Steps are admitted in the order in which they ask, on whichever event loop of the run they are. A child of a
step in flight joins its parent's slot without waiting; otherwise the parent would wait for the child while
holding the slot that the child needs. So the limit is on slots: a slot holds any number of steps, and becomes
free when the last of them has ended. Steps of a task that outlives its step need a slot of their own once the
step's slot is free.

A step that a model starts within a step, through a tool, keeps its parents waiting. A model that calls the
function that it works for would recurse for ever; so a run has a limit.

Each level holds task groups, cancel scopes and stack frames. On asyncio, AnyIO delivers a cancellation to
nested scopes by recursion, and Python resumes coroutines that await each other by recursion. A few hundred
levels would exceed Python's recursion limit, and then nothing would ever end. So each stretch of levels
begins in a task of its own, in a shielded cancel scope; the code that waits for the task passes the
cancellation on (`test_step_nesting.test_deep_steps_are_cancelled`). The default limit is one stretch.

Resources are connection pools and embedded model servers. They belong to one event loop, and are closed when
they have no more users on that loop. A user is a run that was entered there with `async with`, a portal
thread, or a step in progress.
"""

import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, suppress
from contextvars import Context, copy_context
from copy import copy
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, TypeVarTuple, cast

import anyio
from anyio import CancelScope, RunFinishedError, from_thread, get_cancelled_exc_class
from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.lowlevel import EventLoopToken, current_token

from ..actors import BareTaskGroup
from ..errors import NestedStepLimitError, NighthawkError, RunForkedError
from ..executions import depth_below, find_execution
from ..lazy_exports import LazyModule
from ..parallel.event_loop import is_loop_thread
from ..parallel.task_current import change_place, find_node
from ..parallel.task_node import ResourceKeeper, TaskNode
from ..threads import wait_interruptibly
from .features import Feature

if TYPE_CHECKING:
    from ..parallel import fair_queue
else:
    fair_queue = LazyModule("nighthawk_async.parallel.fair_queue")  # most runs admit every step at once

_stacks_of_parent: list[ExitStack] = []
"""What holds portal threads of the parent of a forked process; kept, because to free is to close."""

RUN_OF_PARENT = (
    "No run is active in this process. One was opened in the process that this one was forked from, and the "
    "threads and event loops of a run do not survive a fork. Open a run in this process, after the fork: "
    "with Celery on worker_process_init, with Gunicorn in post_fork, with uWSGI in postfork, with "
    "multiprocessing in the function or initializer of the process, or let it use the start method 'spawn'."
)


def checked_max_concurrent_steps(value: object) -> int | None:
    """Return the number of steps that may be in flight at once; None for any number.

    Raises:
        NighthawkError: It is neither None nor a positive integer.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if value is None or (is_number and cast("int", value) > 0):
        return cast("int | None", value)
    raise NighthawkError(f"max_concurrent_steps must be a positive integer or None, not {value!r}")


class Slot:
    """The slot of a step in flight and of the steps that it causes; made by `StepAdmission`."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 1
        """The number of steps in flight in it."""


class StepAdmission:
    """Admits steps in the order in which they ask.

    Args:
        max_concurrent_steps: The number of slots.
    """

    def __init__(self, max_concurrent_steps: int) -> None:
        self._free = max_concurrent_steps
        self._lock = threading.Lock()  # the event loops of portal threads share the run
        self._queue = fair_queue.FairQueue[Slot](self._lock)

    async def enter(self, parent: Slot | None = None) -> Slot:
        """Take a slot for a step, waiting until one is free.

        Args:
            parent: The slot of the parent step, joined while a step is in flight in it; None for none.
        """
        with self._lock:
            if parent is not None and parent.steps:  # otherwise it is free, or belongs to another step by now
                parent.steps += 1
                return parent
            turn = self._queue.join(self._take)
        return await self._queue.wait(turn, self.leave)

    def leave(self, slot: Slot) -> None:
        """Report that a step in a slot has ended; the last one frees the slot for the next step."""
        with self._lock:
            slot.steps -= 1
            self._free += not slot.steps
            served = self._queue.move()
        fair_queue.wake(served)

    def _take(self) -> Slot | None:
        if not self._free:
            return None
        self._free -= 1
        return Slot()


Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_thread = threading.local()

LOOP_SUBSTITUTE = Feature[Callable[[Callable[[], bool]], None] | None](None)
"""Does what a blocked event loop has to do for the steps that it waits for, until a condition holds."""

_MOST_PORTALS = 64
"""The greatest number of nested synchronous functions: each holds a thread and an event loop."""


def portal_depth() -> int:
    """Return the number of portals that wait for the current thread; 0 outside portal threads."""
    return getattr(_thread, "depth", 0)


class PortalPool:
    """Portal threads of one run, started on first use.

    A thread that waits for a step cannot run its own loop meanwhile. So a synchronous natural function
    called on portal n runs on portal n + 1; everything else shares the first one.

    Args:
        backend: The AnyIO backend of the threads.
        resources: Returns the context manager that each portal's loop holds open while it runs.
    """

    def __init__(self, *, backend: str, resources: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        self._backend = backend
        self._resources = resources
        self._portals: list[_Portal] = []
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._is_closed = False
        self._process: int | None = None

    @property
    def is_started(self) -> bool:
        """Whether a portal thread is running."""
        return bool(self._portals)

    def call(self, function: Callable[[*Arguments], Awaitable[Result]], *args: *Arguments) -> Result:
        """Run an async function on a portal and wait for it.

        The current context variables flow in. If the wait is interrupted, by Ctrl-C for example, the
        function is cancelled and awaited.

        Raises:
            NighthawkError: The pool is closed, or was closed meanwhile.
            NestedStepLimitError: Too many portals wait for each other.
        """
        portal = self._find_portal(portal_depth())
        call = _Call[Result]()
        try:
            portal.start(call.deliver, function, *args)
            serve = LOOP_SUBSTITUTE.get()
            if serve is not None and is_loop_thread() and portal_depth() == 0:
                serve(call.answer.done)
            return wait_interruptibly(call.answer)
        finally:
            if not call.answer.done():
                call.abandon(portal.token)

    def close(self) -> None:
        """Cancel what is in progress, stop every portal thread and wait for it. Closing twice is fine."""
        with self._lock:
            self._is_closed = True
            if not self._portals:
                return
            self._portals.clear()
            stack = self._stack.pop_all()
        if self._process != os.getpid():  # to close them would wait for threads that are not here
            _stacks_of_parent.append(stack)
            return
        # Not under the lock: a call in progress may need it for a nested call before it ends.
        with _helper_thread() as helper:
            helper.submit(stack.close).result()

    def _find_portal(self, depth: int) -> "_Portal":
        if depth >= _MOST_PORTALS:
            raise NestedStepLimitError(
                f"{depth} synchronous natural functions wait for each other, each on an event loop of its "
                "own, which is the limit; make them `async def`"
            )
        if self._process not in (None, os.getpid()):
            raise RunForkedError(RUN_OF_PARENT)
        if len(self._portals) <= depth:
            with _helper_thread() as helper:
                helper.submit(self._start_portals, depth).result()
        try:
            return self._portals[depth]
        except IndexError:  # closed meanwhile
            raise _run_ended() from None

    def _start_portals(self, depth: int) -> None:
        with self._lock:
            self._process = os.getpid()
            while len(self._portals) <= depth and not self._is_closed:
                self._portals.append(self._start_portal(len(self._portals)))

    def _start_portal(self, depth: int) -> "_Portal":
        with ExitStack() as stack:
            name = f"nighthawk-async portal {depth}"
            portal = stack.enter_context(start_blocking_portal(self._backend, name=name))
            stack.callback(portal.call, portal.stop, True)
            token = portal.call(_enter_portal_thread, depth + 1)
            stack.enter_context(portal.wrap_async_context_manager(self._resources()))
            self._stack.push(stack.pop_all())
        return _Portal(portal, token)


class _Portal:
    """One portal thread, and its event loop."""

    __slots__ = ("_portal", "token")

    def __init__(self, portal: BlockingPortal, token: EventLoopToken) -> None:
        self._portal = portal
        self.token = token

    def start(self, function: Callable[[*Arguments], Awaitable[None]], *args: *Arguments) -> None:
        """Start a task with the current context variables."""

        def start() -> None:
            self._portal.start_task_soon(function, *args)

        try:
            if is_loop_thread():
                with _helper_thread() as helper:
                    helper.submit(copy_context().run, start).result()
            else:  # a helper thread would cost more than many steps do
                start()
        except RuntimeError as error:  # the pool and its portal were closed meanwhile
            raise _run_ended() from error


class _Call(Generic[Result]):
    """A call on its way to a portal.

    Ctrl-C may interrupt its caller anywhere, even where the caller cannot know yet whether it has begun. The
    portal's event loop knows: it runs callbacks in the order in which they are sent.
    """

    __slots__ = ("_is_abandoned", "_scope", "answer")

    def __init__(self) -> None:
        self.answer: Future[Result] = Future()
        self._scope: CancelScope | None = None
        self._is_abandoned = False

    async def deliver(self, function: Callable[[*Arguments], Awaitable[Result]], *args: *Arguments) -> None:
        """Run a function and deliver its result or error, even SystemExit, which must not end the portal."""
        if self._is_abandoned:
            return
        with CancelScope() as self._scope:
            try:
                self.answer.set_result(await function(*args))
            except get_cancelled_exc_class():
                self.answer.set_exception(_run_ended())
                raise
            except BaseException as error:
                self.answer.set_exception(error)

    def abandon(self, token: EventLoopToken) -> None:
        """Cancel the function, if it has begun, and wait until it has ended; otherwise never let it begin."""
        with _helper_thread() as helper, suppress(RunFinishedError):
            helper.submit(from_thread.run_sync, self._cancel, token=token).result()
            wait([self.answer])

    def _cancel(self) -> None:
        self._is_abandoned = True
        if self._scope is not None:
            self._scope.cancel()
        elif not self.answer.done():
            self.answer.set_exception(_run_ended())


def _run_ended() -> NighthawkError:
    return NighthawkError("The run has ended; call its synchronous natural functions before leaving it.")


def _enter_portal_thread(depth: int) -> EventLoopToken:
    _thread.depth = depth
    return current_token()


def _helper_thread() -> ThreadPoolExecutor:
    """A thread that calls portals.

    Trio refuses calls from a thread that runs a loop itself. Ctrl-C reaches only the main thread, so work in
    this thread is never interrupted half way.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="nighthawk-async caller")


DEFAULT_MAX_DEPTH = 16

STRETCH = 16
"""The greatest number of levels that share a task, if only Python code is between them; see `in_own_task`."""


def current_depth() -> int:
    """Return the number of steps that the caller is nested in, in all nested runs.

    Steps that have ended do not count: a task that outlives its step is no longer nested in it.
    """
    return depth_below(find_execution())


def inner_max_depth(outer: int | None, given: object) -> int:
    """Return the limit of nested steps in a run or scope, counting enclosing steps.

    Args:
        outer: The limit of the enclosing scope; None for none.
        given: The limit given for this one.

    Raises:
        NighthawkError: The given limit is not a positive integer.
    """
    if not isinstance(given, int) or isinstance(given, bool) or given <= 0:
        raise NighthawkError(f"max_depth must be a positive integer, not {given!r}")
    inner = current_depth() + given
    return inner if outer is None else min(outer, inner)


def too_deep(depth: int, max_depth: int, *, step_id: str) -> NestedStepLimitError:
    """Make the error for a step that would be nested too deep.

    Args:
        depth: The number of steps that it is nested in.
        max_depth: The greatest depth, including the step itself.
        step_id: The step.
    """
    return NestedStepLimitError(
        f"step {step_id}: not begun, because it would be number {depth + 1} of steps within steps, and "
        f"max_depth allows {max_depth}; do without it, or give the run a higher max_depth"
    )


async def in_own_task(work: Callable[[], Awaitable[Result]]) -> Result:
    """Run work in a task of its own, and wait for it as if it were awaited directly.

    The context variables of the caller flow in. A cancellation of the caller is passed on.

    Args:
        work: The work.

    Raises:
        BaseException: The error of the work, unchanged.
    """
    hosted = _Hosted(work)
    try:
        async with BareTaskGroup() as task_group:
            task_group.start_soon(hosted.run)
            await hosted.wait()
    finally:
        hosted.raise_error()
    return hosted.result()


class _Hosted(Generic[Result]):
    """Work in a task of its own."""

    __slots__ = ("_ended", "_error", "_results", "_scope", "_work")

    def __init__(self, work: Callable[[], Awaitable[Result]]) -> None:
        self._work = work
        self._scope = anyio.CancelScope(shield=True)
        self._ended = anyio.Event()
        self._results: list[Result] = []
        self._error: BaseException | None = None

    async def run(self) -> None:
        try:
            with self._scope:
                self._results.append(await self._work())
        except anyio.get_cancelled_exc_class():
            raise  # this very task is cancelled, as asyncio does with all tasks when its loop ends
        except BaseException as error:  # also KeyboardInterrupt and the like: raised again in the caller
            self._error = error
        finally:
            self._ended.set()

    async def wait(self) -> None:
        """Wait until it has ended, and cancel it when the caller is cancelled."""
        try:
            await self._ended.wait()
        except BaseException:
            self._scope.cancel()
            raise

    def raise_error(self) -> None:
        """Raise the error of the work; it replaces a cancellation, as in a `finally` clause."""
        error = self._error
        if error is None:
            return
        self._error = None  # breaks the reference cycle of the error with its traceback
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context

    def result(self) -> Result:
        """The result of the work.

        Raises:
            BaseException: Only its task was cancelled.
        """
        if not self._results:
            raise anyio.get_cancelled_exc_class()
        return self._results[0]


Resource = TypeVar("Resource")

_CLOSE_SECONDS = 10


class RunResources:
    """Opens resources on first use and closes them all, last opened first.

    A resource must not hold a task group or cancel scope open while it is in use: it is opened in the task
    of the step that needs it first, and closed in the task of its last user.

    Attributes:
        users: The current number of users of the resources.
    """

    def __init__(self) -> None:
        self.users = 0
        self._opened: dict[Hashable, Any] = {}
        self._locks: dict[Hashable, anyio.Lock] = {}
        self._stack = AsyncExitStack()

    async def use(
        self, key: Hashable, opener: Callable[[], AbstractAsyncContextManager[Resource]]
    ) -> Resource:
        """Return the resource of a key; the first caller opens it.

        If opening fails or is cancelled, the next caller opens it anew.

        Args:
            key: The identity of the resource within a run.
            opener: Returns the context manager to enter.
        """
        if key in self._opened:
            return cast("Resource", self._opened[key])
        async with self._locks.setdefault(key, anyio.Lock()):
            if key not in self._opened:
                self._opened[key] = await self._stack.enter_async_context(opener())
            return cast("Resource", self._opened[key])

    def shared(
        self, key: Hashable, opener: Callable[[], AbstractAsyncContextManager[Resource]]
    ) -> AbstractAsyncContextManager[Resource]:
        """The resource of a key for a `with` statement, which does not close it; see `use`."""
        return _Shared(self, key, opener)

    async def aclose(self) -> None:
        """Close every resource; shielded from cancellation, for 10 seconds at most."""
        self._opened.clear()
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await self._stack.aclose()


class _Shared(AbstractAsyncContextManager[Resource]):
    """A resource of a run, which the run closes. Every request uses two, so this is no generator."""

    __slots__ = ("_key", "_opener", "_resources")

    def __init__(
        self,
        resources: RunResources,
        key: Hashable,
        opener: Callable[[], AbstractAsyncContextManager[Resource]],
    ) -> None:
        self._resources = resources
        self._key = key
        self._opener = opener

    async def __aenter__(self) -> Resource:
        return await self._resources.use(self._key, self._opener)

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass


class Server(Protocol):
    """A server for `servers=` of a run; `nighthawk_async.mcp.stdio` makes one."""

    async def bind(self, name: str) -> object:
        """Connect as a resource of the current run, and return the object that blocks know by a name.

        Args:
            name: The name.
        """
        ...


SyncBackend = Literal["trio", "asyncio"]


class RunState:
    """The mutable part of a run.

    Args:
        sync_backend: The AnyIO backend of the portal threads that run synchronous natural functions.
        max_concurrent_steps: The greatest number of steps in flight at once; None for any number.

    Attributes:
        root: The task of the run; None before it is entered.
        is_stand_in: Whether it stands for a run of another process, which keeps what belongs to the run.
    """

    def __init__(
        self,
        *,
        sync_backend: SyncBackend,
        max_concurrent_steps: int | None = None,
    ) -> None:
        self.admission = None if max_concurrent_steps is None else StepAdmission(max_concurrent_steps)
        self._resources: dict[object, RunResources] = {}
        self._warned: set[str] = set()
        self._has_ended = False
        self.portals = PortalPool(backend=sync_backend, resources=self._keeping_on_portal)
        self._portal_keepers: dict[int, ResourceKeeper] = {}
        self._context: Context | None = None
        self.root: TaskNode | None = None
        self.is_stand_in = False

    def admitting(self, admission: StepAdmission) -> "RunState":
        """Return the state of the same run, with another admission of steps."""
        state = copy(self)
        state.admission = admission
        return state

    def begin(self) -> None:
        """Note the task and the context variables of the run: the caller's."""
        self.root = find_node()
        self._context = copy_context()

    def find_keeper(self) -> ResourceKeeper | None:
        """The keeper of the run's resources on the current event loop; None for none."""
        keeper = None if self.root is None else self.root.keeper
        if keeper is None or not keeper.is_here:
            return self._portal_keepers.get(get_ident(), keeper)
        return keeper

    @asynccontextmanager
    async def _keeping_on_portal(self) -> AsyncGenerator[None, None]:
        """Keep resources on the event loop of a portal thread, which cannot use those of other loops."""
        assert self._context is not None, "a portal is started by a call in the run"
        context = self._context.copy()
        context.run(change_place, is_elsewhere=True)
        async with (
            self.using_resources(),
            BareTaskGroup() as task_group,
            ResourceKeeper("task", "run", task_group, context=context) as keeper,
        ):
            self._portal_keepers[get_ident()] = keeper
            yield
        del self._portal_keepers[get_ident()]

    def end(self) -> None:
        """Refuse every step from now on."""
        self._has_ended = True

    def warn_once(self, subject: str) -> bool:
        """Return whether this is the first warning of the run about a subject."""
        is_first = subject not in self._warned
        self._warned.add(subject)
        return is_first

    def using_resources(self) -> AbstractAsyncContextManager[None]:
        """Keep the resources of the current event loop open; the last user closes them.

        Raises (on entering):
            NighthawkError: The run has ended.
        """
        return _UsingResources(self)

    def join_loop(self) -> object:
        """Use the resources of the current event loop, and return the loop; see `using_resources`."""
        if self._has_ended:
            raise NighthawkError("The run has ended; execute its steps before leaving it.")
        loop = current_token().native_token
        resources = self._resources.get(loop)
        if resources is None:
            resources = self._resources[loop] = RunResources()
        resources.users += 1
        return loop

    async def leave_loop(self, loop: object) -> None:
        """Stop using the resources of an event loop; see `using_resources`."""
        resources = self._resources[loop]
        resources.users -= 1
        if resources.users == 0:
            del self._resources[loop]
            await resources.aclose()

    def current_resources(self) -> RunResources | None:
        """The resources of the current event loop; None if they have no users."""
        return self._resources.get(current_token().native_token)


class _UsingResources(AbstractAsyncContextManager[None]):
    """A user of resources. Every step in flight holds one, so this is a class and not a generator."""

    __slots__ = ("_loop", "_run_state")

    def __init__(self, run_state: RunState) -> None:
        self._run_state = run_state

    async def __aenter__(self) -> None:
        self._loop = self._run_state.join_loop()

    async def __aexit__(self, *exc_details: object) -> None:
        await self._run_state.leave_loop(self._loop)
