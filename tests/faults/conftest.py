"""What several tests of faults share."""

import random
from collections.abc import Iterator

import pytest

from nighthawk_async.testing.killing import ProgramKiller
from tests.faults.durable.lives import warm_killer
from tests.seeds import seed_of
from tests.unit.journal.postgresql_server import PostgresqlServer, running_server


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """A PostgreSQL server for all tests of this process."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def killer() -> Iterator[ProgramKiller]:
    """A killer of the program in `durable`, for all tests of this process."""
    with warm_killer() as opened:
        yield opened


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers: the same in every run, but with `--all-cases`. `NIGHTHAWK_KILL_SEED` sets the seed."""
    return random.Random(seed_of(request, "NIGHTHAWK_KILL_SEED"))
