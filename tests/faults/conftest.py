"""What several tests of faults share."""

import os
import random
from collections.abc import Iterator

import pytest

from nighthawk_async.testing.killing import ProgramKiller
from tests.faults.durable.lives import warm_killer
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
def chance() -> random.Random:
    """Random numbers. `NIGHTHAWK_KILL_SEED` repeats them."""
    seed = int(os.environ.get("NIGHTHAWK_KILL_SEED") or random.SystemRandom().randrange(2**32))
    print(f"NIGHTHAWK_KILL_SEED={seed}")  # pytest shows it when the test fails
    return random.Random(seed)
