"""Two processes that contend for one run: one is stopped for longer than its lease, and then goes on.

It records nothing more and begins no effect. Controls switch the check of each commit off, the check before
each effect, and the lease.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nighthawk_async.testing.killing import KillPoint, Life, ProgramKiller
from tests.faults.durable.lives import Lives, wait_until, warm_killer
from tests.faults.durable.switches import GO_ON, STOPPED

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is forked from one that is warm"),
    pytest.mark.parametrize("backend", ["asyncio", "trio"]),
]

LEASE_SECONDS = 0.5


@pytest.fixture(scope="module")
def other_killer() -> Iterator[ProgramKiller]:
    """A second killer, so that two processes live at the same time."""
    with warm_killer() as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def address(tmp_path: Path, request: pytest.FixtureRequest) -> str | None:
    """The address of the store; None for a file."""
    if request.param == "sqlite":
        return None
    return request.getfixturevalue("postgresql_server").address_of(tmp_path)


class StoppedLife:
    """A life that stops itself when it has written a record, until it is told to go on.

    Args:
        lives: The lives of the run.
        killer: Runs it.
        stop_at: The number of the record.
    """

    def __init__(self, lives: Lives, killer: ProgramKiller, stop_at: int) -> None:
        self._lives = lives
        self._thread = threading.Thread(target=self._live, args=(killer, stop_at))
        self._life: Life | None = None

    def _live(self, killer: ProgramKiller, stop_at: int) -> None:
        self._life = self._lives.live(killer=killer, stop_at=stop_at)

    def __enter__(self) -> "StoppedLife":
        self._thread.start()
        note = self._lives.folder / STOPPED
        wait_until(lambda: note.exists() and note.read_text() and _is_stopped(int(note.read_text())))
        self._pid = int(note.read_text())
        self._lives.refresh()
        return self

    def go_on(self) -> Life:
        """Let it go on, and wait for its end."""
        (self._lives.folder / GO_ON).touch()
        os.kill(self._pid, signal.SIGCONT)
        self._thread.join()
        assert self._life is not None
        return self._life

    def __exit__(self, *exc_details: object) -> None:
        if self._thread.is_alive():
            os.kill(self._pid, signal.SIGKILL)
            self._thread.join()


def _is_stopped(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True).stdout
    return state.startswith("T")


def live_when_free(lives: Lives, kill_at: KillPoint | None = None) -> Life:
    """Live once the lease of the life that was stopped has ended."""
    while "RunInProgressError" in (life := lives.live(kill_at)).error:
        time.sleep(0.05)
    return life


@pytest.mark.parametrize(("shape", "record"), [("map", 10), ("doubt", 2)])
def test_a_process_that_was_stopped_does_nothing_more_after_its_successor(
    tmp_path: Path,
    killer: ProgramKiller,
    other_killer: ProgramKiller,
    address: str | None,
    backend: str,
    shape: str,
    record: int,
) -> None:
    folder = tmp_path / f"{shape}-{backend}"
    lives = Lives(killer, folder, backend, [shape], address, lease_seconds=LEASE_SECONDS)
    with StoppedLife(lives, other_killer, record) as stopped:
        ended = live_when_free(lives)
        records, bookings = lives.records, lives.bookings
        assert "RunTakenOverError" in stopped.go_on().error
    assert lives.records == records
    assert lives.bookings == bookings
    assert lives.findings(ended) == {}


def taken_over_before_anything(
    tmp_path: Path,
    killer: ProgramKiller,
    other_killer: ProgramKiller,
    backend: str,
    address: str | None,
    **options: object,
) -> tuple[Lives, Life, bool]:
    """A life that goes on after another one had claimed its run, and was killed before its first record.

    Returns:
        The lives; the one that went on; whether it did anything then.
    """
    folder = tmp_path / f"claimed-{backend}"
    lives = Lives(killer, folder, backend, ["map"], address, lease_seconds=LEASE_SECONDS, **options)
    with StoppedLife(lives, other_killer, 10) as stopped:
        assert live_when_free(lives, KillPoint(mark="claimed")).was_killed
        records, bookings = lives.records, lives.bookings
        life = stopped.go_on()
    return lives, life, (lives.records, lives.bookings) != (records, bookings)


def test_a_process_that_was_stopped_does_nothing_more_after_a_mere_claim(
    tmp_path: Path, killer: ProgramKiller, other_killer: ProgramKiller, address: str | None, backend: str
) -> None:
    lives, life, has_gone_on = taken_over_before_anything(tmp_path, killer, other_killer, backend, address)
    assert "RunTakenOverError" in life.error
    assert not has_gone_on
    assert lives.findings(lives.live()) == {}


def test_without_the_check_of_each_commit_it_goes_on(
    tmp_path: Path, killer: ProgramKiller, other_killer: ProgramKiller, address: str | None, backend: str
) -> None:
    _, life, has_gone_on = taken_over_before_anything(
        tmp_path, killer, other_killer, backend, address, without="fence"
    )
    assert not life.error
    assert has_gone_on


def test_without_the_check_before_an_effect_it_begins_one_more(
    tmp_path: Path, killer: ProgramKiller, other_killer: ProgramKiller, backend: str
) -> None:
    lives = Lives(
        killer, tmp_path / "run", backend, ["doubt"], lease_seconds=LEASE_SECONDS, without="confirmation"
    )
    with StoppedLife(lives, other_killer, 2) as stopped:  # the intent is written, and the call not begun
        live_when_free(lives)
        bookings = lives.bookings
        stopped.go_on()
    assert lives.bookings != bookings


def test_without_the_lease_two_processes_make_a_call(
    tmp_path: Path, killer: ProgramKiller, other_killer: ProgramKiller, backend: str
) -> None:
    for without in ("", "lease"):
        folder = tmp_path / (without or "whole")
        lives = Lives(killer, folder, backend, ["map"], without=without)
        with StoppedLife(lives, other_killer, 10) as stopped:
            successor = lives.live()
            went_on = stopped.go_on()
        assert ("RunInProgressError" in successor.error) is not without
        assert ("RunTakenOverError" in went_on.error) is bool(without)
