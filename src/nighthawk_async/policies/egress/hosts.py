"""Lists of hosts, and addresses of the public internet. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from ...errors import NighthawkError

_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
# Reserved; not every version of Python knows so.
_RESERVED_4 = (
    IPv4Network("192.0.0.0/24"),
    IPv4Network("168.63.129.16/32"),  # in Azure, the host of every machine, which knows its settings
)
_RESERVED_6 = (IPv6Network("64:ff9b:1::/48"), IPv6Network("3fff::/20"), IPv6Network("5f00::/16"))


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address belongs to the public internet, and so does the one that it contains, if any.

    Args:
        address: The address.
    """
    if isinstance(address, IPv4Address):
        is_unusual = address.is_multicast or address.is_reserved
        is_unusual |= any(address in network for network in _RESERVED_4)
        return address.is_global and not is_unusual
    contained = _contained(address)
    if contained is not None:
        return is_public(contained)
    is_unusual = address.is_multicast or address.is_reserved or address.is_site_local
    is_unusual |= any(address in network for network in _RESERVED_6)
    return address.is_global and not is_unusual and address.teredo is None


def _contained(address: IPv6Address) -> IPv4Address | None:
    """The address that packets to this one are sent to by a gateway, or by this machine."""
    if address in _NAT64 or address in _COMPATIBLE:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour


@dataclass(frozen=True, slots=True)
class HostList:
    """A list of hosts: names, names with all below them, addresses and networks, each with a port or any.

    Args:
        names: Names and ports, in lower case; a name that begins with a dot stands for all below it.
        networks: Networks.
    """

    names: frozenset[tuple[str, int | None]]
    networks: tuple[IPv4Network | IPv6Network, ...]

    @classmethod
    def parse(cls, entries: Iterable[str]) -> "HostList":
        """Read a list of hosts.

        Args:
            entries: Their texts: `example.org`, `*.example.org`, `example.org:443`, `203.0.113.0/24`.

        Raises:
            NighthawkError: One is no network, and no name.
        """
        names: set[tuple[str, int | None]] = set()
        networks: list[IPv4Network | IPv6Network] = []
        for each in entries:
            try:
                networks.append(ip_network(each))
                continue
            except ValueError:
                host, _, port = each.partition(":")
            name = canonical(host.removeprefix("*"))
            if not _NAME.fullmatch(name.removeprefix(".")) or (port and not port.isdecimal()):
                raise NighthawkError(
                    f"{each!r} is neither a host name, with a port or without, nor a network"
                )
            names.add((name, int(port) if port else None))
        return cls(frozenset(names), tuple(networks))

    def __bool__(self) -> bool:
        return bool(self.names or self.networks)

    def matches(self, host: str, port: int, addresses: Sequence[str]) -> Sequence[bool]:
        """Whether each of the addresses of a host is in the list; all of them are if its name is.

        Args:
            host: Its name.
            port: The port.
            addresses: Its addresses.
        """
        if self.has_name(host, port):
            return [True] * len(addresses)
        return [self.has_address(ip_address(each.partition("%")[0])) for each in addresses]

    def has_name(self, host: str, port: int) -> bool:
        """Whether the name of a host is in the list; its addresses need not be known."""
        name = canonical(host)
        above = [name[at:] for at, character in enumerate(name) if character == "."]
        return any((each, number) in self.names for each in (name, *above) for number in (port, None))

    def has_address(self, address: IPv4Address | IPv6Address) -> bool:
        """Whether an address is in the list, or the one that it contains."""
        contained = _contained(address) if isinstance(address, IPv6Address) else None
        return any(each in network for each in (address, contained) if each for network in self.networks)


def canonical(host: str) -> str:
    """A name as it is compared: in lower case and ASCII, without the dot at its end."""
    plain = host.lower().rstrip(".")
    try:
        return plain if plain.isascii() else plain.encode("idna").decode()
    except UnicodeError:
        return plain
