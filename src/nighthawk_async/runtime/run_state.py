"""State of one run: resources by event loop, and portal threads for synchronous code.

Resources are connection pools and embedded model servers. They belong to one event loop, and are closed when
they have no more users on that loop. A user is a run that was entered there with `async with`, a portal
thread, or a step in progress.
"""

from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import Context, copy_context
from copy import copy
from threading import get_ident
from typing import Any, Literal, Protocol, TypeVar, cast

import anyio
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
