"""Keeps tests on this machine: no provider's key in the environment, no name resolved and no connection made
but to the loopback.

An attempt is refused and reported, so that a test cannot pass because the code under test, or the test
itself, took the refusal for that of a server.
"""

import ipaddress
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

__all__ = ["Attempts", "confined_to_loopback"]

_FAMILIES = (socket.AF_INET, socket.AF_INET6)


class Attempts:
    """Attempts to leave the machine."""

    def __init__(self) -> None:
        self._reports: list[str] = []

    def refuse(self, what: str, error: type[OSError] | type[RuntimeError] = RuntimeError) -> Exception:
        """Report an attempt; returns the error to raise."""
        message = f"a test tried to leave the machine: {what}"
        self._reports.append(message)
        return error(message)

    def take_reports(self) -> list[str]:
        """Return the attempts since the last call."""
        reports, self._reports = self._reports, []
        return reports


@contextmanager
def confined_to_loopback() -> Iterator[Attempts]:
    """While the context lasts, know no provider's key or address and refuse to leave the machine."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        del os.environ[name]
    attempts = Attempts()
    with ExitStack() as stack:
        for name in ("connect", "connect_ex", "sendto"):
            method = _confined_method(getattr(socket.socket, name), attempts)
            stack.enter_context(mock.patch.object(socket.socket, name, method))
        for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
            resolve = _confined_resolver(getattr(socket, name), attempts)
            stack.enter_context(mock.patch.object(socket, name, resolve))
        yield attempts


def _confined_method(original: Callable[..., Any], attempts: Attempts) -> Callable[..., Any]:
    """A method of sockets whose last argument is an address."""

    def method(self: socket.socket, *arguments: Any) -> Any:
        address = arguments[-1]
        if self.family in _FAMILIES and not _is_loopback(address[0]):
            raise attempts.refuse(f"{address[0]}:{address[1]}")
        return original(self, *arguments)

    return method


def _confined_resolver(original: Callable[..., Any], attempts: Attempts) -> Callable[..., Any]:
    def resolve(host: Any, *arguments: Any, **options: Any) -> Any:
        if not _asks_nobody(host):
            raise attempts.refuse(f"it resolves {host!r}", socket.gaierror)
        return original(host, *arguments, **options)

    return resolve


def _asks_nobody(host: Any) -> bool:
    """Whether a name is known here, or is an address in one of the ways in which they can be written."""
    if host is None:
        return True
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    if name.rstrip(".").lower() in ("", "localhost", socket.gethostname().lower()):
        return True
    try:
        socket.inet_aton(name)
    except OSError:
        return ":" in name  # no name has one
    return True


def _is_loopback(host: str) -> bool:
    if host in ("localhost", ""):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
