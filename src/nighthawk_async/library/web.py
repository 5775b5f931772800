"""`fetch` and `Web`: a page of the public internet, as text.

Addresses are resolved here, checked, and connected to as they were checked, so a name that has another
address a moment later leads nowhere. Each redirect is checked anew.
"""

import re
import socket
import zlib
from collections.abc import Iterable, Sequence

import anyio
import anyio.to_thread
from msgspec import Struct

from ..errors import EgressDeniedError, NighthawkError
from ..models.http_library import httpx
from ..models.http_transport import SingleConnectionTransport, verifying_context
from ..policies.egress.hosts import HostList
from ..policies.egress.policy import find_egress
from ..sealed_attributes import Sealed, SealedState
from .errors import DeniedAddressError, FetchError, ForbiddenAddressError
from .page_text import decoded, html_as_text, is_html, is_text
from .public_addresses import AllowedHosts

_SECONDS = 30.0
_MOST_BYTES = 2_000_000
_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_GZIP = b"\x1f\x8b"
_CHARSET = re.compile(r""";\s*charset\s*=\s*["']?\s*([^\s"';,]+)""", re.IGNORECASE)
_MOST_SHOWN = 300
_HEADERS = {
    "user-agent": "nighthawk-async",
    "accept": "text/html, text/*, application/json, application/xml, */*;q=0.1",
    "accept-encoding": "gzip, deflate",
    "connection": "close",
}


class FetchedPage(Struct, frozen=True):
    """A page.

    Args:
        url: Its address, after redirects.
        status: The HTTP status code.
        content_type: The media type, without parameters; empty if the server named none.
        text: The text. HTML as plain text, with links as in Markdown.
    """

    url: str
    status: int
    content_type: str
    text: str


class Web(SealedState):
    """The pages of the public internet, and of hosts of yours.

        intranet = library.Web(allow=("intranet.example", "10.0.0.0/8"))
        page = await intranet.fetch("https://intranet.example/")

    Name it in a block, or call it in Python. The program decides on the hosts that are allowed; a call of
    `fetch`, which a model may write, cannot add any.

    Args:
        allow: Names of hosts, addresses and networks that may be fetched although they are not on the public
            internet.
        only: The only hosts that may be fetched, if there are any: names (`example.org`), all names below one
            (`*.example.org`), addresses and networks. A name may have a port (`example.org:443`). Those that
            are not on the public internet need to be in `allow` as well.
        deny: Hosts that are never fetched, in the same form. They win over all others.

    Raises:
        FetchError: Something of a list is neither a host name nor a network.
    """

    _allowed = Sealed[AllowedHosts]()
    _lists = Sealed[tuple[HostList, HostList]]()
    allow = Sealed[tuple[str, ...]]()
    only = Sealed[tuple[str, ...]]()
    deny = Sealed[tuple[str, ...]]()

    def __init__(self, allow: Iterable[str] = (), only: Iterable[str] = (), deny: Iterable[str] = ()) -> None:
        self.allow, self.only, self.deny = map(_names, (allow, only, deny))
        self._allowed = AllowedHosts.parse(self.allow)
        try:
            self._lists = (HostList.parse(self.only), HostList.parse(self.deny))
        except NighthawkError as error:
            raise FetchError(str(error)) from None

    def __eq__(self, other: object) -> bool:
        return self._given() == other._given() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._given())

    def _given(self) -> tuple[tuple[str, ...], ...]:
        return (self.allow, self.only, self.deny)

    def __repr__(self) -> str:
        lists = {name: getattr(self, name) for name in ("allow", "only", "deny")}
        shown = [f"{name}={each!r}" for name, each in lists.items() if each or name == "allow"]
        return f"Web({', '.join(shown)})"

    async def fetch(
        self,
        url: str,
        *,
        timeout: float = _SECONDS,  # noqa: ASYNC109  (covers all redirects, and is part of a call that models write)
        max_bytes: int = _MOST_BYTES,
    ) -> FetchedPage:
        """Get a page, as text; see `nighthawk_async.library.fetch`.

        Raises:
            ForbiddenAddressError: The host, or one that it redirects to, has an address that is neither on
                the public internet nor allowed, is denied, or is not one of the only ones. Its subclass
                `DeniedAddressError`: the egress of the run or scope denies it.
            FetchError: The URL is invalid, the page cannot be fetched in time, is too large, or is no text.
        """
        for name, number in (("timeout", timeout), ("max_bytes", max_bytes)):
            if not number > 0:
                raise FetchError(f"{name} is a positive number, not {number!r}")
        try:
            with anyio.fail_after(timeout):
                return await _fetch(url, self, max_bytes)
        except TimeoutError:
            raise FetchError(f"{url} was not fetched within {timeout:g} seconds") from None

    def check(self, host: str, port: int, addresses: Sequence[str] | None = None) -> None:
        """Refuse a host that may not be fetched.

        Args:
            host: Its name.
            port: The port.
            addresses: All of its addresses; None before they are asked for, which also sends the name out.

        Raises:
            ForbiddenAddressError: It may not.
        """
        only, deny = self._lists
        if addresses is None:
            is_denied = deny.has_name(host, port)
            is_other = only and not only.networks and not only.has_name(host, port)
        else:
            is_denied = any(deny.matches(host, port, addresses))
            is_other = only and not all(only.matches(host, port, addresses))
        if is_denied:
            raise ForbiddenAddressError(f"{host} is denied here")
        if is_other:
            raise ForbiddenAddressError(f"{host} is not one of the hosts that may be fetched here")
        if addresses is not None:
            self._allowed.check(host, addresses)
        egress = find_egress()
        if egress is not None:
            try:
                egress.check(host, port, addresses)
            except EgressDeniedError as error:
                raise DeniedAddressError(str(error)) from None


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


_PUBLIC = Web()


async def fetch(
    url: str,
    *,
    timeout: float = _SECONDS,  # noqa: ASYNC109  (as in `Web.fetch`)
    max_bytes: int = _MOST_BYTES,
) -> FetchedPage:
    """Get a page of the public internet, as text. For other hosts, see `Web`.

    No cookies, credentials or proxies are used, and no more than 5 redirects are followed. A page with an
    error status, for example 404, is returned like any other.

    Args:
        url: The address, with the scheme `http` or `https`.
        timeout: The time limit for everything, in seconds.
        max_bytes: The most bytes of the page, after decompression.

    Raises:
        ForbiddenAddressError: The host, or one that it redirects to, has an address that is not on the
            public internet.
        FetchError: The URL is invalid, the page cannot be fetched in time, is too large, or is no text.
    """
    return await _PUBLIC.fetch(url, timeout=timeout, max_bytes=max_bytes)


async def _fetch(url: str, web: Web, most_bytes: int) -> FetchedPage:
    target = _parse(url)
    for _ in range(_MOST_REDIRECTS + 1):
        transport, response = await _get(target, await _resolve(target, web))
        try:
            location = response.headers.get("location")
            if response.status_code not in _REDIRECTS or location is None:
                return await _page(target, response, most_bytes)
        except httpx.TransportError as error:
            raise FetchError(f"the response of {target} is damaged: {_reason(error)}") from error
        finally:
            await transport.aclose()
        target = _parse(location, target)
    raise FetchError(f"{url} leads to more than {_MOST_REDIRECTS} redirects")


def _parse(text: str, base: httpx.URL | None = None) -> httpx.URL:
    shown = repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")
    try:
        url = httpx.URL(text) if base is None else base.join(text)
        host = url.host  # the names of other scripts are decoded here
        url = url.copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError) as error:
        raise FetchError(f"{shown} is no valid URL: {str(error)[:_MOST_SHOWN]}") from None
    if url.port is not None and url.port > 65_535:
        raise FetchError(f"{shown} is no valid URL: there is no such port")
    if url.scheme not in ("http", "https") or not host:
        raise FetchError(f"{shown} is no URL of the scheme http or https")
    if url.userinfo:
        raise FetchError("the URL contains a user name or a password, which are never sent")
    return url


async def _resolve(url: httpx.URL, web: Web) -> list[str]:
    """Return the addresses of a host, all of which are allowed."""
    host = url.raw_host.decode("ascii")
    port = url.port or (443 if url.scheme == "https" else 80)
    web.check(host, port)
    try:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise FetchError(f"the host name {url.host} cannot be resolved: {error}") from None
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    web.check(host, port, addresses)
    return addresses


async def _get(url: httpx.URL, addresses: list[str]) -> tuple[SingleConnectionTransport, httpx.Response]:
    """Send the request to the first address that accepts a connection."""
    ssl_context = verifying_context() if url.scheme == "https" else None
    headers = {"host": url.netloc.decode("ascii"), **_HEADERS}
    reason = ""
    for address in addresses:
        transport = SingleConnectionTransport(ssl_context=ssl_context, connecting=anyio.Semaphore(1))
        request = httpx.Request(
            "GET",
            url.copy_with(host=address),
            headers=headers,
            extensions={"sni_hostname": url.raw_host.decode("ascii")},
        )
        try:
            return transport, await transport.handle_async_request(request)
        except httpx.ConnectError as error:
            reason = _reason(error)
        except httpx.TransportError as error:
            raise FetchError(f"{url} cannot be fetched: {_reason(error)}") from error
    raise FetchError(f"{url} cannot be fetched: {reason}")


async def _page(url: httpx.URL, response: httpx.Response, most_bytes: int) -> FetchedPage:
    content_type = response.headers.get("content-type", "")
    media_type = _media_type(content_type)
    content = await _content(url, response, most_bytes)
    if not is_text(media_type, content):
        raise FetchError(f"{url} is no text: its media type is {media_type or 'unknown'}")
    charset = _CHARSET.search(content_type)
    # In a thread: a page can be made so that it takes long.
    text = await anyio.to_thread.run_sync(
        _text, content, charset and charset[1].lower(), media_type, str(url), abandon_on_cancel=True
    )
    return FetchedPage(url=str(url), status=response.status_code, content_type=media_type, text=text)


def _media_type(content_type: str) -> str:
    """The media type of a header, in lower case; that of plain text for one that is none."""
    name = content_type.partition(";")[0].strip().lower()
    return "text/plain" if content_type.strip() and name.count("/") != 1 else name


def _text(content: bytes, charset: str | None, media_type: str, url: str) -> str:
    text = decoded(content, charset)
    return html_as_text(text, url) if is_html(media_type) else text


async def _content(url: httpx.URL, response: httpx.Response, most_bytes: int) -> bytes:
    inflate = _Inflate(response.headers.get("content-encoding", "identity"))
    content = bytearray()
    stream = response.stream
    assert isinstance(stream, httpx.AsyncByteStream), "the transport is asynchronous"
    async for data in stream:
        content += inflate.decode(data, most_bytes + 1 - len(content))
        if len(content) > most_bytes:
            raise FetchError(f"{url} has more than {most_bytes:,} bytes")
    inflate.end()
    return bytes(content)


class _Inflate:
    """Decompresses a body, never more of it than is asked for.

    Args:
        encoding: The header `Content-Encoding`.
    """

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        if name not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise FetchError(f"the page is sent in the encoding {encoding!r}, which was not asked for")
        self._is_plain = name in ("", "identity")
        self._bits = 15 if name == "deflate" else 31
        self._inflate = zlib.decompressobj(self._bits)
        self._has_begun = False

    def decode(self, data: bytes, most_bytes: int) -> bytes:
        """Decompress what has arrived. After `most_bytes` bytes, the rest is dropped."""
        if self._is_plain:
            return data[:most_bytes]
        decoded = bytearray()
        try:
            while data and len(decoded) < most_bytes:
                if self._inflate.eof:
                    if not data.startswith(_GZIP):
                        break  # padding
                    self._inflate = zlib.decompressobj(self._bits)  # gzip allows several parts
                decoded += self._part(data, most_bytes - len(decoded))
                data = self._inflate.unused_data
        except zlib.error as error:
            raise FetchError(f"the page is compressed in a way that cannot be read: {error}") from None
        return bytes(decoded)

    def end(self) -> None:
        """Refuse a page that ends too early."""
        if self._has_begun and not self._inflate.eof:
            raise FetchError("the page is compressed, and its end is missing")

    def _part(self, data: bytes, most_bytes: int) -> bytes:
        try:
            return self._inflate.decompress(data, most_bytes)
        except zlib.error:
            if self._has_begun or self._bits != 15:
                raise
            self._bits = -15  # some servers send `deflate` without the header of zlib
            self._inflate = zlib.decompressobj(self._bits)
            return self._inflate.decompress(data, most_bytes)
        finally:
            self._has_begun = True


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__  # it may quote a line of the server
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
