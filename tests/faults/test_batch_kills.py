"""A durable run that is killed while it waits for batches finds them again, and submits none twice.

The normal run kills at the marks of the program and at a few records that a seed chooses;
`--hypothesis-profile=explore` kills before and after every record. `NIGHTHAWK_KILL_SEED` repeats a seed.
"""

import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest
from nighthawk_async.testing.killing import KillPoint, ProgramKiller

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is forked from one that is warm")

CASES = [
    ("anthropic:tested", "trio"),
    ("anthropic:tested", "asyncio"),
    ("openai-responses:tested", "asyncio"),
    ("google:tested", "trio"),
]
EXPECTED = [2, 4, 6, 4, 8]
CHOSEN = 2


@pytest.fixture(scope="module")
def killer() -> Iterator[ProgramKiller]:
    root = Path(__file__).parents[2]
    with ProgramKiller("tests.faults.batch_program:main", {}, path=[root, root / "src"]) as opened:
        yield opened


def doubled(request: RecordedRequest) -> ModelReply:
    found = re.search(r"number: int = (\d+)", request.content.decode())
    assert found is not None
    return ModelReply(
        text=json.dumps({"result": {"kind": "pass", "bindings": {"result": 2 * int(found[1])}}})
    )


def live_to_the_end(
    killer: ProgramKiller, folder: Path, model: str, backend: str, *kills: KillPoint
) -> tuple[int, int]:
    """Live until the program has ended; return the numbers of kills and of records."""
    folder.mkdir()
    killed = 0
    with ModelServer.in_thread(doubled) as server:
        server.batches.ends_when_listed = True
        base_url = f"{server.base_url}beta" if model.startswith("google") else server.base_url
        arguments = {"folder": str(folder), "base_url": base_url, "model": model, "backend": backend}
        for kill_at in (*kills, None):
            life = killer.live(kill_at=kill_at, **arguments)
            assert not life.error, life.error
            killed += life.was_killed
            if not life.was_killed:
                break
        assert life.result == EXPECTED
        assert sorted(len(each.requests) for each in server.batches.all) == [2, 3]
    with nh.journal.open(f"sqlite:///{folder}/runs.db") as store:
        return killed, len(store.records("run-1"))


@pytest.mark.parametrize(
    ("mark", "model", "backend"),
    [
        (mark, *case)
        for number, mark in enumerate(("submit", "status", "results"))
        for case in (CASES[number], CASES[number + 1])
    ],
)
def test_a_run_that_was_killed_while_it_waited_finds_its_batch_again(
    killer: ProgramKiller, tmp_path: Path, model: str, backend: str, mark: str
) -> None:
    kills = [KillPoint(mark=mark), KillPoint(mark=mark), KillPoint(mark=mark, nth=2)]
    killed, _ = live_to_the_end(killer, tmp_path / "run", model, backend, *kills)
    assert killed >= 1


@pytest.mark.timeout(3600)  # for all records on a busy machine
@pytest.mark.parametrize(("model", "backend"), CASES)
def test_a_run_with_batches_may_be_killed_at_any_record(
    killer: ProgramKiller, tmp_path: Path, chance: random.Random, all_cases: bool, model: str, backend: str
) -> None:
    _, records = live_to_the_end(killer, tmp_path / "whole", model, backend)
    points = [
        KillPoint(record=record, when=when)
        for record in range(1, records + 1)
        for when in ("before", "after")
    ]
    if settings.get_current_profile_name() != "explore":
        points = chance.sample(points, CHOSEN if all_cases else 1)
    for number, point in enumerate(points):
        live_to_the_end(killer, tmp_path / f"{number}", model, backend, point)
