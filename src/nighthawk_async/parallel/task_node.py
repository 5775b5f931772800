"""State of a task in the tree: its identity, its cancellation, its control.

It neither runs nor cancels anything (`tasks` does).

Work of a task can be steered, suspended and stopped from its handle if it registers a control, as a natural
step does. Tasks know nothing of mailboxes, namespaces or runs. The code that connects them installs hooks,
once, when it is imported. Without hooks tasks have no mailbox, and run, scope and step are unknown.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context, copy_context
from dataclasses import dataclass
from operator import is_
from threading import Lock, get_ident
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, Protocol
from weakref import WeakKeyDictionary

from anyio.abc import TaskGroup

from ..observation import NodeWriter
from ..types.execution import ExecutionRef
from .errors import AmbiguousPlaceError, TaskError


class Resources(Protocol):
    """The resources of one owner; see `resources.OwnedResources`."""

    async def use(
        self, key: Hashable, name: str, opener: Callable[[], Any], *, ends_last: bool = False
    ) -> Any:
        """Return the resource of a key; the first caller has it opened."""
        ...

    def find(self, key: Hashable) -> object | None:
        """Return the resource of a key if it is open."""
        ...

    async def close(self, leaving: BaseException | None) -> None:
        """Close every resource."""
        ...


class ResourceKeeper:
    """Holds what the resources of one owner need, and closes them when its work has ended.

    Made in the task of the owner. As an async context manager it is around the work of the owner.

    Args:
        kind: The kind of the owner, for errors.
        name: The name of the owner, for errors.
        task_group: A task group that ends with the owner, on its event loop.
        context: The context variables that openers see; None for those of the caller.

    Attributes:
        is_ending: Whether the work of the owner has ended, so that nothing more is opened for it.
        resources: The resources; None before the first.
    """

    __slots__ = ("_kind", "_name", "_thread", "context", "is_ending", "resources", "task_group")

    def __init__(
        self, kind: str, name: str, task_group: TaskGroup, *, context: Context | None = None
    ) -> None:
        self._kind = kind
        self._name = name
        self.task_group = task_group
        self.context = copy_context() if context is None else context
        self.is_ending = False
        self._thread = get_ident()
        self.resources: Resources | None = None

    @property
    def title(self) -> str:
        """The kind and the name of the owner."""
        return f"{self._kind} {self._name}"

    @property
    def is_here(self) -> bool:
        """Whether the caller is on the event loop of the owner, which runs in one thread."""
        return self._thread == get_ident()

    def find(self, key: Hashable) -> object | None:
        """The resource of a key if it is open; None otherwise."""
        return None if self.resources is None else self.resources.find(key)

    async def close(self, leaving: BaseException | None) -> None:
        """Close the resources, as the work of the owner has ended; see `resources.OwnedResources.close`."""
        self.is_ending = True
        try:
            if self.resources is not None:
                await self.resources.close(leaving)
        finally:
            self.context = Context()  # the other one refers to the owner, which refers to this keeper

    async def __aenter__(self) -> "ResourceKeeper":
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(exc)


UNSTABLE = "?"
"""The end of the digests of values that have no stable form."""


class TaskControl(Protocol):
    """Steering of work that runs in a task. Everything happens on the task's event loop."""

    @property
    def is_suspended(self) -> bool:
        """Whether it is parked and waits to be resumed."""
        ...

    def steer(self, *content: Any) -> None:
        """Deliver content at its next boundary, in order, exactly once."""
        ...

    async def snapshot(self) -> Any:
        """Return an immutable view of it at one moment."""
        ...

    def suspend(self) -> None:
        """Ask it to park at its next boundary. Asking again has no effect."""
        ...

    async def wait_suspended(self) -> None:
        """Wait until it is parked.

        Raises:
            TaskEndedError: It ended before it was parked.
        """
        ...

    def resume(self, input: Any = None) -> None:
        """Let it continue.

        Args:
            input: The message to deliver when it continues; None for none.

        Raises:
            NotSuspendedError: It is not suspended.
            AlreadyResumedError: It was already resumed and has not continued yet.
        """
        ...

    def stop(self, reason: str) -> None:
        """Ask it to fail at its next boundary."""
        ...

    def request_cancel(self, reason: str | None) -> None:
        """Ask it to end at its next boundary, parked or not. It must not raise."""
        ...


class TaskMailbox(Protocol):
    """The mailbox of a task: any object with these methods."""

    async def send(self, message: Any, /) -> None:
        """Wait until the message can be sent, and send it."""
        ...

    def send_nowait(self, message: Any, /) -> None:
        """Send a message now, or raise."""
        ...

    async def receive(self) -> Any:
        """Wait for the oldest message and take it."""
        ...

    def receive_nowait(self) -> Any:
        """Take the oldest message now, or raise."""
        ...

    def close(self) -> None:
        """Accept no more messages."""
        ...


class Decisions(Protocol):
    """Decisions by time, which a later life of the same run takes again, and what is in progress."""

    @property
    def is_replay(self) -> bool:
        """Whether calls are made again from their records alone, without effects."""
        ...

    def enter(self, place: str) -> None:
        """Note that an item or a task has begun. A run that waits is parked only if each of them waits."""
        ...

    def exit(self, place: str) -> None:
        """Note that an item or a task has ended, in whatever way."""
        ...

    def depending(self, place: str) -> AbstractContextManager[None]:
        """Note, during the `with` statement, that a place waits only for what happens in other places."""
        ...

    def find(self, place: str) -> tuple[int, ...] | None:
        """Return the decision that was kept for a place; None for none."""
        ...

    async def deliver_decision(self, place: str) -> None:
        """Wait until a kept decision may be taken again: all that was recorded before has come.

        Args:
            place: The place.
        """
        ...

    def items_in(self, place: str) -> frozenset[int]:
        """Return the numbers of the calls of a group in which an earlier life had recorded something.

        Args:
            place: The place of the group.
        """
        ...

    def drive(self, place: str) -> None:
        """Have a call do again what it had recorded, and nothing new: at the end of that, it waits.

        Args:
            place: The place of the call.
        """
        ...

    def close(self, place: str) -> None:
        """Note that calls or one of them have ended, or are not begun: nothing in the place comes any more.

        Args:
            place: The place.
        """
        ...

    def keep(self, place: str, decision: tuple[int, ...], *, is_failure: bool = False) -> None:
        """Keep a decision. It is durable before anything that follows from it.

        Args:
            place: The place.
            decision: The decision.
            is_failure: Whether it ends everything with an error. If the error ends the life, the next one
                decides anew.
        """
        ...

    def begins_only(self, place: str, items: Sequence[int]) -> None:
        """Note that of the calls of a combinator only some are begun in this life.

        Args:
            place: The place of the combinator.
            items: The indexes of those.
        """
        ...

    def ended(self, place: str) -> None:
        """Note that a task or some calls have ended regularly: the program handled all errors in them.

        Args:
            place: The place.
        """
        ...

    def all_ended(self, place: str) -> None:
        """Note that all calls or tasks in a place have ended; raises where an earlier life had more."""
        ...

    def miss(self, place: str) -> None:
        """Note that there is no such call in this life; raises where an earlier life needs it."""
        ...

    def failed(self, place: str, error: Exception) -> None:
        """Note that a function, an item or a task has failed: the program must not go on without its records.

        Args:
            place: Its place.
            error: The error that it has raised.
        """
        ...

    def raised(self, place: str, to: str | None = None) -> None:
        """Note that the errors in a place have been raised in the caller's task.

        Args:
            place: The place.
            to: The place of the caller; None where other tasks have the same place.
        """
        ...

    def refuse(self, place: str) -> NoReturn:
        """Refuse calls that succeeded, where an earlier life went on after the error of one of them.

        Args:
            place: Their place.
        """
        ...

    def count_time(self, place: str) -> float:
        """Count the time of a limit from now on in this life.

        Args:
            place: The place of the limit.

        Returns:
            The seconds that counted in earlier lives, since the last one in which the limit or an error ended
            its block.
        """
        ...


def _find_nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Callee:
    """The function among the arguments of a place: the variables around it may have changed since.

    Args:
        function: The function that is called.
    """

    function: object


class ArgumentDigest(NamedTuple):
    """The digest of the arguments of a place.

    Args:
        text: The digest, the same in every process; it ends with `UNSTABLE` if other arguments have the same.
        unstable: The objects among them that the digest does not tell apart.
    """

    text: str
    unstable: tuple[object, ...] = ()


def _digest_as_text(value: object) -> ArgumentDigest:
    return ArgumentDigest(repr(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHooks:
    """Extensions of tasks by other packages.

    Args:
        make_mailbox: Makes the mailbox of a task from its id, on first access; it is closed when the task
            ends. None: tasks have no mailbox.
        open_scope: Returns a context manager to enter around a block of tasks, left after its last task has
            ended.
        find_execution: Returns the identity of the run, scope and step of the caller; None outside every run.
        find_usage: Returns the usage so far in the caller's context; None where nothing counts it. If values
            can be subtracted, progress shows the difference.
        find_owner: Returns the event loop's task or the thread of the caller where places must be the same in
            every life of a run; None elsewhere.
        digest: Returns the digest of the arguments of a place.
        find_decisions: Returns the kept decisions of the caller's run; None where none are kept.
    """

    make_mailbox: Callable[[str], TaskMailbox] | None = None
    open_scope: Callable[[], AbstractContextManager[object]] = nullcontext
    find_execution: Callable[[], ExecutionRef | None] = _find_nothing
    find_usage: Callable[[], Any] = _find_nothing
    find_owner: Callable[[], object | None] = _find_nothing
    digest: Callable[[object], ArgumentDigest] = _digest_as_text
    find_decisions: Callable[[], "Decisions | None"] = _find_nothing


class _Installed:
    hooks = TaskHooks()


def get_task_hooks() -> TaskHooks:
    """Return the active hooks."""
    return _Installed.hooks


def install_task_hooks(hooks: TaskHooks) -> TaskHooks:
    """Activate hooks for every event loop of the process; return the previous ones."""
    before, _Installed.hooks = _Installed.hooks, hooks
    return before


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """A request for a task to end.

    Args:
        reason: The reason; None when none was given.
    """

    reason: str | None


_places_of_tasks: WeakKeyDictionary[object, str] = WeakKeyDictionary()


def find_task_place(task: object) -> str | None:
    """Return the last place that a task has taken where it did not own the positions; None for none.

    It tells a task that was started by hand from others of the same parent, in every life of a run.

    Args:
        task: The event loop's task, or the thread.
    """
    return _places_of_tasks.get(task)


_CALLER = object()


class Positions:
    """Assigns ids by position: the third `fetch` under `run` is `run/fetch[2]`, whatever the scheduling.

    In a run with a journal, positions belong to the task that made or entered them. A task that was started
    by hand inherits them with its context, and takes a position by its arguments instead, because the order
    of such tasks depends on scheduling: `run/fetch~5f1d0c2a[0]`.

    Args:
        path: The id under which the positions are.
        owner: The task that they belong to, as `TaskHooks.find_owner` gives it; the caller's by default.
    """

    __slots__ = ("_counts", "_owners", "_unstable", "path")

    def __init__(self, path: str, *, owner: object = _CALLER) -> None:
        self.path = path
        self._counts: dict[str, int] = {}
        self._unstable: dict[str, tuple[object, ...]] = {}  # by kind: what its digest does not tell apart
        if owner is _CALLER:
            owner = get_task_hooks().find_owner()
        self._owners: set[object] | None = None if owner is None else {owner}

    def take(self, kind: str, arguments: object = None) -> str:
        """Return the id of the next of a kind.

        Args:
            kind: The kind.
            arguments: The arguments that identify it among those of tasks that were started by hand.
        """
        return self._take_in(get_task_hooks().find_owner(), kind, arguments)

    def take_below(self, kind: str, arguments: object = None) -> "Positions":
        """Take the id of the next of a kind, and return the positions below it; see `take`."""
        owner = get_task_hooks().find_owner()  # once for both: each step of a run with a journal comes here
        return Positions(self._take_in(owner, kind, arguments), owner=owner)

    def _take_in(self, owner: object | None, kind: str, arguments: object) -> str:
        if self.is_owned_by(owner):
            return self.take_owned(kind)
        digest = get_task_hooks().digest(arguments)
        kind = f"{kind}~{digest.text}"
        if kind.endswith(UNSTABLE):
            self._check_same(kind, digest.unstable)
        place = self.take_owned(kind)
        _places_of_tasks[owner] = place
        return place

    def take_owned(self, kind: str) -> str:
        """Return the id of the next of a kind, in a task that takes positions as their maker does."""
        index = self._counts.get(kind, 0)
        self._counts[kind] = index + 1
        return f"{self.path}/{kind}[{index}]"

    def _check_same(self, kind: str, unstable: tuple[object, ...]) -> None:
        """Check that calls of one kind have the very same arguments, so that they are interchangeable."""
        known = self._unstable.setdefault(kind, unstable)
        if len(known) != len(unstable) or not all(map(is_, known, unstable)):
            raise AmbiguousPlaceError(
                f"{self.path}: two calls of {kind.partition('~')[0]} in tasks that were started by hand have "
                "arguments without a form that is the same in every life of the run. Start them with "
                "nighthawk_async.parallel or nighthawk_async.open_tasks, pass plain data that differs, or "
                "say what they are with nighthawk_async.journal.register(cls, identity=...)."
            )

    def owned_path(self) -> str | None:
        """The path, if the caller's task takes positions as their maker does; None elsewhere."""
        return self.path if self.is_owned else None

    def share(self) -> None:
        """Let the caller's task take positions as their maker does."""
        if self._owners is not None and (owner := get_task_hooks().find_owner()) is not None:
            self._owners.add(owner)

    @property
    def is_owned(self) -> bool:
        """Whether the caller's task takes positions as their maker does, in the order of the program."""
        return self._owners is None or self.is_owned_by(get_task_hooks().find_owner())

    def is_owned_by(self, owner: object | None) -> bool:
        """Whether a task takes positions as their maker does; None is a caller that no task is known of."""
        return owner is None or self._owners is None or owner in self._owners


class TaskNode:
    """One task in the tree of tasks.

    Args:
        id: Its id, unique below its root.
        name: Its name.
        parent: The task that started it; None for a root.
        owner: The task whose block it belongs to, and which does not end before it: a request for the owner
            to end applies to the task too. None for a root.
    """

    __slots__ = (
        "_controls",
        "_is_ended",
        "_mailbox",
        "_owned",
        "id",
        "keeper",
        "listeners",
        "name",
        "on_controlled",
        "on_suspended",
        "owner",
        "parent_id",
        "positions",
        "request",
        "root_id",
        "writer",
    )

    def __init__(self, *, id: str, name: str, parent: "TaskNode | None", owner: "TaskNode | None") -> None:
        self.id = id
        self.name = name
        self.parent_id = None if parent is None else parent.id
        self.root_id: str = id if parent is None else parent.root_id
        self.positions = Positions(id)
        self.request: CancelRequest | None = None
        self.writer: NodeWriter | None = None  # when there are observers
        self.on_controlled: Callable[[bool], object] | None = None  # called with whether it is controllable
        self.on_suspended: Callable[[bool], object] | None = None  # called when its work parks, and goes on
        self.listeners: list[Callable[[], object]] = []  # called when the task is asked to end
        self.keeper: ResourceKeeper | None = None  # when it runs in a task group that can keep resources
        self.owner = owner
        self._owned: dict[TaskNode, None] = {}
        self._controls: dict[int, TaskControl] = {}  # by identity
        self._mailbox: TaskMailbox | None = None
        self._is_ended = False
        if owner is not None:
            owner._owned[self] = None
            self.request = owner.request

    @property
    def control(self) -> TaskControl | None:
        """The control registered last whose work still runs; None for none."""
        return next(reversed(self._controls.values()), None)

    @property
    def mailbox(self) -> TaskMailbox:
        """The mailbox of the task; closed when the task has ended.

        Raises:
            TaskError: No hooks for mailboxes are installed.
        """
        if self._mailbox is None:
            make = get_task_hooks().make_mailbox
            if make is None:
                raise TaskError("tasks have no mailbox: install hooks that make one")
            self._mailbox = make(self.id)
            if self._is_ended:
                self._mailbox.close()
        return self._mailbox

    def ask_to_end(self, reason: str | None) -> None:
        """Ask the task, what runs in it and every task it owns to end. Only the first reason counts."""
        if self.request is not None:
            return
        self.request = CancelRequest(reason=reason)
        for control in tuple(self._controls.values()):
            control.request_cancel(reason)
        for tell in tuple(self.listeners):
            tell()
        for node in tuple(self._owned):
            node.ask_to_end(reason)

    def add_control(self, control: TaskControl) -> None:
        """Let work that runs in the task be controlled.

        Raises:
            TaskError: It is already controlled.
        """
        if id(control) in self._controls:
            raise TaskError(f"task {self.id} is controlled by {control!r} already")
        self._controls[id(control)] = control
        if self.on_controlled is not None and len(self._controls) == 1:
            self.on_controlled(True)
        if self.request is not None:
            control.request_cancel(self.request.reason)

    def remove_control(self, control: TaskControl) -> None:
        """Remove the control of work that has ended."""
        del self._controls[id(control)]
        if self.on_controlled is not None and not self._controls:
            self.on_controlled(False)

    def end(self) -> None:
        """End the task."""
        self._is_ended = True
        if self.owner is not None:
            self.owner._owned.pop(self, None)
        if self._mailbox is not None:
            self._mailbox.close()


class TaskItem(Positions):
    """An item of a combinator: a part of a task with positions, and for those who ask a task of its own.

    Its handle is that of the enclosing task, which steers and ends it. Its identity and its mailbox are its
    own; they are made when somebody asks for them, because most items need none.

    Args:
        path: Its id.
        outer: The item that it is part of; None for none.
    """

    __slots__ = ("_is_ended", "_node", "outer")

    def __init__(self, path: str, outer: "TaskItem | None") -> None:
        super().__init__(path)
        self.outer = outer
        self._node: TaskNode | None = None
        self._is_ended = False

    def node_in(self, task: TaskNode) -> TaskNode:
        """Return its node.

        Args:
            task: The task that it is part of.
        """
        parent = task if self.outer is None else self.outer.node_in(task)
        with _making_items:  # threads of one item may ask at once
            if self._node is None:
                self._node = TaskNode(id=self.path, name="item", parent=parent, owner=parent)
                if self._is_ended:
                    self._node.end()
            return self._node

    def end(self) -> None:
        """End it."""
        self._is_ended = True
        if self._node is not None:
            self._node.end()


_making_items = Lock()
