"""Addresses of stores."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from ..errors import ConfigurationError
from .database import Database

_SCHEMES = ("sqlite:", "postgresql:", "postgres:", "file:")
"""What no path of a store begins with: a mistyped address is no file with a strange name."""


def is_shared_address(location: str | os.PathLike[str]) -> bool:
    """Whether a location is the address of a server, which the processes of several machines share."""
    return isinstance(location, str) and location.startswith(("postgresql://", "postgres://"))


def read_address(location: str | os.PathLike[str]) -> tuple[str, Callable[[], Database]]:
    """Read the path or the address of a store, and load what it needs.

    Returns:
        The address without a password, and what opens the database.

    Raises:
        ConfigurationError: It is no path or address of a store, or an extra is not installed.
    """
    _check_location(location)
    if isinstance(location, os.PathLike) or _is_path(location):
        return _read_path(Path(location))
    return _read_url(location)


def _check_location(location: object) -> None:
    if not isinstance(location, str | os.PathLike):
        raise ConfigurationError(f"A journal is a path or an address, not {location!r}.")


def _is_path(text: str) -> bool:
    return "://" not in text and text != "" and text != ":memory:" and not text.startswith(_SCHEMES)


def _read_path(file: Path) -> tuple[str, Callable[[], Database]]:
    from .sqlite_database import open_sqlite

    return str(file), partial(open_sqlite, file)


def _read_url(url: str) -> tuple[str, Callable[[], Database]]:
    scheme, separator, rest = url.partition("://")
    path = rest.removeprefix("/")
    if separator and scheme == "sqlite" and path and path != rest:
        return _read_path(Path(unquote(path)))
    if is_shared_address(url):
        from .postgresql_database import PostgresqlAddress

        address = PostgresqlAddress(url)
        return str(address), address.open
    # What is no address may have a password too.
    shown = f"{scheme}://…" if separator and rest else repr(url)
    raise ConfigurationError(
        f"{shown} is no address of a journal; write a path, as runs.db; sqlite:///runs.db, or "
        "sqlite:////var/lib/app/runs.db for an absolute path; or postgresql://user@host/database."
    )
