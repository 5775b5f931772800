"""Which proxy the machine's settings name for an origin. Floor 4.

Connections are made directly by httpx's transports, which know nothing of proxies; the client object that
reads the environment is not used. The rules are those of the standard library (`HTTPS_PROXY`, `NO_PROXY`, …).
"""

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import SplitResult
from urllib.request import getproxies, proxy_bypass

__all__ = ["is_loopback", "proxy_for"]


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


def proxy_for(url: SplitResult, proxies: Mapping[str, str] | None = None) -> str | None:
    """The URL of the proxy through which an endpoint is reached; None when it is reached directly.

    Args:
        url: The endpoint.
        proxies: The proxies by scheme; None reads the machine's settings.
    """
    host = url.hostname or ""
    if is_loopback(host):
        return None
    known = getproxies() if proxies is None else proxies
    proxy = known.get(url.scheme) or known.get("all")
    return None if proxy is None or proxy_bypass(host) else proxy
