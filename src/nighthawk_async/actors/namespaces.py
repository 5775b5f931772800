"""Scopes in which names refer to mailboxes, locks, cells and pools.

A namespace covers a process, a run or a task group. Namespaces nest; a name in an enclosing one is found from
inside unless an inner one uses the same name. Everything named belongs to the event loop on which it was
named, so tasks of another loop (for instance a portal thread of the same run) never find it.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from anyio import NoEventLoopError
from anyio.lowlevel import RunVar, current_token

from .errors import NamespaceLeftError, UnknownNamespaceError
from .ordering import name_object

NamespaceKind: TypeAlias = Literal["process", "run", "task_group"]
"""`process` is everything on one event loop; `run` and `task_group` are scopes inside it."""

Thing = TypeVar("Thing")


class NameServer(Protocol):
    """The named locks and mailboxes of a namespace that are kept in another process."""

    async def acquire(
        self,
        scope: NamespaceKind,
        *,
        kind: Any,
        key: str,
        capacity: int,
        permits: int,
        seconds: float | None,
    ) -> Any:
        """Acquire permits, and return them; None when they were not free within some seconds."""
        ...

    async def send(self, mailbox: str, message: object) -> None:
        """Send a message to a mailbox, as `mailbox.send` does."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family(Generic[Thing]):
    """A kind of named object: two families may use the same name.

    Args:
        title: The word for one of them in error messages, for example `mailbox`.
        close: The function that closes each when its namespace ends; None for none.
    """

    title: str
    close: Callable[[Thing], object] | None = None


class Namespace:
    """The names of one scope. Made by `open_namespace`; the one of the process always exists.

    Args:
        kind: The kind of its scope.
        parent: The enclosing namespace; None for the process, and for an outermost one.

    Attributes:
        place: The name of it, for the orders of the objects that are named in it.
        server: The server of its locks and mailboxes; None where they are kept here.
    """

    __slots__ = ("_is_left", "_things_by_loop", "kind", "parent", "place", "server")

    def __init__(self, kind: NamespaceKind, parent: "Namespace | None") -> None:
        self.kind: NamespaceKind = kind
        self.parent = parent
        self.place = kind if kind == "process" else name_object(kind)
        self.server: NameServer | None = None
        self._things_by_loop: WeakKeyDictionary[object, _Things] | None = None
        self._is_left = False

    @property
    def is_left(self) -> bool:
        """Whether the scope has ended."""
        return self._is_left

    def find(self, family: Family[Thing], name: str) -> Thing | None:
        """Return the object with that name in this very namespace; None if there is none."""
        return cast("Thing | None", self._things().get((family, name)))

    def search(self, family: Family[Thing], name: str) -> Thing | None:
        """Return the object with that name here or in the nearest parent that has one; None for none."""
        found = (namespace.find(family, name) for namespace in self.outward())
        return next((thing for thing in found if thing is not None), None)

    def get_or_add(self, family: Family[Thing], name: str, make: Callable[[], Thing]) -> Thing:
        """Return the object with that name in this very namespace; make it when there is none.

        Args:
            family: The kind of object.
            name: The name.
            make: Makes the object.

        Raises:
            NamespaceLeftError: The scope has ended.
        """
        if self._is_left:
            raise NamespaceLeftError(f"the {family.title} {name!r} cannot be made: the {self.kind} has ended")
        thing = self.find(family, name)
        if thing is None:
            thing = make()
            self._things()[family, name] = thing
        return thing

    def remove(self, family: Family[Thing], name: str) -> Thing | None:
        """Free a name. Return its object, which is not closed; None when there is none."""
        return cast("Thing | None", self._things().pop((family, name), None))

    def names(self, family: Family[Thing]) -> tuple[str, ...]:
        """The names used in this very namespace, in the order in which they were given."""
        return tuple(name for known, name in self._things() if known is family)

    def outward(self) -> "Iterator[Namespace]":
        """Iterate over this namespace and the enclosing ones, innermost first, the process last."""
        namespace: Namespace = self
        yield namespace
        while namespace.parent is not None:
            namespace = namespace.parent
            yield namespace
        if namespace.kind != "process":
            yield _process_namespace()

    def leave(self) -> None:
        """End the scope: close the objects named on this event loop, the latest first, and free all names.

        Objects named on another event loop are left to that loop: closing them from here would wake their
        tasks in the wrong thread.
        """
        self._is_left = True
        things_by_loop, self._things_by_loop = self._things_by_loop, None
        loop = _current_loop()
        if things_by_loop is None or loop is None:
            return
        with ExitStack() as stack:  # closes the rest when one fails
            for (family, _), thing in things_by_loop.get(loop, {}).items():
                if family.close is not None:
                    stack.callback(family.close, thing)

    def _things(self) -> "_Things":
        """The named objects of this event loop. Kept weakly: names do not keep a finished loop alive."""
        if self._things_by_loop is None:
            self._things_by_loop = WeakKeyDictionary()
        return self._things_by_loop.setdefault(current_token().native_token, {})


_Things: TypeAlias = dict[tuple[Family[Any], str], object]

# Names exist without runs, too. A task that joins a run has the names of the run, and keeps its own holders.
_innermost: ContextVar[Namespace | None] = ContextVar("nighthawk_async_namespace", default=None)
_process: RunVar[Namespace] = RunVar("nighthawk_async_process_namespace")


def find_namespace(kind: NamespaceKind | None = None) -> Namespace:
    """Return the innermost namespace around the caller.

    Args:
        kind: The kind of scope that it must have; None for any.

    Raises:
        UnknownNamespaceError: The caller is in no such scope.
        anyio.NoEventLoopError: That of the process is requested, and no event loop runs in this thread.
    """
    namespace = _innermost.get()
    while namespace is not None:
        if kind in (None, namespace.kind):
            return namespace
        namespace = namespace.parent
    if kind in (None, "process"):
        return _process_namespace()
    raise UnknownNamespaceError(f"no {kind} surrounds the caller")


@contextmanager
def open_namespace(kind: Literal["run", "task_group"]) -> Generator[Namespace, None, None]:
    """Open a namespace inside the innermost one; leaving closes the objects that are named in it.

    Tasks started inside see it. Entering needs no event loop, naming an object does.

    Args:
        kind: The kind of its scope.

    Yields:
        The namespace.
    """
    namespace = Namespace(kind, _innermost.get())
    token = _innermost.set(namespace)
    try:
        yield namespace
    finally:
        _innermost.reset(token)
        namespace.leave()


@contextmanager
def using_namespace(namespace: Namespace) -> Generator[None, None, None]:
    """Make a namespace the innermost one; nothing that is named in it is closed on leaving."""
    token = _innermost.set(namespace)
    try:
        yield
    finally:
        _innermost.reset(token)


def _process_namespace() -> Namespace:
    namespace = _process.get(None)
    if namespace is None:
        namespace = Namespace("process", None)
        _process.set(namespace)
    return namespace


def _current_loop() -> object | None:
    """The event loop of this thread; None when none runs."""
    try:
        return current_token().native_token
    except NoEventLoopError:
        return None
