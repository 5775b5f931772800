"""The proxy of an origin, by the machine's settings.

Connections are made directly by httpx's transports, which know nothing of proxies; the client object that
reads the environment is not used. The rules are those of the standard library (`HTTPS_PROXY`, `NO_PROXY`, …).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from ..errors import ConfigurationError

__all__ = ["Proxy", "is_loopback", "proxy_for"]

_SCHEMES = ("http", "https", "socks5", "socks5h")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy. As a text, it is the name of the setting with the proxy's host and port.

    Args:
        url: Its URL, credentials included.
        place: Its host and port.
        source: What names it, for errors.
    """

    url: str = field(repr=False)
    place: str
    source: str

    def __str__(self) -> str:
        return f"the proxy {self.place} ({self.source})"


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine.

    Args:
        host: A host name or address.
    """
    if host is None:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    # Connecting to the unspecified address reaches this machine, and servers print it as theirs.
    return address.is_loopback or address.is_unspecified


def proxy_for(url: SplitResult, proxies: Mapping[str, str] | None = None) -> Proxy | None:
    """The proxy through which an endpoint is reached; None when it is reached directly.

    Args:
        url: The endpoint.
        proxies: The proxies by scheme; None reads the machine's settings.

    Raises:
        ConfigurationError: The proxy's URL is malformed, or of a kind that cannot be used.
    """
    host = url.hostname or ""
    if is_loopback(host):
        return None
    known = getproxies() if proxies is None else proxies
    kind = url.scheme if known.get(url.scheme) else "all"
    proxy = known.get(kind, "").strip()
    return None if not proxy or proxy_bypass(host) else _parse_proxy(proxy, _source_of(kind))


def _parse_proxy(text: str, source: str) -> Proxy:
    text = text if "://" in text else f"http://{text}"
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
    except ValueError:
        host = None
    else:
        if url.scheme not in _SCHEMES:
            raise ConfigurationError(
                f"{source} must name a proxy of one of the kinds {', '.join(_SCHEMES)}, not {url.scheme!r}."
            )
        if host and text.isprintable():
            return Proxy(url=text, place=host if port is None else f"{host}:{port}", source=source)
    raise ConfigurationError(f"{source} must be the URL of a proxy, for example http://proxy.example:3128.")


def _source_of(kind: str) -> str:
    """The environment variable that names the proxies of a kind, by the rules of the standard library."""
    for variable in (f"{kind}_proxy", f"{kind}_proxy".upper()):
        if os.environ.get(variable):
            return variable
    return "the machine's proxy settings"
