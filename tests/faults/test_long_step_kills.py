"""A step is killed before, in and after its compactions: the next life makes the same requests."""

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from nighthawk_async.testing.killing import KillPoint, ProgramKiller
from tests.faults.long_step_program import ASKED, PAGES

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is forked from one that is warm")


@pytest.fixture(scope="module")
def killer() -> Iterator[ProgramKiller]:
    root = Path(__file__).parents[2]
    with ProgramKiller("tests.faults.long_step_program:main", {}, path=[root, root / "src"]) as opened:
        yield opened


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_life_after_a_kill_makes_the_same_requests(
    killer: ProgramKiller, tmp_path: Path, backend: str, all_cases: bool
) -> None:
    def live(folder: Path, kill_at: KillPoint | None = None) -> tuple[bool, object]:
        folder.mkdir(exist_ok=True)
        life = killer.live(kill_at=kill_at, folder=str(folder), backend=backend)
        assert not life.error
        return life.was_killed, life.result

    _, expected = live(tmp_path / "whole")
    asked = (tmp_path / "whole" / ASKED).read_text().splitlines()
    kinds = [line.partition(" ")[0] for line in asked]
    assert isinstance(expected, list)
    assert expected[0] == PAGES - 1
    summary = kinds.index("summary")
    for place in (kinds.index("shortened"), summary, summary + 5) if all_cases else (summary,):
        folder = tmp_path / f"killed-{place}"
        assert live(folder, KillPoint(mark="asked", nth=place + 1)) == (True, None)
        assert live(folder) == (False, expected)
        lines = (folder / ASKED).read_text().splitlines()
        assert [line for line, _ in groupby(lines)] == asked
        assert len(lines) == len(asked) + 1  # the request in flight is made again, and no other
