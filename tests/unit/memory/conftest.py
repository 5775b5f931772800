"""Memories in both databases."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from tests.unit.journal.postgresql_server import PostgresqlServer, running_server

Opened = Callable[..., nh.Memory]


class Clock:
    """A clock that a test moves on; each look at it takes a second."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The clock of the memories of `opened`."""
    return Clock()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """A PostgreSQL server for all tests of this process."""
    with running_server() as server:
        yield server


@pytest.fixture
def in_file(tmp_path: Path, clock: Clock) -> Iterator[Opened]:
    """Opens memories in a file, which are closed at the end."""
    with ExitStack() as stack:

        def open_memory(namespace: str = "support", **options: Any) -> nh.Memory:
            memory = nh.memory.open(tmp_path / "memory.db", namespace=namespace, clock=clock, **options)
            return stack.enter_context(memory)

        yield open_memory


@pytest.fixture(params=["sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Opened]:
    """Opens memories in a database, which are closed at the end."""
    if request.param == "sqlite":
        yield request.getfixturevalue("in_file")
        return
    server: PostgresqlServer = request.getfixturevalue("postgresql_server")
    with ExitStack() as stack:

        def open_memory(namespace: str = "support", **options: Any) -> nh.Memory:
            address = server.address_of(tmp_path)
            memory = nh.memory.open(address, namespace=namespace, clock=clock, **options)
            return stack.enter_context(memory)

        yield open_memory
    server.clear()
