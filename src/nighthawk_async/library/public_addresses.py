"""Addresses of the public internet, and those that are not. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from .errors import FetchError, ForbiddenAddressError

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
class AllowedHosts:
    """Hosts that are allowed although they are not public.

    Args:
        names: Names, in lower case.
        networks: Networks.
    """

    names: frozenset[str]
    networks: tuple[IPv4Network | IPv6Network, ...]

    @classmethod
    def parse(cls, allow: Iterable[str]) -> "AllowedHosts":
        """Read names of hosts, addresses and networks.

        Args:
            allow: Their texts.

        Raises:
            FetchError: One is no network, and no name.
        """
        names: set[str] = set()
        networks: list[IPv4Network | IPv6Network] = []
        for each in allow:
            try:
                networks.append(ip_network(each))
            except ValueError:
                if not each or not each.replace("-", "").replace(".", "").replace("_", "").isalnum():
                    raise FetchError(f"{each!r} is neither a host name nor a network") from None
                names.add(each.lower().rstrip("."))
        return cls(frozenset(names), tuple(networks))

    def check(self, host: str, addresses: Sequence[str]) -> None:
        """Refuse a host if it has an address that is neither public nor allowed.

        Args:
            host: Its name.
            addresses: All of its addresses.

        Raises:
            ForbiddenAddressError: It has.
        """
        if host.lower().rstrip(".") in self.names:
            return
        for text in addresses:
            address = ip_address(text.partition("%")[0])
            if not is_public(address) and not any(address in network for network in self.networks):
                raise ForbiddenAddressError(
                    f"{host} has the address {text}, which is not on the public internet"
                )
