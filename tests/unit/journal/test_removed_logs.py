"""Logs of SQLite files that were removed, and older files: the mark beside the file notices."""

import os
import shutil
import sqlite3
import stat
import sys
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalStoreError
from nighthawk_async.journal.store_mark import read_mark

from .durable_runs import live, opened, places, query
from .test_effects import no_model

pytestmark = pytest.mark.anyio

made: list[int] = []


@nh.once
async def pay(number: int) -> int:
    made.append(number)
    return number


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made.clear()


async def program() -> int:
    return sum([await pay(number) for number in range(5)])


def killed_copy(folder: Path, to: Path) -> Path:
    """The files of a store in use as a process leaves them that is killed now."""
    to.mkdir()
    for file in folder.glob("runs.db*"):
        shutil.copyfile(file, to / file.name)
    return to


def number_of(folder: Path) -> int:
    return read_mark(folder / "runs.db")[1]


KILLED = """
import os, signal, sys
import anyio
import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor

@nh.once
async def pay(number: int) -> int:
    return number

async def main() -> None:
    store = nh.journal.open("sqlite:///runs.db")
    async with nh.run(ScriptedExecutor([]), journal=store, run_id="run-1"):
        for number in range(5):
            await pay(number)
        os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a file in use cannot be copied there")
@pytest.mark.parametrize("is_new", [True, False])
async def test_a_log_that_was_removed_after_a_kill_is_noticed(tmp_path: Path, is_new: bool) -> None:
    if not is_new:
        with opened(tmp_path) as store:
            await live(store, no_model(), program, "run-0")
    command = [sys.executable, "-c", KILLED]
    run = await anyio.run_process(command, cwd=tmp_path, check=False)
    assert run.returncode < 0, run.stderr
    log = tmp_path / "runs.db-wal"
    away = log.rename(tmp_path / "away")
    (tmp_path / "runs.db-shm").unlink(missing_ok=True)
    made.clear()
    for _ in range(2):
        with opened(tmp_path) as store, pytest.raises(JournalStoreError, match=r"lacks its last 1\d commits"):
            await live(store, no_model(), program)
        with opened(tmp_path) as store, pytest.raises(JournalStoreError, match="delete the mark"):
            store.runs()
    assert made == []
    log.unlink(missing_ok=True)
    away.rename(log)  # which is what the error says
    with opened(tmp_path) as store:
        assert await live(store, no_model(), program) == 10
    assert made == []


async def test_an_older_file_is_noticed_and_without_its_mark_it_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await live(store, no_model(), program)
    old = killed_copy(tmp_path, tmp_path / "old")
    with opened(tmp_path) as store:
        await live(store, no_model(), program, "run-2")
    shutil.copyfile(old / "runs.db", tmp_path / "runs.db")
    with opened(tmp_path) as store, pytest.raises(JournalStoreError, match="an older copy"):
        await live(store, no_model(), program, "run-2")
    assert made == [*range(5)] * 2
    (tmp_path / "runs.db-mark").unlink()
    for _ in range(2):
        with opened(tmp_path) as store:
            await live(store, no_model(), program, "run-2")
    assert made == [*range(5)] * 3
    assert number_of(tmp_path) > 0


async def test_regular_ends_and_maintenance_are_no_alarm(tmp_path: Path) -> None:
    for number in range(3):
        with opened(tmp_path) as store:
            await live(store, no_model(), program, f"run-{number}")
            store.fork(f"run-{number}", at="run/pay()[1]", to=f"fork-{number}")
            await store.send("run-9", "mail", "hello")
            if number == 1:
                store.prune(timedelta(0))
    connection = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with opened(tmp_path) as store:
        assert store.reencrypt()
        await live(store, no_model(), program, "run-8")


async def test_what_only_reads_makes_no_mark(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await live(store, no_model(), program)
        copied = tmp_path / "copied.db"
        await anyio.to_thread.run_sync(store.copy, "run-1", copied)
    assert sorted(os.listdir(tmp_path)) == ["copied.db", "runs.db", "runs.db-mark"]
    (tmp_path / "runs.db-mark").unlink()
    for file in ("runs.db", "copied.db"):
        with nh.journal.open(f"sqlite:///{tmp_path / file}") as store:
            assert places(store, "result")
    assert sorted(os.listdir(tmp_path)) == ["copied.db", "runs.db"]


async def test_a_new_file_in_the_place_of_another_one_is_no_alarm(tmp_path: Path) -> None:
    for number in range(3):
        with opened(tmp_path) as store:
            await live(store, no_model(), program)
            count = query(store, "SELECT number FROM store_commits")[0][0]
        assert made == [*range(5)] * (number + 1)
        assert count <= number_of(tmp_path) <= count + 2
        (tmp_path / "runs.db").unlink()  # and the mark stays


@pytest.mark.parametrize("content", [b"", b"\0" * 4_096, b"nh-mark1", b"garbage " * 1_000])
async def test_a_damaged_mark_is_none(tmp_path: Path, content: bytes) -> None:
    with opened(tmp_path) as store:
        await live(store, no_model(), program)
    (tmp_path / "runs.db-mark").write_bytes(content)
    with opened(tmp_path) as store:
        await live(store, no_model(), program)
    assert number_of(tmp_path) > 10
    assert made == [*range(5)]


async def test_two_connections_take_nothing_back(tmp_path: Path) -> None:
    with opened(tmp_path) as one, opened(tmp_path) as other:
        for number in range(3):
            await live(one, no_model(), program, f"one-{number}")
            await live(other, no_model(), program, f"other-{number}")
            assert number_of(tmp_path) == query(one, "SELECT number FROM store_commits")[0][0]


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes there")
async def test_the_mark_has_the_mode_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "runs.db").touch()
    (tmp_path / "runs.db").chmod(0o640)
    with opened(tmp_path) as store:
        await live(store, no_model(), program)
    assert stat.S_IMODE((tmp_path / "runs.db-mark").stat().st_mode) == 0o640


async def test_a_link_to_the_file_has_the_same_mark(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "runs.db").symlink_to(tmp_path / "real" / "runs.db")
    with opened(tmp_path / "real") as store:
        await live(store, no_model(), program)
    before = number_of(tmp_path / "real")
    with opened(tmp_path) as store:
        await live(store, no_model(), program)
    assert number_of(tmp_path) == number_of(tmp_path / "real") > before
    assert not (tmp_path / "runs.db-mark").exists()
