"""The errors of supervisors. Floor 1.

ActorError
└── SupervisorError
    ├── RestartLimitError       children ended more often than the supervisor allows
    ├── SupervisorDeadlockError a child waits for its own end
    └── SupervisorEndedError    the supervisor is not entered, or starts nothing more
"""

from .errors import ActorError

__all__ = ["RestartLimitError", "SupervisorDeadlockError", "SupervisorEndedError", "SupervisorError"]


class SupervisorError(ActorError):
    """A supervisor was used in a state that does not allow it, or has given up."""


class RestartLimitError(SupervisorError):
    """Children ended too often, so the supervisor has given up. The cause is the error of the last one.

    Args:
        child: The name of the child that ended last.
        max_restarts: How many restarts of all children together are allowed.
        window_seconds: Within how many seconds.
    """

    def __init__(self, *, child: str, max_restarts: int, window_seconds: float) -> None:
        super().__init__(
            f"the child {child!r} needs a restart, which is one more than the {max_restarts} that its "
            f"supervisor allows within {window_seconds:g} seconds"
        )
        self.child = child
        self.max_restarts = max_restarts
        self.window_seconds = window_seconds


class SupervisorDeadlockError(SupervisorError):
    """A child would wait for its own end: directly, or for the end of the supervisor that runs it.

    Only what a child waits for itself is known; the waits of tasks and threads that it starts are not.
    """


class SupervisorEndedError(SupervisorError):
    """The supervisor is not entered, is stopping or has ended."""
