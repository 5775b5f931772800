"""Keeps tests on this machine: no provider's key in the environment, no connection but to the loopback."""

import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["confined_to_loopback"]


@contextmanager
def confined_to_loopback() -> Iterator[None]:
    """While the context lasts, know no provider's key or address and refuse to leave the machine."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        del os.environ[name]
    originals = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex")}

    def guarded(name: str) -> Any:
        def connect(self: socket.socket, address: Any) -> Any:
            if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
                raise RuntimeError(f"a test tried to leave the machine: {address[0]}:{address[1]}")
            return originals[name](self, address)

        return connect

    for name in originals:
        setattr(socket.socket, name, guarded(name))
    try:
        yield
    finally:
        for name in originals:
            delattr(socket.socket, name)


def _is_loopback(host: str) -> bool:
    if host in ("localhost", ""):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
