"""Accidents of stores in the middle of a run: power that fails, full disks, servers that restart, lost files.

Power that fails is a process that is killed, and then a write-ahead log of SQLite whose end is missing or is
garbage. Two promises are checked:

- The disk keeps what it has confirmed. Then only the last transaction can be torn, which nobody was told of:
  everything is as after a kill.
- The disk has lied, and any end of the log is lost. The mark beside the file says so, if more than the last
  transaction is missing. Without the mark, the records are a prefix of those that there were, unchanged, and
  the run continues from there with the right result. A call whose intent is lost with the end is made again,
  with the same key; no other call is.
"""

import os
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nighthawk_async.journal.effect_call import idempotency_key
from nighthawk_async.testing.killing import KillPoint, Life, ProgramKiller
from tests.faults.durable.lives import Lives, wait_until
from tests.faults.durable.shapes import SHAPES
from tests.faults.durable.switches import GO_ON, LOG_SIZE, PAUSED
from tests.unit.journal.postgresql_server import PostgresqlServer

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is forked from one that is warm"),
    pytest.mark.parametrize("backend", ["asyncio", "trio"]),
]

RUNS = 6
"""The number of runs of each test that chooses its shapes and moments by chance."""


def tear(log: Path, first: int, chance: random.Random) -> None:
    """Lose the end of a log, at any byte from one on: cut it off, or put zeros or garbage there."""
    content = log.read_bytes()
    at = chance.randint(first, len(content))
    rest = len(content) - at
    end = chance.choice((b"", bytes(rest), chance.randbytes(rest)))
    log.write_bytes(content[:at] + end)


def killed(
    killer: ProgramKiller, folder: Path, backend: str, chance: random.Random
) -> tuple[Lives, Path, int]:
    """A run that was killed when it had written a record, and before anybody was told so.

    Returns:
        The lives; the log; its size before that record was written.
    """
    shape = chance.choice(list(SHAPES))
    lives = Lives(killer, folder, backend, [shape])
    number = chance.randint(2, 6)
    print(backend, shape, number)
    life = lives.live(KillPoint(record=number, when="after"), note_log_size=True)
    assert life.was_killed, life.error
    return lives, folder / "runs.db-wal", int((folder / LOG_SIZE).read_text())


def test_what_the_disk_has_confirmed_survives_a_loss_of_power(
    tmp_path: Path, killer: ProgramKiller, chance: random.Random, backend: str
) -> None:
    for number in range(RUNS):
        lives, log, confirmed = killed(killer, tmp_path / str(number), backend, chance)
        assert 0 < confirmed < log.stat().st_size
        tear(log, confirmed, chance)
        lives.refresh()
        assert lives.findings(lives.live()) == {}


def test_after_a_disk_that_has_lied_the_run_continues_from_a_prefix(
    tmp_path: Path, killer: ProgramKiller, chance: random.Random, backend: str
) -> None:
    losses = 0
    for number in range(RUNS):
        lives, log, _ = killed(killer, tmp_path / str(number), backend, chance)
        before = lives.records
        tear(log, 0, chance)
        lives.refresh()
        kept = len(lives.records)
        assert lives.records == before[:kept]
        losses += len(before) - kept
        life = lives.live()
        if "lacks its last" in life.error:
            (lives.folder / "runs.db-mark").unlink()
            life = lives.live()
        lost_keys = {
            idempotency_key(lives.run_id, record.place) for record in before[kept:] if record.kind == "intent"
        }
        assert lives.wrong(life) == []
        assert lives.asked_again() == []
        assert lives.repeated_calls() <= lost_keys
        booked = {line.split(" ", 1)[1] for line in lives.bookings}
        assert booked.issuperset(SHAPES[lives.shapes[0]].once)
    assert losses


def test_a_run_continues_when_a_full_disk_has_room_again(
    tmp_path: Path, killer: ProgramKiller, chance: random.Random, backend: str
) -> None:
    for number in range(RUNS):
        shape = chance.choice(list(SHAPES))
        full_at = [chance.randint(2, 6), chance.choice((0, 1, chance.randrange(9_000)))]
        print(backend, shape, full_at)
        lives = Lives(killer, tmp_path / str(number), backend, [shape])
        life = lives.live(full_at=full_at)
        assert "JournalStoreError" in life.error, life
        assert lives.findings(lives.live()) == {}


def test_a_run_continues_when_the_file_may_grow_again(
    tmp_path: Path, killer: ProgramKiller, backend: str
) -> None:
    lives = Lives(killer, tmp_path / "run", backend, list(SHAPES))
    life = lives.live(most_pages=2)
    assert "JournalStoreError" in life.error
    assert "disk is full" in life.error
    assert lives.records
    assert lives.findings(lives.live()) == {}


def live_meanwhile(lives: Lives, record: int, accident: Callable[[], object]) -> Life:
    """A life during which something happens to the store, before a record is written."""
    ended: list[Life] = []
    thread = threading.Thread(target=lambda: ended.append(lives.live(pause_at=record)))
    thread.start()
    wait_until((lives.folder / PAUSED).exists)
    accident()
    (lives.folder / GO_ON).touch()
    thread.join()
    return ended[0]


@pytest.mark.parametrize("crashes", [False, True])
def test_a_run_continues_after_its_server_has_restarted(
    tmp_path: Path, killer: ProgramKiller, postgresql_server: PostgresqlServer, backend: str, crashes: bool
) -> None:
    for record in (3, 12):
        folder = tmp_path / f"{record}-{backend}"
        lives = Lives(killer, folder, backend, ["map"], postgresql_server.address_of(tmp_path))
        life = live_meanwhile(lives, record, lambda: postgresql_server.restart(crashes=crashes))
        assert "JournalStoreError" in life.error
        assert lives.findings(lives.live()) == {}


def test_a_run_continues_after_its_server_had_no_room(
    tmp_path: Path, killer: ProgramKiller, postgresql_server: PostgresqlServer, backend: str
) -> None:
    address = postgresql_server.address_of(tmp_path)
    lives = Lives(killer, tmp_path / f"full-{backend}", backend, ["map"], address)
    refuse = (
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'no space left on device' USING ERRCODE = 'disk_full'; END $$; "
        "CREATE TRIGGER full_disk BEFORE INSERT ON nighthawk_async.records "
        "FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    life = live_meanwhile(lives, 9, lambda: postgresql_server.carry_out(tmp_path, refuse))
    assert "no space left on device" in life.error
    assert "JournalStoreError" in life.error
    assert 0 < lives.last_record < 9
    postgresql_server.carry_out(tmp_path, "DROP TRIGGER full_disk ON nighthawk_async.records")
    assert lives.findings(lives.live()) == {}


def test_a_run_continues_when_its_file_is_back(tmp_path: Path, killer: ProgramKiller, backend: str) -> None:
    lives = Lives(killer, tmp_path / "run", backend, ["map"])
    assert lives.live(KillPoint(record=10, when="after")).was_killed
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for file in lives.folder.glob("runs.db*"):
        shutil.move(file, elsewhere)
    (lives.folder / "runs.db").write_text("This is not a database, whoever put it here.")
    records, lives.refresh = lives.records, lambda: None  # type: ignore[method-assign]
    assert "JournalStoreError" in lives.live().error
    (lives.folder / "runs.db").unlink()
    for file in elsewhere.iterdir():
        shutil.move(file, lives.folder)
    del lives.refresh
    lives.refresh()
    assert lives.records == records
    assert lives.findings(lives.live()) == {}


def test_a_file_that_is_deleted_in_use_ends_the_run(
    tmp_path: Path, killer: ProgramKiller, backend: str
) -> None:
    lives = Lives(killer, tmp_path / "run", backend, ["map"])

    def delete() -> None:
        for file in lives.folder.glob("runs.db*"):
            file.unlink()

    life = live_meanwhile(lives, 2, delete)
    assert "was moved, replaced or deleted while it was in use" in life.error
    assert lives.bookings == []
