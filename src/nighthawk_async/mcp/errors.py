"""Errors of servers of the Model Context Protocol.

NighthawkError
├── McpError                    a server cannot be used as asked
│   └── ServerUnavailableError      it cannot be started or reached
└── ToolBoundaryError
    └── ServerCallError         a call failed: `invalid_input`, `execution` or `transient`; an McpError too
        ├── ServerToolError         the tool reported the failure
        └── ServerLostError         the connection broke, or no answer came in time: `transient`
"""

from ..errors import ErrorKind, NighthawkError, ToolBoundaryError
from ..pickling import set_public_module


class McpError(NighthawkError):
    """A server of the Model Context Protocol cannot be used as asked."""


class ServerUnavailableError(McpError):
    """A server cannot be started or reached, or does not speak the protocol."""


class ServerCallError(ToolBoundaryError, McpError):
    """A call of a server failed.

    Args:
        server: The name of the server.
        message: The failure.
        kind: `invalid_input`: the arguments do not fit; `transient`: the same call may succeed later;
            `execution`: anything else.
        guidance: Advice for a model, when there is any.
    """

    def __init__(self, server: str, message: str, *, kind: ErrorKind, guidance: str | None = None) -> None:
        super().__init__(kind=kind, message=message, guidance=guidance)
        self.without_content(f"a call of server {server!r} failed ({kind})")
        self.server = server
        self.is_transient = kind == "transient"


class ServerToolError(ServerCallError):
    """A tool reported that it failed; the text is its own.

    Args:
        server: The name of the server.
        message: The failure, in the tool's words.
        kind: See `ServerCallError`.
        content: The result of the tool, as `nighthawk_async.mcp` returns results.
    """

    def __init__(self, server: str, message: str, *, kind: ErrorKind, content: object = None) -> None:
        super().__init__(server, message, kind=kind, guidance="Change the call, or go on without its result.")
        self.content = content


class ServerLostError(ServerCallError):
    """The connection broke, or no answer came in time. The call may have taken effect.

    Args:
        server: The name of the server.
        message: The failure.
        may_have_begun: Whether the call was sent.
    """

    def __init__(self, server: str, message: str, *, may_have_begun: bool = True) -> None:
        guidance = (
            "It may have taken effect: look before you call it again."
            if may_have_begun
            else "The same call may succeed later."
        )
        super().__init__(server, message, kind="transient", guidance=guidance)
        self.may_have_begun = may_have_begun


set_public_module("mcp", globals())
