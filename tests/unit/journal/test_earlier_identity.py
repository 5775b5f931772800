"""Runs whose digests an earlier version has recorded continue: nothing is asked or done again."""

import sqlite3
from pathlib import Path

import pytest

import nighthawk_async as nh

from . import earlier_runs
from .durable_runs import AnsweringModel, live
from .earlier_runs import PROGRAMS, STORES, answer

pytestmark = pytest.mark.anyio

REQUESTS = {"in-order": 1, "by-hand": 5}
"""The requests of the rest of each program, after the point at which it was killed."""

EFFECTS = {"in-order": ["deliver gus gus"], "by-hand": ["deliver d d", "weigh d"]}
"""The effects of the rest."""


def restored(folder: Path, name: str) -> str:
    """The address of a store as the earlier version has left it."""
    connection = sqlite3.connect(folder / "runs.db")
    connection.executescript((STORES / f"{name}.sql").read_text())
    connection.close()
    return f"sqlite:///{folder}/runs.db"


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_run_of_version_1_continues_where_it_was_killed(tmp_path: Path, name: str) -> None:
    with nh.journal.open(restored(tmp_path, name)) as store:
        recorded = len(store.records("run-1"))
        for requests, effects in ((REQUESTS[name], EFFECTS[name]), (0, [])):
            earlier_runs.effects.clear()
            model = AnsweringModel(answer)
            assert await live(store, model, PROGRAMS[name])
            assert (len(model.prompts), earlier_runs.effects) == (requests, effects)
        assert len(store.records("run-1")) > recorded
        assert store.verify()
