"""The types of ASGI, and the little of its messages that more than one module reads. Pure.

Source: https://asgi.readthedocs.io/en/latest/specs/
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

__all__ = [
    "Application",
    "AsgiScope",
    "Message",
    "Receive",
    "Send",
    "ServedApplication",
    "header_values",
    "says_client_left",
]

AsgiScope: TypeAlias = MutableMapping[str, Any]
"""What ASGI calls a scope: what is known of a connection. Not a scope of this library."""

Message: TypeAlias = MutableMapping[str, Any]
"""An event that a server gives, or is given."""

Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
Application: TypeAlias = Callable[[Any, Any, Any], Awaitable[object]]
"""Any ASGI application; servers and frameworks have types of their own for what they hand to it."""

ServedApplication: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
"""An application of this library, for any server and framework."""

_DISCONNECTS = ("ClientDisconnect", "WebSocketDisconnect")
"""What Starlette and its kin call it."""


def header_values(asgi_scope: AsgiScope, name: bytes) -> list[str]:
    """The values of a header, in the order in which they came.

    Args:
        asgi_scope: The connection.
        name: The name, in lower case.
    """
    headers: Iterable[tuple[bytes, bytes]] = asgi_scope.get("headers") or ()
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def says_client_left(error: Exception) -> bool:
    """Whether an error is how frameworks tell an application that its client has left.

    Args:
        error: What the application has let out.
    """
    return type(error).__name__ in _DISCONNECTS
