"""The id of a request, from what the client says of it. Pure."""

import re
import uuid

from .protocol import AsgiScope, header_values

__all__ = ["choose_request_id"]

_TRACE_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_PLAIN_ID = re.compile(r"[A-Za-z0-9._:=+@/-]{1,128}")
"""Nothing that means something to a terminal, a page or a log file."""


def choose_request_id(asgi_scope: AsgiScope) -> str:
    """The W3C trace id of the request, else its `x-request-id`, else a new id.

    What is malformed, too long or given twice is ignored.

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
