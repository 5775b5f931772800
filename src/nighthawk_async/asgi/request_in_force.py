"""The request that the caller belongs to, for what answers it in a way of its own."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct

from .event_stream_keeping import KeptStreams
from .work import Work

__all__ = ["RequestInForce", "find_request", "using_request"]


class RequestInForce(Struct, frozen=True, kw_only=True, eq=False):
    """A request that a middleware has let in.

    Args:
        request_id: Its id.
        work: How it is made to end.
        streams: The event streams that clients can come back to.
    """

    request_id: str
    work: Work
    streams: KeptStreams


_request: ContextVar[RequestInForce | None] = ContextVar("nighthawk_async_asgi_request", default=None)


def find_request() -> RequestInForce | None:
    """The request that the caller belongs to; None outside a middleware."""
    return _request.get()


@contextmanager
def using_request(request: RequestInForce) -> Generator[None, None, None]:
    """Let what is called in the `with` statement belong to a request.

    Args:
        request: The request.
    """
    token = _request.set(request)
    try:
        yield
    finally:
        _request.reset(token)
