"""The meaning of failed calls: bad arguments, a tool that failed, a connection that is gone."""

import re
from http import HTTPStatus

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, CallToolResult

from ..errors import ErrorKind
from ..pickling import PicklableError
from .connection import Connection
from .errors import ServerCallError, ServerToolError
from .results import content_of, text_of
from .tool_facts import ToolFacts
from .values import ERROR_KIND

_BAD_ARGUMENTS = re.compile(r"-32602|validation error|invalid arguments", re.IGNORECASE)
_BAD_STATUS = "Server returned an error response"
_SERVER_ERROR = 500
_TRANSIENT_STATUSES = (408, 425, 429)
_QUOTED_CHARACTERS = 4_000
_KINDS: tuple[ErrorKind, ...] = ("invalid_input", "transient", "execution")


class ConnectionLostError(PicklableError):
    """The connection was lost while a request was in flight.

    Args:
        message: The failure.
        may_have_begun: Whether the server may have begun to work on it.
    """

    def __init__(self, message: str, *, may_have_begun: bool = True) -> None:
        super().__init__(message)
        self.may_have_begun = may_have_begun


def is_unknown_session(error: MCPError, connection: Connection) -> bool:
    """Whether a server behind HTTP has refused a request because it does not know the session any more."""
    return error.code == INVALID_REQUEST and connection.failed_status == HTTPStatus.NOT_FOUND


def is_lost_session(error: MCPError, connection: Connection) -> bool:
    """Whether an error says that the connection is gone, rather than something about the request."""
    if is_unknown_session(error, connection):
        return True
    return error.code == CONNECTION_CLOSED or connection.is_lost.is_set()


def failure_of(error: MCPError, server: str, subject: str, connection: Connection) -> ServerCallError:
    """Return the error of a request that was refused.

    Args:
        error: The refusal.
        server: The name of the server.
        subject: The beginning of the message.
        connection: The connection.
    """
    text = f"{subject}{error.message}"
    if error.code == INVALID_PARAMS:
        return ServerCallError(
            server, text, kind="invalid_input", guidance="Call it again with other arguments."
        )
    status = connection.failed_status
    if error.code == INTERNAL_ERROR and error.message == _BAD_STATUS and status is not None:
        text = f"{subject}server {server!r} answered {connection.failed_status_text}"
        if status >= _SERVER_ERROR or status in _TRANSIENT_STATUSES:
            return ServerCallError(
                server, text, kind="transient", guidance="The same call may succeed later."
            )
    return ServerCallError(server, text, kind="execution")


def raise_if_error(server: str, tool: ToolFacts, result: CallToolResult) -> None:
    """Raise the failure that a tool reports.

    Raises:
        ServerToolError: It reports one.
    """
    if not result.is_error:
        return
    text = text_of(result)[:_QUOTED_CHARACTERS] or "the tool failed without a word"
    raise ServerToolError(
        server, f"{tool.name}: {text}", kind=_kind_of(result, text), content=content_of(result)
    )


def _kind_of(result: CallToolResult, text: str) -> ErrorKind:
    """Return the kind that the server says, or that its words tell."""
    said: object = (result.meta or {}).get(ERROR_KIND)
    for kind in _KINDS:
        if said == kind:
            return kind
    return "invalid_input" if _BAD_ARGUMENTS.search(text) else "execution"
