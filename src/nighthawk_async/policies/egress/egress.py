"""`egress`: the hosts that what happens in a run or scope may reach."""

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import anyio

from ...errors import EgressDeniedError, NighthawkError
from .hosts import HostList, canonical, is_public

_PUBLIC = "public"
_PRIVATE = "private"


@dataclass(frozen=True, slots=True)
class _Hosts:
    """A list of hosts, in which `public` and `private` stand for all addresses of a kind."""

    listed: HostList
    has_public: bool
    has_private: bool

    @property
    def names_only(self) -> bool:
        """Whether no address is in it but those of its names."""
        return not (self.listed.networks or self.has_public or self.has_private)

    def has_own_name(self, host: str, port: int) -> bool:
        """Whether the name itself is in it, and not only a name above."""
        name = canonical(host)
        return any((name, each) in self.listed.names for each in (port, None))

    def has_address(self, address: IPv4Address | IPv6Address) -> bool:
        """Whether an address is in it by itself."""
        if self.has_public if is_public(address) else self.has_private:
            return True
        return self.listed.has_address(address)


@dataclass(frozen=True, slots=True)
class Egress:
    """The hosts that may be reached. Made by `egress`.

    Args:
        allow: The only hosts that may be reached; None for any.
        deny: Hosts that may not.
    """

    allow: tuple[str, ...] | None
    deny: tuple[str, ...]
    _allowed: "_Hosts | None" = field(init=False, repr=False, compare=False)
    _denied: _Hosts = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_allowed", None if self.allow is None else _parsed("allow", self.allow))
        object.__setattr__(self, "_denied", _parsed("deny", self.deny))

    def check(self, host: str, port: int, addresses: Sequence[str] | None = None) -> None:
        """Refuse a host that may not be reached.

        Args:
            host: Its name, or an address.
            port: The port.
            addresses: All of its addresses; None before they are asked for, which also sends the name out.

        Raises:
            EgressDeniedError: It may not.
        """
        if self._denied.listed.has_name(host, port):
            raise EgressDeniedError(f"{host} is denied by the egress of this run or scope")
        allowed = self._allowed
        is_named = allowed is not None and allowed.listed.has_name(host, port)
        if allowed is not None and allowed.names_only and not is_named:
            raise _not_allowed(host)
        for each in () if addresses is None else addresses:
            address = ip_address(each.partition("%")[0])
            shown = host if each == host else f"{host}, which has the address {each},"
            if self._denied.has_address(address):
                raise EgressDeniedError(f"{shown} is denied by the egress of this run or scope")
            if allowed is None or allowed.has_own_name(host, port) or allowed.has_address(address):
                continue
            if not (is_named and is_public(address)):
                raise _not_allowed(shown)


def _not_allowed(shown: str) -> EgressDeniedError:
    return EgressDeniedError(f"{shown} is not one of the hosts that the egress of this run or scope allows")


def egress(*, allow: Iterable[str] | None = None, deny: Iterable[str] = ()) -> Egress:
    """Return the hosts that what happens in a run or scope may reach: `nh.run(…, egress=…)`.

        nh.egress(allow=["mcp.example.org", "*.example.com:443", "10.1.0.0/16"])
        nh.egress(allow=["public"], deny=["evil.example"])

    It holds for servers of the Model Context Protocol over HTTP, for pages that `library.Web` and
    `library.fetch` get, and for media that providers get by their address. All active ones decide, also those
    of parent runs and scopes: an inner one only narrows.

    Args:
        allow: The only hosts that may be reached: names (`example.org`), all names below one
            (`*.example.org`), addresses and networks. A name may have a port (`example.org:443`). `public` is
            every address of the public internet, `private` every other one. A name allows all of its
            addresses; one below `*.` only its public ones. None for any host.
        deny: Hosts that may not be reached, in the same form. They win over `allow`, and over each address
            that a name has.

    Raises:
        NighthawkError: Something of a list is none of these.
    """
    return Egress(None if allow is None else _entries("allow", allow), _entries("deny", deny))


def _entries(name: str, given: object) -> tuple[str, ...]:
    entries: Any = (given,) if isinstance(given, str) else given
    try:
        texts: tuple[Any, ...] = tuple(entries)
    except TypeError:
        raise NighthawkError(f"{name} is a list of hosts, not {given!r}") from None
    for each in texts:
        if not isinstance(each, str):
            raise NighthawkError(f"{name} is a list of hosts, which are texts, not {each!r}")
    return texts


def _parsed(name: str, entries: tuple[str, ...]) -> _Hosts:
    kinds = (_PUBLIC, _PRIVATE)
    try:
        listed = HostList.parse(each for each in entries if each not in kinds)
    except NighthawkError as error:
        raise NighthawkError(f"{name}: {error}") from None
    return _Hosts(listed, has_public=_PUBLIC in entries, has_private=_PRIVATE in entries)


async def addresses_of(host: str, port: int) -> list[str]:
    """Return the addresses of a host, each once.

    Args:
        host: The name, or an address.
        port: The port.

    Raises:
        OSError: The name cannot be resolved.
    """
    try:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except ValueError as error:  # a name that is none
        raise OSError(str(error)) from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))
