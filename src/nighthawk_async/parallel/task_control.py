"""Work of a task that can be steered, suspended and stopped from its handle.

It does not know what such a thing is: a natural step, for instance, says so by registering a control.
"""

from typing import Any, Protocol

__all__ = ["TaskControl"]


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
        """An immutable view of it at one moment."""
        ...

    def suspend(self) -> None:
        """Ask it to park at its next boundary. Asking again changes nothing."""
        ...

    async def wait_suspended(self) -> None:
        """Wait until it is parked.

        Raises:
            TaskEndedError: It ended before.
        """
        ...

    def resume(self, input: Any = None) -> None:
        """Let it go on.

        Args:
            input: What to deliver when it goes on; None for nothing.

        Raises:
            NotSuspendedError: It is not suspended.
            AlreadyResumedError: It was resumed already and has not gone on yet.
        """
        ...

    def stop(self, reason: str) -> None:
        """Ask it to fail at its next boundary."""
        ...

    def request_cancel(self, reason: str | None) -> None:
        """Ask it to end at its next boundary, parked or not. It must not raise."""
        ...
