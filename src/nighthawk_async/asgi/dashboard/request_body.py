"""The body of a request: JSON of bounded length."""

from typing import TypeVar

import msgspec

from ...pickling import PicklableError
from ..protocol import AsgiScope, Receive, header_values
from .refusals import NOT_JSON, TOO_LARGE, RefusalError, bad_request

__all__ = ["MAX_BODY_BYTES", "ClientLeftError", "read_body"]

MAX_BODY_BYTES = 65_536

Body = TypeVar("Body")


class ClientLeftError(PicklableError):
    """The client has left before its request was whole: there is nobody to tell."""


async def read_body(asgi_scope: AsgiScope, receive: Receive, form: type[Body]) -> Body:
    """Read a body.

    Args:
        asgi_scope: The connection.
        receive: Gives its messages.
        form: What the body must be; no body at all counts as an empty object.

    Raises:
        RefusalError: It is no JSON, too long, or not of the form.
        ClientLeftError: The client has left.
    """
    content_types = header_values(asgi_scope, b"content-type")
    if [each.partition(";")[0].strip().lower() for each in content_types] != ["application/json"]:
        raise RefusalError(NOT_JSON)
    body = await _read_bytes(receive)
    try:
        return msgspec.json.decode(body or b"{}", type=form)
    except RecursionError:
        raise RefusalError(bad_request("The body is nested too deep.")) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusalError(bad_request(f"The body is not what is expected: {error}.")) from None


async def _read_bytes(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise RefusalError(TOO_LARGE)
        if not message.get("more_body", False):
            return bytes(body)
