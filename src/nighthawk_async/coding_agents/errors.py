"""Errors of coding agents.

ModelError
└── CodingAgentError                a coding agent failed; nothing was committed
    ├── CodingAgentMissingError         its command line is not installed
    ├── CodingAgentVersionError         its command line is too old
    ├── CodingAgentCrashedError         its process ended before it had a result
    ├── CodingAgentProtocolError        it wrote what is no message
    └── CodingAgentRequestError         it gave up: its model refused, or a limit of its own was reached
"""

from collections.abc import Sequence

from ..errors import ModelError
from ..pickling import set_public_module


class CodingAgentError(ModelError):
    """A coding agent failed. Nothing was committed, and its processes have ended.

    Args:
        message: The failure, and what to do about it.
        agent: The name of the agent.
        last_lines: The last lines that it wrote to its standard error.
        is_transient: Whether the same step may succeed later.
    """

    def __init__(
        self, message: str, *, agent: str, last_lines: Sequence[str] = (), is_transient: bool = False
    ) -> None:
        shown = "; the end of its standard error: " + " | ".join(last_lines) if last_lines else ""
        super().__init__(message + shown, is_transient=is_transient)
        self.without_content(f"{agent} failed ({type(self).__name__})")
        self.agent = agent
        self.last_lines = tuple(last_lines)


class CodingAgentMissingError(CodingAgentError):
    """The command line of a coding agent was not found, or cannot be started."""


class CodingAgentVersionError(CodingAgentError):
    """The command line of a coding agent is too old.

    Args:
        message: The failure, and what to do about it.
        agent: The name of the agent.
        found: The version that was found.
        needed: The oldest version that works.
        last_lines: See `CodingAgentError`.
    """

    def __init__(
        self, message: str, *, agent: str, found: str, needed: str, last_lines: Sequence[str] = ()
    ) -> None:
        super().__init__(message, agent=agent, last_lines=last_lines)
        self.found = found
        self.needed = needed


class CodingAgentCrashedError(CodingAgentError):
    """The process of a coding agent ended, or closed its output, before it had a result.

    Args:
        message: The failure, and what to do about it.
        agent: The name of the agent.
        exit_code: The exit code, negative for a signal; None when it was still running.
        last_lines: See `CodingAgentError`.
    """

    def __init__(
        self, message: str, *, agent: str, exit_code: int | None, last_lines: Sequence[str] = ()
    ) -> None:
        super().__init__(message, agent=agent, last_lines=last_lines, is_transient=True)
        self.exit_code = exit_code


class CodingAgentProtocolError(CodingAgentError):
    """A coding agent wrote what is no message of its protocol."""


class CodingAgentRequestError(CodingAgentError):
    """A coding agent gave up: its model could not be asked, or a limit of its own was reached.

    Where the kind is known, it is an error of that kind too: a `ContextTooLongError`, for example.

    Args:
        message: The failure, in the agent's words.
        agent: The name of the agent.
        status: The HTTP status of the model's endpoint, when it is known.
        last_lines: See `CodingAgentError`.
        is_transient: Whether the same step may succeed later.
    """

    def __init__(
        self,
        message: str,
        *,
        agent: str,
        status: int | None = None,
        last_lines: Sequence[str] = (),
        is_transient: bool = False,
    ) -> None:
        super().__init__(message, agent=agent, last_lines=last_lines, is_transient=is_transient)
        self.status = status


set_public_module("executors", globals())
globals().update(CodingAgentRequestError.forms_of_kinds(__name__))
