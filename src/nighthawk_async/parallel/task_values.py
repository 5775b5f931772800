"""Task-local values: names and values that flow into the tasks that a task starts.

Values are values: setting stores a copy and getting gives a copy, so no two tasks ever hold the same
container. A task begins with what was set where it was started. What it sets is seen by nobody else but the
tasks it starts afterwards, and plain AnyIO tasks and worker threads are no exception. To change a container,
get it, change it and set it again.

An object that is meant to be shared (a lock, a mailbox, a shared cell) says so itself, by a method
`__deepcopy__` that gives the object.
"""

import copy
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from .task_errors import TaskValueError

__all__ = ["VALUES", "TaskValues", "task_values"]

VALUES: ContextVar[Mapping[str, object]] = ContextVar(
    "nighthawk_async_task_values", default=MappingProxyType({})
)


class TaskValues:
    """The task-local values of whoever asks."""

    __slots__ = ()

    def get(self, name: str, default: Any = None) -> Any:
        """A copy of a value.

        Args:
            name: Its name.
            default: What to give when there is none.
        """
        values = VALUES.get()
        return copy.deepcopy(values[name]) if name in values else default

    def set(self, name: str, value: object) -> None:
        """Store a copy of a value: for the caller, and for the tasks it starts from now on.

        Raises:
            TaskValueError: The value cannot be copied.
        """
        try:
            kept = copy.deepcopy(value)
        except Exception as error:  # copying runs the value's own code, which may raise anything
            kind = type(value).__name__
            raise TaskValueError(f"the task-local value {name!r} of type {kind} cannot be copied") from error
        VALUES.set(MappingProxyType({**VALUES.get(), name: kept}))

    def delete(self, name: str) -> bool:
        """Forget a value, in the same extent as `set`; False when there is none."""
        values = dict(VALUES.get())
        is_there = name in values
        values.pop(name, None)
        VALUES.set(MappingProxyType(values))
        return is_there

    def names(self) -> tuple[str, ...]:
        """The names that have values, in the order in which they were first set."""
        return tuple(VALUES.get())


_VALUES_OF_CALLER = TaskValues()


def task_values() -> TaskValues:
    """The task-local values of the caller."""
    return _VALUES_OF_CALLER
