"""The types of ASGI, and helpers to read its messages that more than one module needs.

Source: https://asgi.readthedocs.io/en/latest/specs/
"""

import re
import uuid
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

AsgiScope: TypeAlias = MutableMapping[str, Any]
"""A scope of ASGI: the data of a connection. Not a scope of this library."""

Message: TypeAlias = MutableMapping[str, Any]
"""An event from or for a server."""

Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
Application: TypeAlias = Callable[[Any, Any, Any], Awaitable[object]]
"""Any ASGI application; servers and frameworks pass arguments of their own types."""

ServedApplication: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
"""An application of this library, for any server and framework."""

_DISCONNECTS = ("ClientDisconnect", "WebSocketDisconnect")
"""The names of the disconnect errors of Starlette and similar frameworks."""


def header_values(asgi_scope: AsgiScope, name: bytes) -> list[str]:
    """Return the values of a header, in the order in which they came.

    Args:
        asgi_scope: The connection.
        name: The name, in lower case.
    """
    headers: Iterable[tuple[bytes, bytes]] = asgi_scope.get("headers") or ()
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


async def read_whole_body(receive: Receive, *, most_bytes: int, too_large: Exception) -> bytes | None:
    """Read the body of a request; None when its client has left before its end.

    Args:
        receive: Receives the messages of the request.
        most_bytes: The maximum size.
        too_large: The error to raise when it is larger.
    """
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > most_bytes:
            raise too_large
        if not message.get("more_body", False):
            return bytes(body)


def says_client_left(error: Exception) -> bool:
    """Whether an error is a framework's way to report that the client has left.

    Args:
        error: The error that the application has raised.
    """
    return type(error).__name__ in _DISCONNECTS


_TRACE_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_PLAIN_ID = re.compile(r"[A-Za-z0-9._:=+@/-]{1,128}")
"""Only characters without a special meaning for terminals, pages and log files."""


def choose_request_id(asgi_scope: AsgiScope) -> str:
    """Return the W3C trace id of the request, else its `x-request-id`, else a new id.

    Values that are malformed, too long or given twice are ignored.

    Args:
        asgi_scope: The connection.
    """
    return _trace_id(asgi_scope) or _given_id(asgi_scope) or uuid.uuid4().hex


def _trace_id(asgi_scope: AsgiScope) -> str | None:
    """Source: https://www.w3.org/TR/trace-context/#traceparent-header."""
    given = header_values(asgi_scope, b"traceparent")
    match = _TRACE_PARENT.fullmatch(given[0].strip()) if len(given) == 1 else None
    if match is None:
        return None
    version, trace_id, parent_id, rest = match.groups()
    is_of_this_version = version == "00" and rest is None
    is_of_a_later_one = version not in ("00", "ff")
    is_known = bool(trace_id.strip("0") and parent_id.strip("0"))
    return trace_id if is_known and (is_of_this_version or is_of_a_later_one) else None


def _given_id(asgi_scope: AsgiScope) -> str | None:
    given = header_values(asgi_scope, b"x-request-id")
    return given[0] if len(given) == 1 and _PLAIN_ID.fullmatch(given[0]) else None
