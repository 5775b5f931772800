"""One HTTP connection over httpx, and what its errors mean to a model. Imported on first use.

httpx's own pool is not used: its bookkeeping is quadratic in the requests in flight, and it loses a slot when
a request is cancelled while it connects. A connection here is a transport that may hold one connection, one
of our own (`single_connection`) or, through a proxy, httpx's; `http_pool` decides which request gets which.
"""

import functools
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import SplitResult

import anyio

from ..errors import ConfigurationError, ConnectTimeoutError, ModelConnectionError
from .http_library import httpx
from .http_proxy import Proxy, proxy_for
from .single_connection import SingleConnectionTransport

__all__ = ["HttpConnection", "ResponseHead"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """The status line and the headers of a response.

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
        connecting: How many connections may be on their way at once; each waits for its turn.
        keepalive_seconds: How long it may be idle and still be used again.

    Raises:
        ConfigurationError: The machine's settings name a proxy that cannot be used.
    """

    def __init__(self, url: SplitResult, *, connecting: anyio.Semaphore, keepalive_seconds: float) -> None:
        proxy = proxy_for(url)
        if proxy is None:
            ssl_context = _verifying_context() if url.scheme == "https" else None
            self._transport = SingleConnectionTransport(ssl_context=ssl_context, connecting=connecting)
        else:
            self._transport = _proxied_transport(proxy, keepalive_seconds)
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
            connect_timeout_seconds: Seconds until the connection is there, from its turn on.

        Raises:
            ModelConnectionError: There is no connection, or it broke.
            ConnectTimeoutError: The connection was not there in time.
            ConfigurationError: The URL cannot be requested.
        """
        self.is_reusable = self.was_sent = False
        timeout = {"connect": connect_timeout_seconds, "read": None, "write": None, "pool": None}
        content = _RequestBody(body)
        request = _request(url, headers, len(body), content)
        request.extensions["timeout"] = timeout
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
            self._chunks = aiter(cast("httpx.AsyncByteStream", self._response.stream))
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


def _proxied_transport(proxy: Proxy, keepalive_seconds: float) -> httpx.AsyncHTTPTransport:
    try:
        return httpx.AsyncHTTPTransport(
            verify=_verifying_context(),
            limits=httpx.Limits(
                max_connections=1, max_keepalive_connections=1, keepalive_expiry=keepalive_seconds
            ),
            proxy=proxy.url,
        )
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        reason = (
            "SOCKS needs the package socksio" if isinstance(error, ImportError) else "its URL is malformed"
        )
    raise ConfigurationError(f"{proxy} cannot be used: {reason}.")


def _request(
    url: SplitResult,
    headers: Mapping[str, str],
    length: int,
    content: _RequestBody,
) -> httpx.Request:
    try:
        return httpx.Request(
            "POST",
            _url(url),
            headers={"host": url.netloc, **headers, "content-length": str(length)},
            stream=content,
        )
    except (httpx.InvalidURL, UnicodeError):  # the message of either may quote a key
        pass
    raise ConfigurationError(f"No request can be sent to {url.netloc!r}: the URL is malformed or too long.")


# A program has few endpoints, and parsing takes longer than all of the rest.
@functools.lru_cache(maxsize=256)
def _url(url: SplitResult) -> httpx.URL:
    return httpx.URL(url.geturl())


_WANTS = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""What a handshake raises on its way, and what is then the context of whatever breaks it off."""


def _connect_error(error: httpx.TransportError, place: str) -> ModelConnectionError:
    reason, is_transient = "", True
    for each in _chain(error):
        if isinstance(each, socket.gaierror):
            reason = "the host name cannot be resolved"
            is_transient = each.errno == socket.EAI_AGAIN
        elif isinstance(each, ConnectionRefusedError):
            reason = "connection refused"
        elif isinstance(each, ssl.SSLError) and not isinstance(each, _WANTS):
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
    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
