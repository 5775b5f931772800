"""What else a machine does while it measures is told apart from the measuring."""

from pathlib import Path

import pytest

from benchmarks import machine
from benchmarks.machine import LoadWatch, this_machine


@pytest.fixture
def processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Sets the processors' times, and the own ones, in hundredths of a second as the kernel tells them."""
    file = tmp_path / "stat"
    monkeypatch.setattr(machine, "PROCESSOR_TIMES", file)
    monkeypatch.setattr(machine.os, "sysconf", lambda _: 100)

    def set_times(*, busy: int, idle: int, waiting: int, own: float) -> None:
        file.write_text(f"cpu  {busy} 0 0 {idle} {waiting} 0 0 0 9999 9999\ncpu0 1 2 3\n")
        monkeypatch.setattr(machine, "_own_seconds", lambda: own)

    return set_times


def test_what_others_take_is_a_share_of_all_processors(processors) -> None:
    processors(busy=1_000, idle=1_000, waiting=0, own=5.0)
    watch = LoadWatch()
    processors(busy=1_100, idle=1_080, waiting=20, own=5.5)
    load = watch.load()
    assert load.others_share == 0.25
    assert load.is_busy


def test_the_own_work_is_not_that_of_others(processors) -> None:
    processors(busy=0, idle=0, waiting=0, own=0.0)
    watch = LoadWatch()
    processors(busy=100, idle=100, waiting=0, own=1.0)
    assert watch.load().others_share == 0
    assert not watch.load().is_busy


def test_a_system_that_does_not_tell_leaves_the_share_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "PROCESSOR_TIMES", tmp_path / "missing")
    load = LoadWatch().load()
    assert load.others_share is None
    assert not load.is_busy


def test_no_time_that_passed_leaves_the_share_open(processors) -> None:
    processors(busy=100, idle=100, waiting=0, own=1.0)
    assert LoadWatch().load().others_share is None


def test_the_machine_tells_the_versions_that_figures_depend_on() -> None:
    described = this_machine()
    assert {"nighthawk-async", "anyio", "httpx"} <= set(described.versions)
    assert described.python.count(".") == 2
