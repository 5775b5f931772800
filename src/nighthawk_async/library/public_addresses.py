"""Hosts that may be fetched although they are not on the public internet. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from ..policies.egress.hosts import is_public
from .errors import FetchError, ForbiddenAddressError


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
