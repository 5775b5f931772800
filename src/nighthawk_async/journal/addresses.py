"""Addresses of stores."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from ..errors import ConfigurationError
from .database import Database


def is_shared_address(url: str) -> bool:
    """Whether an address is one of a server, which the processes of several machines share."""
    return url.startswith(("postgresql://", "postgres://"))


def read_address(url: str) -> tuple[str, Callable[[], Database]]:
    """Read the address of a store, and load what it needs.

    Returns:
        The address without a password, and what opens the database.

    Raises:
        ConfigurationError: It is no address of a store, or an extra is not installed.
    """
    scheme, separator, rest = url.partition("://")
    path = rest.removeprefix("/")
    if separator and scheme == "sqlite" and path and path != rest:
        from .sqlite_database import open_sqlite

        file = Path(unquote(path))
        return str(file), partial(open_sqlite, file)
    if is_shared_address(url):
        from .postgresql_database import PostgresqlAddress

        address = PostgresqlAddress(url)
        return str(address), address.open
    # What is no address may have a password too.
    shown = f"{scheme}://…" if separator and rest else repr(url)
    raise ConfigurationError(
        f"{shown} is no address of a journal; write sqlite:///runs.db, sqlite:////var/lib/app/runs.db for an "
        "absolute path, or postgresql://user@host/database."
    )
