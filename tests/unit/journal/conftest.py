"""Stores of both databases."""

from collections.abc import Iterator

import pytest

from nighthawk_async.journal import process_calls

from . import durable_runs
from .postgresql_server import PostgresqlServer, running_server


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """A PostgreSQL server for all tests of this process."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgresql(postgresql_server: PostgresqlServer) -> Iterator[PostgresqlServer]:
    """A PostgreSQL server, in which `durable_runs.opened` opens its stores."""
    durable_runs.server = postgresql_server
    yield postgresql_server
    durable_runs.server = None
    postgresql_server.clear()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> None:
    """The database in which `durable_runs.opened` opens its stores."""
    if request.param == "postgresql":
        request.getfixturevalue("postgresql")


@pytest.fixture(autouse=True)
def _no_calls_left() -> Iterator[None]:
    """No worker leaves calls behind, for which those of later tests would wait."""
    yield
    left = dict(process_calls._calls)
    process_calls._calls.clear()
    assert left == {}
