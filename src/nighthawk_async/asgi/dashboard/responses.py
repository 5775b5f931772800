"""Responses of the dashboard, with the headers that all of them have.

The files of the page come from a fixed table. They are part of the package; no request is looked up in the
file system.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache

from msgspec import Struct

from ...observe.page.files import CONTENT_TYPES, read_file
from ...types.json import JsonableValue
from ..problems import Problem
from ..protocol import AsgiScope, Message, Send, header_values

_SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


_to_json: Callable[[JsonableValue], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Response(Struct, frozen=True, kw_only=True):
    """A whole response.

    Args:
        status: The HTTP status.
        headers: Its headers, without those that every response has.
        body: Its body.
    """

    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes = b""


def json_response(value: JsonableValue, *, status: int = 200) -> Response:
    """Return a JSON response that must not be cached. Characters that UTF-8 cannot encode become "?".

    Args:
        value: The value.
        status: The HTTP status.
    """
    headers = {"content-type": "application/json", "cache-control": "no-store"}
    return Response(status=status, headers=headers, body=_to_json(value).encode(errors="replace"))


def file_response(text: str, *, name: str, content_type: str) -> Response:
    """Return a text as a file to download. Characters that UTF-8 cannot encode become "?".

    Args:
        text: The text.
        name: The name of the file, in plain ASCII.
        content_type: Its content type.
    """
    headers = {
        "content-type": f"{content_type}; charset=utf-8",
        "content-disposition": f'attachment; filename="{name}"',
        "cache-control": "no-store",
    }
    return Response(headers=headers, body=text.encode(errors="replace"))


def problem_response(problem: Problem, headers: Mapping[str, str]) -> Response:
    """Return the response that reports a problem.

    Args:
        problem: The problem.
        headers: Its additional headers.
    """
    return Response(
        status=problem.status,
        headers={**problem.headers, **headers},
        body=_to_json({**problem.as_json()}).encode(errors="replace"),
    )


def encode_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Encode headers for ASGI, together with those that all responses have."""
    every = {**_SECURITY_HEADERS, **headers}
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in every.items()]


async def send_response(send: Send, response: Response, *, is_head: bool = False) -> None:
    """Send a response.

    Args:
        send: Sends the messages.
        response: The response.
        is_head: Whether the request asked only for the headers.
    """
    headers = encode_headers({**response.headers, "content-length": str(len(response.body))})
    start: Message = {"type": "http.response.start", "status": response.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": b"" if is_head else response.body})


def static_response(name: str, asgi_scope: AsgiScope) -> Response:
    """Return the response with a file, or one that says that the browser has it already.

    Args:
        name: The name of the file, one of `CONTENT_TYPES`.
        asgi_scope: The request.
    """
    body, tag = _load(name)
    headers = {"etag": tag, "cache-control": "no-cache"}
    known = ",".join(header_values(asgi_scope, b"if-none-match"))
    if tag in (each.strip().removeprefix("W/") for each in known.split(",")):
        return Response(status=304, headers=headers)
    return Response(headers={**headers, "content-type": CONTENT_TYPES[name]}, body=body)


@cache
def _load(name: str) -> tuple[bytes, str]:
    """Return a file and its validator, which changes whenever the file does."""
    body = read_file(name)
    return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'
