"""The bytes of one request and its response, over whichever transport. `exchange` makes the rest of them."""

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import SplitResult


class ByteExchange(Protocol):
    """One request, sent when it is entered; entering waits for the head of the response."""

    @property
    def status(self) -> int:
        """The response's HTTP status code; 0 without a response."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The response's headers; names in lower case."""
        ...

    @property
    def was_sent(self) -> bool:
        """Whether the server may have received the request."""
        ...

    @property
    def was_cut(self) -> bool:
        """Whether the server broke off the response's body before its end."""
        ...

    @property
    def is_at_end(self) -> bool:
        """Whether the whole body was read, so that the next chunk is empty and comes at once."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    async def read_chunk(self) -> bytes:
        """More of the response's body, as it arrives; empty at its end.

        Raises:
            ModelConnectionError: The connection broke.
        """
        ...

    async def read_body(self, *, max_bytes: int | None) -> bytes:
        """The rest of the response's body.

        Args:
            max_bytes: The greatest number of bytes that it holds; None for no limit.

        Raises:
            ModelConnectionError: The connection broke.
            ModelProtocolError: It holds more.
        """
        ...


class RequestSource(Protocol):
    """Makes requests."""

    def request(
        self,
        url: SplitResult,
        headers: Mapping[str, str],
        body: bytes,
        *,
        connect_timeout: float,
        method: str = "POST",
    ) -> ByteExchange:
        """A request, sent when the exchange is entered.

        Args:
            url: The URL.
            headers: The headers.
            body: The body.
            connect_timeout: Seconds to wait for a new connection.
            method: The HTTP method.
        """
        ...
