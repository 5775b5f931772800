"""One HTTP connection over httpx. Floor 4. The only file that imports httpx, and it is imported on first use.

httpx's own pool is not used: its bookkeeping is quadratic in the requests in flight, and it loses a slot when
a request is cancelled while it connects. A connection here is a transport that may hold one connection;
`http_pool` decides which request gets which.
"""

import functools
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import cast
from urllib.parse import SplitResult

import httpx

from ..errors import ConfigurationError, ConnectTimeoutError, ModelConnectionError
from .http_proxy import Proxy, proxy_for

__all__ = ["HttpConnection", "ResponseHead"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """What comes before a response's body.

    Args:
        status: The HTTP status code.
        headers: The headers; names in lower case.
    """

    status: int
    headers: Mapping[str, str]


class _RequestBody(httpx.AsyncByteStream):
    """A request's body. httpx's own is a generator, which a cancelled request would leave suspended."""

    def __init__(self, content: bytes) -> None:
        self._content = [content]

    @property
    def was_taken(self) -> bool:
        """Whether there was a connection to send it on."""
        return not self._content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._content:
            raise StopAsyncIteration
        return self._content.pop()


class HttpConnection:
    """One connection, used by one request at a time.

    Args:
        url: Any URL of the origin to connect to.
        keepalive_seconds: How long it may be idle and still be used again.

    Raises:
        ConfigurationError: The machine's settings name a proxy that cannot be used.
    """

    def __init__(self, url: SplitResult, *, keepalive_seconds: float) -> None:
        proxy = proxy_for(url)
        self._transport = _transport(url, proxy, keepalive_seconds)
        self._chunks: AsyncIterator[bytes] | None = None
        self._response: httpx.Response | None = None
        self._place = url.netloc if proxy is None else f"{url.netloc} through {proxy}"
        self.was_sent = False
        """Whether the server may have received the last request."""
        self.was_cut = False
        """Whether the server broke off the last response's body before its end."""
        self.is_reusable = False
        """Whether the last response was read to its end and the server keeps the connection open."""

    async def send(
        self, url: SplitResult, headers: Mapping[str, str], body: bytes, *, connect_timeout_seconds: float
    ) -> ResponseHead:
        """Send a `POST` and wait for the head of the response.

        Args:
            url: The URL.
            headers: The headers.
            body: The body.
            connect_timeout_seconds: Seconds until the connection is there.

        Raises:
            ModelConnectionError: There is no connection, or it broke.
            ConnectTimeoutError: The connection was not there in time.
            ConfigurationError: The URL cannot be requested.
        """
        self.is_reusable = self.was_sent = False
        timeout = {"connect": connect_timeout_seconds, "read": None, "write": None, "pool": None}
        content = _RequestBody(body)
        request = _request(url, headers, len(body), content, timeout)
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.ConnectTimeout as error:
            raise ConnectTimeoutError(
                f"no connection to {self._place} within {connect_timeout_seconds:g} seconds"
                " (connect_timeout_seconds)",
                is_transient=True,
            ) from error
        except (httpx.ConnectError, httpx.ProxyError) as error:
            raise _connect_error(error, self._place) from error
        except httpx.TransportError as error:
            raise self._broken(error) from error
        finally:
            self.was_sent = content.was_taken
        self._response = response
        return ResponseHead(status=response.status_code, headers=dict(response.headers.items()))

    async def receive(self) -> bytes:
        """More of the response's body, as it arrives; empty at its end.

        A body that the server broke off ends like a whole one, but leaves the connection unusable: whether
        the response is complete is for its protocol to say.

        Raises:
            ModelConnectionError: The connection broke.
        """
        if self._response is None:
            return b""
        if self._chunks is None:
            self._chunks = self._response.aiter_raw()
        try:
            chunk = await anext(self._chunks, b"")
        except httpx.RemoteProtocolError:
            self._chunks = self._response = None
            self.was_cut = True
            return b""
        except httpx.TransportError as error:
            self._response = None
            raise self._broken(error) from error
        except BaseException:
            self._response = None  # cancelled: nothing more comes, and the connection is not whole
            raise
        if not chunk:
            await self._end_response(self._response)
        return chunk

    async def aclose(self) -> None:
        """Close the connection, whatever is going on."""
        await self._transport.aclose()
        # What is left of the response is a chain of suspended generators. On the closed connection each of
        # them ends by an exception; left to the garbage collector, Trio would warn of them.
        while self._chunks is not None:
            try:
                await anext(self._chunks)
            except (httpx.TransportError, StopAsyncIteration):
                self._chunks = None
        self._response = None
        self.is_reusable = False

    async def _end_response(self, response: httpx.Response) -> None:
        await response.aclose()
        self._chunks = self._response = None
        is_kept = "close" not in response.headers.get("connection", "").lower()
        self.is_reusable = is_kept and response.http_version == "HTTP/1.1"

    def _broken(self, error: httpx.TransportError) -> ModelConnectionError:
        reason = str(error) or type(error).__name__
        return ModelConnectionError(f"the connection to {self._place} broke: {reason}", is_transient=True)


def _transport(url: SplitResult, proxy: Proxy | None, keepalive_seconds: float) -> httpx.AsyncHTTPTransport:
    try:
        return httpx.AsyncHTTPTransport(
            verify=_verifying_context() if url.scheme == "https" else _unused_context(),
            limits=httpx.Limits(
                max_connections=1, max_keepalive_connections=1, keepalive_expiry=keepalive_seconds
            ),
            proxy=None if proxy is None else proxy.url,
        )
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        if proxy is None:
            raise
        reason = (
            "SOCKS needs the package socksio" if isinstance(error, ImportError) else "its URL is malformed"
        )
    raise ConfigurationError(f"{proxy} cannot be used: {reason}.")


def _request(
    url: SplitResult,
    headers: Mapping[str, str],
    length: int,
    content: _RequestBody,
    timeout: Mapping[str, float | None],
) -> httpx.Request:
    with suppress(httpx.InvalidURL, UnicodeError):  # the message of either may quote a key
        return httpx.Request(
            "POST",
            url.geturl(),
            headers={"host": url.netloc, **headers, "content-length": str(length)},
            stream=content,
            extensions={"timeout": timeout},
        )
    raise ConfigurationError(f"No request can be sent to {url.netloc!r}: the URL is malformed or too long.")


def _connect_error(error: httpx.TransportError, place: str) -> ModelConnectionError:
    reason, is_transient = "", True
    for each in _chain(error):
        if isinstance(each, socket.gaierror):
            reason = "the host name cannot be resolved"
            is_transient = each.errno == socket.EAI_AGAIN
        elif isinstance(each, ConnectionRefusedError):
            reason = "connection refused"
        elif isinstance(each, ssl.SSLError):
            reason = f"no secure connection: {each.reason or each}"
            is_transient = isinstance(each, ssl.SSLEOFError)  # it broke; nothing was found to be wrong
    reason = reason or str(error) or type(error).__name__
    return ModelConnectionError(f"cannot connect to {place}: {reason}", is_transient=is_transient)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, its causes, and the members of groups among them."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for member in cast("BaseExceptionGroup[BaseException]", error).exceptions:
                yield from _chain(member)
        error = error.__cause__ or error.__context__


@functools.cache
def _verifying_context() -> ssl.SSLContext:
    """The context that every secure connection shares: it takes longer to load than a handshake."""
    return httpx.create_ssl_context()


@functools.cache
def _unused_context() -> ssl.SSLContext:
    """A context for plain connections, which httpx wants as well; it trusts nobody."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
