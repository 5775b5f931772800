"""The killer of programs: it leaves their input and output alone, and tells lives apart."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nighthawk_async.testing.killing import KillPoint, ProgramKiller

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

_PROGRAM = """
import os, sys, time

from nighthawk_async.testing.killing import mark

print("loaded", flush=True)

def main(how):
    print("running", how, flush=True)
    if how == "reads":
        return sys.stdin.readline()
    if how == "fails":
        raise LookupError("nothing there")
    if how == "hangs":
        time.sleep(3600)
    if how == "crashes":
        os._exit(3)
    for name in ("first", "second", "first"):
        mark(name)
    return {"how": how}
"""


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProgramKiller]:
    folder: Path = tmp_path_factory.mktemp("program")
    (folder / "talkative.py").write_text(_PROGRAM)
    with ProgramKiller("talkative:main", {}, path=[folder], timeout=60) as opened:
        yield opened


def test_a_program_may_print(killer: ProgramKiller) -> None:
    for _ in range(2):
        assert killer.live(how="ends").result == {"how": "ends"}


def test_a_program_reads_nothing_of_the_killer(killer: ProgramKiller) -> None:
    assert killer.live(how="reads").result == ""


def test_an_error_is_told(killer: ProgramKiller) -> None:
    life = killer.live(how="fails")
    assert "LookupError: nothing there" in life.error
    assert not life.was_killed


def test_a_program_is_killed_by_time(killer: ProgramKiller) -> None:
    assert killer.live(kill_at=KillPoint(seconds=0.05), how="hangs").was_killed


def test_a_program_is_killed_at_a_mark(killer: ProgramKiller) -> None:
    assert killer.live(kill_at=KillPoint(mark="first", nth=2), how="ends").was_killed
    assert killer.live(kill_at=KillPoint(mark="first", nth=3), how="ends").result == {"how": "ends"}
    assert killer.live(how="ends").result == {"how": "ends"}


def test_a_program_that_crashes_by_itself_was_not_killed(killer: ProgramKiller) -> None:
    for kill_at in (None, KillPoint(record=1)):
        life = killer.live(kill_at=kill_at, how="crashes")
        assert not life.was_killed
        assert "ended with the status 3" in life.error


@pytest.mark.parametrize("points", [{}, {"record": 1, "seconds": 1.0}, {"mark": "first", "record": 1}])
def test_a_kill_point_is_one_moment(points: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a KillPoint needs one of"):
        KillPoint(**points)


def test_a_program_that_hangs_is_reported(tmp_path: Path) -> None:
    (tmp_path / "talkative.py").write_text(_PROGRAM)
    killer = ProgramKiller("talkative:main", {}, path=[tmp_path], timeout=0.5)
    with killer, pytest.raises(TimeoutError, match=r"talkative:main did not end"):
        killer.live(how="hangs")
