"""Additions of other rooms to tasks: mailboxes, names, and the identity of the work.

Tasks know nothing of mailboxes, namespaces or runs. Whoever joins them installs hooks, once, when it is
imported. Without hooks tasks have no mailbox, and run, scope and step are unknown.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from ..types.execution import ExecutionRef

__all__ = ["TaskHooks", "TaskMailbox", "get_task_hooks", "install_task_hooks"]


class TaskMailbox(Protocol):
    """The mailbox of a task: any that has these methods."""

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


def _find_no_execution() -> ExecutionRef | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHooks:
    """Additions of other rooms to tasks.

    Args:
        make_mailbox: Makes the mailbox of a task from its id, when it is first asked for; it is closed when
            the task ends. None: tasks have no mailbox.
        open_extent: Gives what is entered around a block of tasks, and left after its last task has ended.
        find_execution: Gives the identity of the run, scope and step of the caller; None outside every run.
    """

    make_mailbox: Callable[[str], TaskMailbox] | None = None
    open_extent: Callable[[], AbstractContextManager[object]] = nullcontext
    find_execution: Callable[[], ExecutionRef | None] = _find_no_execution


class _Installed:
    hooks = TaskHooks()


def get_task_hooks() -> TaskHooks:
    """The hooks in force."""
    return _Installed.hooks


def install_task_hooks(hooks: TaskHooks) -> TaskHooks:
    """Put hooks in force, for every event loop of the process; gives those that were before."""
    before, _Installed.hooks = _Installed.hooks, hooks
    return before
