"""State of one run: resources by event loop, services, and portal threads for synchronous code.

Resources are connection pools and embedded model servers. They belong to one event loop, and are closed when
they have no more users on that loop. A user is a run that was entered there with `async with`, a portal
thread, or a step in progress.

Services, such as sessions with servers, live in tasks of the run and belong to its event loop.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import Context, copy_context
from threading import get_ident
from typing import Any, Literal, Protocol, TypeVar, cast

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import current_token

from ..actors import BareTaskGroup
from ..errors import NighthawkError
from ..parallel.resource_keeper import ResourceKeeper
from ..parallel.task_current import enter_foreign_loop, find_node
from ..parallel.task_node import TaskNode
from .admission import StepAdmission
from .portals import PortalPool

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

    async def aclose(self) -> None:
        """Close every resource; shielded from cancellation, for 10 seconds at most."""
        self._opened.clear()
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await self._stack.aclose()


class RunServices:
    """The services of a run: each lives in a task of its own, and all end together, after the run's tasks.

    A service is an async function that is called with this object. It reports its value with `started`, and
    ends when `wait_stopped` returns. An exception before that goes to those who wait for the service.

    Args:
        group: The task group that holds their tasks.
    """

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._context = copy_context()
        self._loop = current_token()
        self._stopped = anyio.Event()
        self._services: dict[Hashable, _Service] = {}

    async def get(self, key: Hashable, serve: "Callable[[RunServices], Awaitable[None]]") -> object:
        """Return the value of a service; the first caller starts it.

        It starts in the context of the run, not in that of the caller, whose cancellation does not end it. If
        it fails to start, the next caller starts it anew.

        Args:
            key: The identity of the service within the run.
            serve: The service.

        Raises:
            NighthawkError: The caller is on another event loop than the run.
            Exception: The service could not start.
        """
        self.check_loop()
        service = self._services.get(key)
        if service is None or service.failure is not None:
            service = self._services[key] = _Service()
            self._context.copy().run(self._group.start_soon, self._run, key, serve, service)
        await service.is_ready.wait()
        if service.failure is not None:
            raise service.failure
        return service.value

    def check_loop(self) -> None:
        """Check that the caller is on the event loop of the run, on which all services live.

        Raises:
            NighthawkError: It is on another one.
        """
        if current_token() != self._loop:
            raise NighthawkError(
                "A service of a run, such as a session with a server, can be used on the run's event loop "
                "only, and this call comes from another one. Call it in an async function, or from a thread "
                "of anyio.to_thread."
            )

    def find(self, key: Hashable) -> object | None:
        """Return the value of a service that has started; None for none."""
        service = self._services.get(key)
        return None if service is None else service.value

    def started(self, key: Hashable, value: object) -> None:
        """Report the value of a service, which others may use from now on."""
        service = self._services[key]
        service.value = value
        service.is_ready.set()

    def has_started(self, key: Hashable) -> bool:
        """Whether a service has reported its value."""
        return self._services[key].is_ready.is_set()

    @property
    def is_stopped(self) -> bool:
        """Whether services end."""
        return self._stopped.is_set()

    async def wait_stopped(self) -> None:
        """Wait until the run has no more tasks, so that its services end."""
        await self._stopped.wait()

    def stop(self) -> None:
        """End all services."""
        self._stopped.set()

    async def _run(
        self, key: Hashable, serve: "Callable[[RunServices], Awaitable[None]]", service: "_Service"
    ) -> None:
        try:
            await serve(self)
        except Exception as error:
            if service.is_ready.is_set():
                raise
            service.failure = error
        except BaseException:
            service.failure = NighthawkError("The run has ended before the service had started.")
            raise
        finally:
            service.is_ready.set()


class Server(Protocol):
    """What `servers=` of a run takes, such as `nighthawk_async.mcp.stdio` makes."""

    async def bind(self, name: str, services: RunServices) -> object:
        """Connect, and return the object that blocks know by a name.

        Args:
            name: The name.
            services: The services of the run, which own the connection.
        """
        ...


class _Service:
    """One service: its value, or the error for which it could not start."""

    __slots__ = ("failure", "is_ready", "value")

    def __init__(self) -> None:
        self.value: object = None
        self.failure: Exception | None = None
        self.is_ready = anyio.Event()


SyncBackend = Literal["trio", "asyncio"]


class RunState:
    """The mutable part of a run.

    Args:
        sync_backend: The AnyIO backend of the portal threads that run synchronous natural functions.
        max_concurrent_steps: The greatest number of steps in flight at once; None for any number.

    Attributes:
        root: The task of the run; None before it is entered.
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
        self.services: RunServices | None = None
        """The services of the run; None where it was not entered with `async with`."""
        self.portals = PortalPool(backend=sync_backend, resources=self._keeping_on_portal)
        self._portal_keepers: dict[int, ResourceKeeper] = {}
        self._context: Context | None = None
        self.root: TaskNode | None = None

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
        context.run(enter_foreign_loop)
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

    def get_services(self) -> RunServices:
        """The services of the run.

        Raises:
            NighthawkError: The run was entered with `with`, or is not active.
        """
        if self.services is None:
            raise NighthawkError(
                "Servers belong to an active run that was entered with `async with`: "
                "`async with nighthawk_async.run(…): …`."
            )
        return self.services

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
