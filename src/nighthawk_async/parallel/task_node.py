"""State of a living task: its identity, its cancellation, its control.

It neither runs nor cancels anything (`task_state`, `tasks`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..observation import NodeWriter
from .task_control import TaskControl
from .task_errors import TaskError
from .task_hooks import TaskMailbox, get_task_hooks

__all__ = ["CancelRequest", "Positions", "TaskNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """A task was asked to end.

    Args:
        reason: Why; None when nobody said.
    """

    reason: str | None


class Positions:
    """Gives ids by position: the third `fetch` under `run` is `run/fetch[2]`, whoever runs first.

    Args:
        path: The id under which the positions are.
    """

    __slots__ = ("_counts", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._counts: dict[str, int] = {}

    def take(self, kind: str) -> str:
        """The id of the next of a kind."""
        index = self._counts.get(kind, 0)
        self._counts[kind] = index + 1
        return f"{self.path}/{kind}[{index}]"


class TaskNode:
    """One task in the tree of tasks.

    Args:
        id: Its id, unique below its root.
        name: What it is called.
        parent: The task that started it; None for a root.
        owner: The task whose block it belongs to, and which does not end before it: what asks the owner to
            end asks the task too. None for a root.
    """

    __slots__ = (
        "_controls",
        "_is_ended",
        "_mailbox",
        "_owned",
        "_owner",
        "id",
        "listeners",
        "name",
        "on_controlled",
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
        self.writer: NodeWriter | None = None  # where somebody watches the task
        self.on_controlled: Callable[[bool], object] | None = None  # told whether something can be controlled
        self.listeners: list[Callable[[], object]] = []  # called when the task is asked to end
        self._owner = owner
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
            TaskError: Nobody has said how mailboxes are made.
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
        """Let what runs in the task be controlled.

        Raises:
            TaskError: It is controlled already.
        """
        if id(control) in self._controls:
            raise TaskError(f"task {self.id} is controlled by {control!r} already")
        self._controls[id(control)] = control
        if self.on_controlled is not None and len(self._controls) == 1:
            self.on_controlled(True)
        if self.request is not None:
            control.request_cancel(self.request.reason)

    def remove_control(self, control: TaskControl) -> None:
        """It has ended."""
        del self._controls[id(control)]
        if self.on_controlled is not None and not self._controls:
            self.on_controlled(False)

    def end(self) -> None:
        """The task has ended."""
        self._is_ended = True
        if self._owner is not None:
            self._owner._owned.pop(self, None)
        if self._mailbox is not None:
            self._mailbox.close()
