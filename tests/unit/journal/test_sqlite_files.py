"""SQLite files: full disks, files that cannot be written, network file systems, files of earlier versions."""

import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalStoreError, sqlite_files, store_thread
from nighthawk_async.journal.sqlite_database import open_sqlite

from .durable_runs import live, opened, query, shout, shouting

pytestmark = pytest.mark.anyio


@nh.repeatable
async def fetch(size: int) -> bytes:
    """Return bytes that cannot be compressed."""
    return os.urandom(size)


async def test_a_full_disk_ends_the_run_and_the_store_works_again_when_there_is_room(tmp_path: Path) -> None:
    model = shouting()
    disks = ["full"]

    async def program() -> str:
        loud = await shout("a")
        while disks:
            # The limit is one of the connection; SQLite reports it as it reports a full disk.
            disks.pop()
            query(store, "PRAGMA max_page_count = 1")
        await fetch(40_000)
        await fetch(40_000)
        return loud

    with opened(tmp_path) as store:
        with pytest.raises(JournalStoreError, match=r"runs\.db cannot be used: .*full"):
            await live(store, model, program)
        assert await live(store, model, program) == "A"
        assert store.verify()
    assert len(model.prompts) == 1


async def test_a_file_that_has_become_read_only_is_named(tmp_path: Path) -> None:
    async def program() -> None:
        await shout("a")
        query(store, "PRAGMA query_only = ON")
        await shout("b")

    with opened(tmp_path) as store:
        with pytest.raises(JournalStoreError, match=r"runs\.db cannot be used: .*readonly"):
            await live(store, shouting(), program)
        assert await live(store, shouting(), lambda: shout("a")) == "A"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every file")
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.runs()
    (tmp_path / "runs.db").chmod(0o400)
    with opened(tmp_path) as store, pytest.raises(JournalStoreError, match=r"runs\.db cannot be"):
        store.runs()


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "lustre"])
def test_network_file_systems_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounts = tmp_path / "mounts"
    folder = tmp_path / "shared files"
    (folder / "local").mkdir(parents=True)
    shown = str(folder).replace(" ", "\\040")
    mounts.write_text(
        f"/dev/vda / ext4 rw 0 0\nserver:/x {shown} {kind} rw 0 0\n/dev/vdb {shown}/local xfs rw 0 0\n"
    )
    monkeypatch.setattr(sqlite_files, "_MOUNTS", mounts)
    with opened(folder) as store, pytest.raises(JournalStoreError, match=rf"network file system \({kind}\)"):
        store.runs()
    assert not (folder / "runs.db").exists()
    link = tmp_path / "link"
    link.symlink_to(folder, target_is_directory=True)
    with opened(link) as store, pytest.raises(JournalStoreError, match="network"):
        store.runs()
    for local in (folder / "local", tmp_path):
        with opened(local) as store:
            assert store.runs() == []


def test_where_mounts_are_not_known_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_files, "_MOUNTS", tmp_path / "missing")
    with opened(tmp_path) as store:
        assert store.runs() == []


async def test_commits_wait_for_the_disk_and_deleted_pages_can_be_given_back(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert [
            query(store, f"PRAGMA {name}") for name in ("journal_mode", "synchronous", "auto_vacuum")
        ] == [[("wal",)], [(2,)], [(2,)]]


async def test_a_file_that_cannot_shrink_says_so(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "runs.db")
    connection.execute("CREATE TABLE other (x)")  # a file with a table keeps its auto_vacuum
    connection.close()
    with opened(tmp_path) as store:
        await live(store, shouting(), lambda: shout("a"))
        report = await anyio.to_thread.run_sync(store.prune, timedelta(0))
        assert (report.runs, report.releases_space) == (("run-1",), False)


def test_a_new_file_can_be_opened_by_many_at_once(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / f"{number}.db"
        together = threading.Barrier(6)

        def open_together(path: Path = path, together: threading.Barrier = together) -> None:
            together.wait()
            open_sqlite(path).close()

        with ThreadPoolExecutor(6) as pool:
            for opening in [pool.submit(open_together) for _ in range(6)]:
                opening.result()


async def test_a_store_that_nobody_closes_is_closed_at_the_end_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_exit: list[Callable[[], object]] = []
    monkeypatch.setattr(store_thread.atexit, "register", at_exit.append)
    monkeypatch.setattr(store_thread.atexit, "unregister", at_exit.remove)
    store = nh.journal.open(f"sqlite:///{tmp_path}/runs.db")
    await live(store, shouting(), lambda: shout("a"))
    assert (tmp_path / "runs.db-wal").exists()
    for close in tuple(at_exit):
        await anyio.to_thread.run_sync(close)
    assert at_exit == []
    assert not (tmp_path / "runs.db-wal").exists()
