"""The resources of one owner: each is opened once, and closed when the work of the owner has ended.

    opening ── opened ──► open ── the owner has ended ──► closing ──► ended
       └── failed, or nobody waits any more ──────────────────────────► ended

Each resource has a task of its own that opens and closes it, so it may hold task groups and cancel scopes.
That task is shielded from cancellations: the resource is there as long as anything of its owner may use it.
"""

import functools
import inspect
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from types import MethodType, TracebackType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast

import anyio
from anyio.lowlevel import checkpoint

from ..observation import NodeWriter, observed
from .errors import (
    CallCancelledError,
    ResourceConflictError,
    ResourceDeadlockError,
    ResourceOwnerError,
    ResourceTimeoutError,
)
from .outcomes import without_cancellations
from .task_current import enter_resource, find_positions, find_resource
from .task_node import Positions, ResourceKeeper


class AsyncClosable(Protocol):
    """An object with an async method that closes it."""

    async def aclose(self) -> object:
        """Close it."""
        ...


class Closable(Protocol):
    """An object with a method that closes it."""

    def close(self) -> object:
        """Close it; an awaitable that it returns is awaited."""
        ...


Result = TypeVar("Result")

Opener: TypeAlias = Callable[
    [],
    AbstractAsyncContextManager[Result] | AbstractContextManager[Result] | Awaitable[Result],
]
"""Opens a resource.

It returns an async context manager, an awaitable of an object with `aclose` or `close`, or a context manager.
"""

_CLOSE_SECONDS = 10


async def _enter(stack: AsyncExitStack, opener: Opener[Any]) -> Any:
    """Open a resource, and have the stack close it."""
    made: object = opener()
    kind = type(made)
    if hasattr(kind, "__aenter__"):
        return await stack.enter_async_context(cast("AbstractAsyncContextManager[object]", made))
    if inspect.isawaitable(made):
        value = await made
        if callable(close := getattr(value, "aclose", None) or getattr(value, "close", None)):
            stack.push_async_callback(_call, close)
            return value
        raise TypeError(f"the opener {opener!r} gave {value!r}, which has neither aclose() nor close()")
    if hasattr(kind, "__enter__"):
        return stack.enter_context(cast("AbstractContextManager[object]", made))
    raise TypeError(
        f"the opener {opener!r} returned {made!r}, which is no context manager and no awaitable"
        + ("; decorate it with contextlib.asynccontextmanager" if inspect.isasyncgen(made) else "")
    )


async def _call(close: Callable[[], object]) -> None:
    # Shielded, as nobody may wait any more for an object that was opened a moment ago.
    with anyio.move_on_after(_CLOSE_SECONDS, shield=True) as limit:
        closing = close()
        if inspect.isawaitable(closing):
            await closing
    if limit.cancelled_caught:
        await checkpoint()  # the scope of the resource has been cancelled before this one


def _code_of(opener: object) -> tuple[object, object]:
    """The code of an opener, and the object that it is a method of.

    Two functions of the same code count as one: a lambda is another object whenever it is evaluated.
    """
    owner: object = None
    while True:
        if isinstance(opener, functools.partial):
            opener = cast("object", opener.func)
        elif isinstance(opener, MethodType):
            owner, opener = opener.__self__, opener.__func__
        elif "__wrapped__" in getattr(opener, "__dict__", ()):
            opener = getattr(opener, "__wrapped__", None)
        else:
            return getattr(opener, "__code__", opener), owner


class OpenResource:
    """One resource, from the first call that asks for it until it is closed.

    Args:
        name: Its name.
        opener: Opens it.
        owner: The name of the owner, for errors.
        ends_last: Whether it is closed after those that do not end last, with all others that do.
    """

    def __init__(self, name: str, opener: Opener[Any], owner: str, *, ends_last: bool) -> None:
        self.name = name
        self.opener = opener
        self.owner = owner
        self.ends_last = ends_last
        self.state: Literal["opening", "open", "ended"] = "opening"
        self.is_abandoned = False
        self.closing = anyio.Event()
        self.ended = anyio.Event()
        self.scope: anyio.CancelScope | None = None
        self._opened = anyio.Event()
        self._value: object = None
        self._error: tuple[BaseException, TracebackType | None] | None = None
        self._waiting = 0
        self._waits_for: list[OpenResource] = []

    @property
    def value(self) -> object | None:
        """The resource while it is open; None otherwise."""
        return self._value if self.state == "open" else None

    @property
    def title(self) -> str:
        """Its name and that of its owner, for errors."""
        return f"the resource {self.name!r} of {self.owner}"

    def is_opened_by(self, opener: Opener[Any]) -> bool:
        """Whether an opener is the one that opens it, as far as one can tell."""
        pairs = zip(_code_of(self.opener), _code_of(opener), strict=True)
        return self.opener == opener or all(mine is other for mine, other in pairs)

    async def wait(self) -> object:
        """Wait until it is open, and return its value.

        Raises:
            ResourceDeadlockError: It waits for the caller.
            BaseException: The error of the opener.
        """
        if self.state == "opening":
            await self._wait_opened()
        else:
            await checkpoint()
        if self._error is not None:
            error, traceback = self._error
            raise error.with_traceback(traceback)
        return self._value

    async def _wait_opened(self) -> None:
        caller = find_resource()
        if caller is not None:
            self._refuse_cycle(cast("OpenResource", caller))
            cast("OpenResource", caller)._waits_for.append(self)
        self._waiting += 1
        try:
            await self._opened.wait()
        finally:
            self._waiting -= 1
            if caller is not None:
                cast("OpenResource", caller)._waits_for.remove(self)
            if not self._waiting:
                self.abandon()

    def _refuse_cycle(self, caller: "OpenResource") -> None:
        """Raise if it waits, directly or not, for the caller, the resource whose opener asks."""
        paths = [[self]]
        while paths:
            path = paths.pop()
            if path[-1] is caller and caller.state == "opening":
                names = " → ".join(repr(each.name) for each in (caller, *path))
                raise ResourceDeadlockError(
                    f"{caller.title} waits for itself while it is opened: {names}. Open one of them without "
                    "the other, or pass it along."
                )
            paths += [[*path, each] for each in path[-1]._waits_for if each not in path]

    def abandon(self) -> None:
        """Stop opening it: nobody waits for it any more. Has no effect later."""
        if self.state == "opening":
            self.is_abandoned = True
            if self.scope is not None:
                self.scope.cancel()

    def publish(self, value: object) -> None:
        """Give it to those who wait."""
        self._value = value
        self.state = "open"
        self._opened.set()

    def end(self, error: BaseException | None) -> None:
        """Note that it is closed, or was not opened.

        Args:
            error: The error for those who wait until it is open.
        """
        if self.state == "opening":
            error = error or ResourceOwnerError(f"{self.title} was not opened: its owner has ended")
            self._error = error, error.__traceback__
        self.state = "ended"
        self._opened.set()
        self.ended.set()


async def use_resource(
    keeper: ResourceKeeper, key: Hashable, name: str, opener: Opener[Any], *, ends_last: bool = False
) -> Any:
    """Return a resource of the owner that the keeper belongs to; see `OwnedResources.use`."""
    if keeper.resources is None:
        keeper.resources = OwnedResources(keeper)
    return await keeper.resources.use(key, name, opener, ends_last=ends_last)


class OwnedResources:
    """The resources of one owner.

    Args:
        keeper: The place of the owner.
    """

    def __init__(self, keeper: ResourceKeeper) -> None:
        self._keeper = keeper
        self._current: dict[Hashable, OpenResource] = {}
        self._opening: list[OpenResource] = []
        self._open: list[OpenResource] = []
        self._begun: dict[str, int] = {}
        self._failures: list[tuple[OpenResource, BaseException]] = []

    async def use(self, key: Hashable, name: str, opener: Opener[Any], *, ends_last: bool = False) -> Any:
        """Return the resource of a key; the first caller has it opened.

        A caller that is cancelled leaves the others waiting. If opening fails, all who wait get the error,
        and the next caller has it opened anew.

        Args:
            key: The identity of the resource among those of the owner.
            name: Its name, for errors and observers.
            opener: Opens it.
            ends_last: Whether it is closed after those that do not end last, at the same time as all that do.

        Raises:
            ResourceOwnerError: The owner has ended.
            ResourceConflictError: It was opened by another function.
            ResourceDeadlockError: It waits for the caller.
            Exception: Any exception raised by the opener.
        """
        found = self._current.get(key)
        if found is not None and found.state != "ended" and not found.is_abandoned:
            if not found.is_opened_by(opener):
                raise ResourceConflictError(
                    f"{found.title} is opened by {found.opener!r}, not by {opener!r}; choose another name"
                )
            return await found.wait()
        if self._keeper.is_ending:
            raise ResourceOwnerError(f"{self._keeper.title} has ended: it opens no resource {name!r}")
        resource = self._current[key] = OpenResource(name, opener, self._keeper.title, ends_last=ends_last)
        self._opening.append(resource)
        before = None if found is None else found.ended
        start = self._keeper.task_group.start_soon
        self._keeper.context.run(start, self._keep, resource, before, name=f"resource {name}")
        return await resource.wait()

    def find(self, key: Hashable) -> object | None:
        """Return the resource of a key if it is open."""
        found = self._current.get(key)
        return None if found is None else found.value

    async def close(self, leaving: BaseException | None) -> None:
        """Close every resource, those that were opened last first; shielded from cancellation.

        Those that end last are closed at the same time. Each may take 10 seconds. An error does not keep the
        others open.

        Args:
            leaving: The error or cancellation that has ended the owner; None without one.

        Raises:
            Exception: The only error; several in an exception group. If an error has ended the owner,
                nothing is raised, and that error gets a note for each.
        """
        with anyio.CancelScope(shield=True):
            for resource in (opening := tuple(self._opening)):
                resource.abandon()
            for resource in opening:
                if resource.scope is not None:  # its task has begun
                    await resource.ended.wait()
            while self._open:
                newest = next((each for each in reversed(self._open) if not each.ends_last), None)
                ending = tuple(self._open) if newest is None else (newest,)
                for resource in ending:
                    resource.closing.set()
                for resource in ending:
                    await resource.ended.wait()
        self._current.clear()
        failures, self._failures = self._failures, []
        if failures:
            _report(failures, leaving, self._keeper.title)

    async def _keep(self, resource: OpenResource, before: anyio.Event | None) -> None:
        """Open a resource, and close it in the same task when its owner has ended."""
        try:
            await self._open_and_close(resource, before)
        except BaseException as error:
            was_open = resource.state == "open"
            self._end(resource, error)
            if was_open and not isinstance(error, Exception) and not resource.closing.is_set():
                raise  # it ends the program
            if was_open or resource.is_abandoned:  # else those who wait for it raise it
                self._failures.append((resource, error))
        else:
            self._end(resource, None)

    def _end(self, resource: OpenResource, error: BaseException | None) -> None:
        (self._open if resource.state == "open" else self._opening).remove(resource)
        resource.end(error)

    async def _open_and_close(self, resource: OpenResource, before: anyio.Event | None) -> None:
        number = self._begun.get(resource.name, 0)
        self._begun[resource.name] = number + 1
        path = f"{find_positions().path}/resource {resource.name}[{number}]"
        enter_resource(Positions(path), resource)
        with observed("resource", resource.name, state="waiting") as node:
            with anyio.CancelScope(shield=True) as resource.scope:
                if resource.is_abandoned:
                    return
                if before is not None:
                    await before.wait()
                await self._hold_open(resource, resource.scope, node)
            if not resource.scope.cancelled_caught:
                return
            if resource.state == "open":
                raise ResourceTimeoutError(f"{resource.title} was not closed within {_CLOSE_SECONDS} seconds")
            if node is not None:
                node.end("cancelled")

    async def _hold_open(
        self, resource: OpenResource, scope: anyio.CancelScope, node: NodeWriter | None
    ) -> None:
        """Hold a resource open, inside the scope that cancels its opening, and too slow a closing."""
        try:
            async with AsyncExitStack() as stack:
                value = await _enter(stack, resource.opener)
                if resource.is_abandoned:
                    return
                self._opening.remove(resource)
                self._open.append(resource)
                resource.publish(value)
                if node is not None:
                    node.change_state("running")
                await resource.closing.wait()
                scope.deadline = anyio.current_time() + _CLOSE_SECONDS
        except anyio.get_cancelled_exc_class():
            if scope.cancel_called:
                raise
            raise CallCancelledError(f"something that {resource.title} awaited was cancelled") from None


def _report(
    failures: list[tuple[OpenResource, BaseException]], leaving: BaseException | None, owner: str
) -> None:
    """Raise the failures of resources, or attach them to the error that has ended their owner."""
    errors = [error for _, error in failures]
    urgent = [error for error in errors if not isinstance(error, Exception)]
    try:
        if leaving is not None and without_cancellations(leaving) is not None and not urgent:
            for resource, error in failures:
                leaving.add_note(f"{resource.title} failed as well: {error!r}")
            return
        for resource, error in failures:
            error.add_note(f"raised by {resource.title}")
        if urgent or len(errors) == 1:
            raise (urgent or errors)[0]
        raise BaseExceptionGroup(f"{len(errors)} resources of {owner} failed", errors)
    finally:
        failures.clear()  # the tracebacks of the errors refer to this frame
        del errors, urgent, leaving
