"""Processes that store in one memory at the same time, and are killed: what was acknowledged is there."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import nighthawk_async as nh
from tests.unit.journal.postgresql_server import PostgresqlServer
from tests.warm_python import WarmPopen


class Writer:
    """A process that stores records.

    Args:
        target: The store.
        name: Its name.
        first: The number of its first record.
        count: The number of its records.
    """

    def __init__(self, target: str, name: str, first: int, count: int) -> None:
        self._process = WarmPopen(
            [sys.executable, "-m", "tests.faults.memory_writer", target, name, str(first), str(count)],
            stdout=subprocess.PIPE,
            text=True,
        )

    def lines(self, most: int | None = None) -> Iterator[str]:
        """The keys that it has stored, as they come: some of them, or all until it ends."""
        assert self._process.stdout is not None
        for number, line in enumerate(self._process.stdout, 1):
            yield line.strip()
            if number == most:
                return

    def kill(self) -> list[str]:
        """Kill it, and return the other keys that it had printed."""
        self._process.kill()
        return self.end()

    def end(self) -> list[str]:
        """Wait for its end, and return the other keys that it has printed."""
        rest = list(self.lines())
        self._process.wait(timeout=60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return rest


def stored_by(target: str, *, writers: int, count: int, kills: int) -> set[str]:
    """Let processes store at the same time, and kill one again and again: the keys that were acknowledged."""
    others = [Writer(target, f"w{number}", 0, count) for number in range(writers - 1)]
    keys: set[str] = set()
    first = 0
    for _ in range(kills):
        victim = Writer(target, "victim", first, 1_000)
        found = [*victim.lines(most=2), *victim.kill()]
        keys.update(found)
        first += len(found) + 1
    keys.update(Writer(target, "victim", first, count).end())
    for other in others:
        keys.update(other.end())
    return keys


@pytest.mark.anyio
@pytest.mark.usefixtures("warm_python")
@pytest.mark.may_block_event_loop(reason="the processes are waited for, with nothing else to do")
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.parametrize(
    ("writers", "count", "kills"),
    [
        pytest.param(2, 5, 1, id="few"),
        pytest.param(8, 100, 10, id="eight processes", marks=pytest.mark.weekly),
    ],
)
async def test_what_was_acknowledged_is_there(
    tmp_path: Path, request: pytest.FixtureRequest, database: str, writers: int, count: int, kills: int
) -> None:
    target = str(tmp_path / "memory.db")
    if database == "postgresql":
        server: PostgresqlServer = request.getfixturevalue("postgresql_server")
        target = server.address_of(tmp_path)
    keys = stored_by(target, writers=writers, count=count, kills=kills)
    assert len(keys) >= writers * count + 2 * kills
    with nh.memory.open(target, namespace="shared") as memory:
        events = await memory.history()
        numbers = [event.number for event in events]
        assert numbers == list(range(1, len(events) + 1))
        current = {record.key for record in await memory.recall("", k=1_000)}
        missing = [key for key in keys if key not in current and await memory.get(key) is None]
        assert missing == []
        for name in ("victim", "w0"):
            found = await memory.recall(f"record of {name}", tags=[name], k=1_000)
            assert {key for key in keys if key.startswith(f"{name}-")} <= {each.key for each in found}
        assert [r.key for r in await memory.recall("latest")] == ["latest"]
    if database == "sqlite":
        with closing(sqlite3.connect(target)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            (counted,) = connection.execute("SELECT records, words FROM memory_spaces")
            ((kept, words),) = connection.execute(
                "SELECT COUNT(*), SUM(words) FROM memory_entries WHERE is_current = 1"
            )
            assert counted == (kept, words)
