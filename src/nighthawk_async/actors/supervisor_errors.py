"""The errors of supervisors. Floor 1.

ActorError
└── SupervisorError
    ├── RestartLimitError       a child failed more often than its policy allows
    └── SupervisorEndedError    the supervisor is not entered, or starts nothing more
"""

from .errors import ActorError

__all__ = ["RestartLimitError", "SupervisorEndedError", "SupervisorError"]


class SupervisorError(ActorError):
    """A supervisor was used in a state that does not allow it, or has given up."""


class RestartLimitError(SupervisorError):
    """A child ended too often, so the supervisor has given up. The cause is the child's error.

    Args:
        child: The name of the child.
        max_restarts: How many restarts are allowed.
        window_seconds: Within how many seconds.
    """

    def __init__(self, *, child: str, max_restarts: int, window_seconds: float) -> None:
        super().__init__(
            f"the child {child!r} needs more than {max_restarts} restarts within {window_seconds:g} seconds"
        )
        self.child = child
        self.max_restarts = max_restarts
        self.window_seconds = window_seconds


class SupervisorEndedError(SupervisorError):
    """The supervisor is not entered, is stopping or has ended."""
