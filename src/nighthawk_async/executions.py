"""The executions of steps in progress, each below the one that started it.

They flow with the context variables into tasks and threads, and actors carry them from the sender of a
message to its handler. The packages below the runtime know nothing else about steps.
"""

from contextlib import suppress
from contextvars import ContextVar, Token


class Execution:
    """One execution of a step; in progress during the `with` statement.

    Args:
        id: Its unique id.
        caller: The execution that starts it; None for none.

    Attributes:
        has_ended: Whether it has ended.
    """

    __slots__ = ("_parent", "_token", "has_ended", "id")

    def __init__(self, id: str, caller: "Execution | None") -> None:
        self.id = id
        self.has_ended = False
        self._parent = caller

    @property
    def in_progress(self) -> "Execution | None":
        """It, or the nearest enclosing execution that has not ended; None if all have."""
        return self.parent if self.has_ended else self

    @property
    def parent(self) -> "Execution | None":
        """The nearest enclosing execution that has not ended."""
        parent = self._parent
        while parent is not None and parent.has_ended:
            parent = parent._parent
        self._parent = parent  # keep no reference to executions that have ended
        return parent

    @property
    def depth(self) -> int:
        """The number of nested executions that have not ended, this one included."""
        depth, execution = 1, self.parent
        while execution is not None:
            depth, execution = depth + 1, execution.parent
        return depth

    def __enter__(self) -> None:
        self._token = _innermost.set(self)

    def __exit__(self, *exc_details: object) -> None:
        self.has_ended = True
        _innermost.reset(self._token)


# It flows through the runs within a step, whose environment has no step. Actors, which are below the kernel,
# carry that of the sender of a message.
_innermost: ContextVar[Execution | None] = ContextVar("nighthawk_async_innermost_execution", default=None)


def find_execution_in_progress() -> Execution | None:
    """Return the innermost execution of the caller that has not ended; None outside of all."""
    execution = _innermost.get()
    return None if execution is None else execution.in_progress


def depth_below(caller: Execution | None) -> int:
    """Return the number of executions in progress around what an execution starts.

    Args:
        caller: The execution; None for none.
    """
    innermost = None if caller is None else caller.in_progress
    return 0 if innermost is None else innermost.depth


def find_execution() -> Execution | None:
    """Return the execution that started the caller, even if it has ended meanwhile; None for none."""
    return _innermost.get()


class using_execution:  # noqa: N801  (a context manager that reads as a function at its call)
    """Make an execution the parent of steps that begin in the `with` statement.

    Args:
        execution: The execution; None changes nothing.
    """

    __slots__ = ("_execution", "_token")

    def __init__(self, execution: Execution | None) -> None:
        self._execution = execution
        self._token: Token[Execution | None] | None = None

    def __enter__(self) -> None:
        if self._execution is not None:
            self._token = _innermost.set(self._execution)

    def __exit__(self, *exc_details: object) -> None:
        if self._token is not None:
            with suppress(ValueError):  # an unfinished coroutine may be closed in another context
                _innermost.reset(self._token)
