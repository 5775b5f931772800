"""The bytes of one request and its response, over whichever transport. `exchange` makes the rest of them."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import SplitResult

from ..errors import ModelProtocolError


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

    async def steer(self, said: Sequence[str]) -> None:
        """Put what the user says meanwhile into the response, where the transport can.

        Args:
            said: All that was said since the request was made.
        """
        ...

    @property
    def steered(self) -> int | None:
        """The number of those, the first ones, to which the server goes on by itself; None if it does not."""
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


class BodyReader:
    """Reads bodies whole. The subclass is an exchange that reads them piece by piece."""

    async def read_chunk(self) -> bytes:
        """More of the response's body; see `ByteExchange`."""
        raise NotImplementedError

    async def read_body(self, *, max_bytes: int | None) -> bytes:
        """The rest of the response's body; see `ByteExchange`.

        Args:
            max_bytes: The greatest number of bytes that it holds; None for no limit.

        Raises:
            ModelConnectionError: The connection broke.
            ModelProtocolError: It holds more.
        """
        chunks: list[bytes] = []
        size = 0
        while chunk := await self.read_chunk():
            chunks.append(chunk)
            size += len(chunk)
            if max_bytes is not None and size > max_bytes:
                raise ModelProtocolError(too_long(max_bytes))
        return b"".join(chunks)


class ForwardedExchange:
    """Another exchange, forwarded. The subclass enters it."""

    exchange: ByteExchange

    @property
    def status(self) -> int:
        """The response's HTTP status code."""
        return self.exchange.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The response's headers."""
        return self.exchange.headers

    @property
    def was_sent(self) -> bool:
        """Whether the server may have received the request."""
        return self.exchange.was_sent

    @property
    def was_cut(self) -> bool:
        """Whether the server broke off the response's body before its end."""
        return self.exchange.was_cut

    @property
    def is_at_end(self) -> bool:
        """Whether the whole body was read."""
        return self.exchange.is_at_end

    async def steer(self, said: Sequence[str]) -> None:
        """Put what the user says meanwhile into the response, where the transport can."""
        await self.exchange.steer(said)

    @property
    def steered(self) -> int | None:
        """The number of those to which the server goes on by itself."""
        return self.exchange.steered

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.exchange.__aexit__(exception_type, exception, traceback)

    async def read_chunk(self) -> bytes:
        """More of the response's body."""
        return await self.exchange.read_chunk()

    async def read_body(self, *, max_bytes: int | None) -> bytes:
        """The rest of the response's body."""
        return await self.exchange.read_body(max_bytes=max_bytes)


def too_long(max_bytes: int) -> str:
    """Return the error of a response that is longer than it may be."""
    return f"the response is over {max_bytes:,} bytes long (max_response_bytes)"


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
