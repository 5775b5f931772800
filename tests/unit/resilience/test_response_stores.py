"""Where responses are kept: how long, how many, and what happens when a file is damaged."""

import logging
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.resilience import (
    InvalidPolicyError,
    MemoryStore,
    ResponseStoreError,
    ResponseStoreStatistics,
    SqliteStore,
    cached,
    response_stores,
    sqlite_store,
)

from .cached_models import Counting, number

Store = MemoryStore | SqliteStore


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(response_stores, "time", clock)
    monkeypatch.setattr(sqlite_store, "time", clock)
    return clock


@pytest.fixture(params=["memory", "sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def made(kind: str, folder: Path, **limits: Any) -> Store:
    return MemoryStore(**limits) if kind == "memory" else SqliteStore(folder / "responses.db", **limits)


def test_what_is_kept_is_found_until_it_is_removed(kind: str, tmp_path: Path) -> None:
    store = made(kind, tmp_path)
    store.keep(b"a", b"one")
    store.keep(b"b", b"three")
    store.keep(b"a", b"four")
    assert [store.find(key) for key in (b"a", b"b", b"c")] == [b"four", b"three", None]
    assert store.statistics() == ResponseStoreStatistics(entries=2, bytes=9)
    store.remove(b"a")
    assert store.find(b"a") is None
    store.clear()
    assert store.statistics() == ResponseStoreStatistics(entries=0, bytes=0)


def test_an_old_response_is_gone(kind: str, tmp_path: Path, clock: Clock) -> None:
    store = made(kind, tmp_path, max_age_seconds=60)
    store.keep(b"a", b"x")
    clock.now += 59.9
    assert store.find(b"a") == b"x"
    clock.now += 0.1
    assert store.find(b"a") is None
    assert store.statistics().entries == 0


def test_the_responses_that_were_used_longest_ago_go_first(kind: str, tmp_path: Path) -> None:
    store = made(kind, tmp_path, max_entries=2)
    store.keep(b"a", b"x")
    store.keep(b"b", b"x")
    assert store.find(b"a") == b"x"
    store.keep(b"c", b"x")
    assert [store.find(key) for key in (b"a", b"b", b"c")] == [b"x", None, b"x"]


def test_all_responses_together_have_a_greatest_size(kind: str, tmp_path: Path) -> None:
    store = made(kind, tmp_path, max_bytes=10)
    store.keep(b"a", b"1234")
    store.keep(b"b", b"1234")
    store.keep(b"c", b"12345678901")  # alone too large
    assert store.statistics() == ResponseStoreStatistics(entries=2, bytes=8)
    store.keep(b"d", b"123456789")
    assert store.statistics() == ResponseStoreStatistics(entries=1, bytes=9)
    assert store.find(b"d") == b"123456789"


@pytest.mark.parametrize(
    "limits", [{"max_entries": 0}, {"max_bytes": -1}, {"max_age_seconds": -1}, {"max_bytes": 1.5}]
)
def test_bad_limits_are_refused(kind: str, tmp_path: Path, limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidPolicyError, match=next(iter(limits))):
        made(kind, tmp_path, **limits)


def test_many_threads_share_a_store(kind: str, tmp_path: Path) -> None:
    store = made(kind, tmp_path, max_entries=50)

    def use(index: int) -> bool:
        key = str(index % 40).encode()
        store.keep(key, key)
        return store.find(key) == key

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(use, range(400)))
    assert store.statistics().entries == 40


# ---- files


PROCESS = """
import sys
from nighthawk_async.resilience import SqliteStore
store = SqliteStore(sys.argv[1], max_entries=1_000)
for index in range(100):
    store.keep(f"{sys.argv[2]}-{index}".encode(), b"x" * 100)
assert all(store.find(f"{sys.argv[2]}-{index}".encode()) for index in range(100))
store.close()
"""


def test_several_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROCESS, str(path), str(number)], stderr=subprocess.PIPE
        )
        for number in range(3)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert errors == b""
    store = SqliteStore(path)
    assert store.statistics().entries == 300
    store.close()
    assert store.find(b"0-0") == b"x" * 100  # it is opened again


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    SqliteStore(path).open()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(ResponseStoreError, match="another version"), cached(store=SqliteStore(path)):
        pass


@pytest.mark.parametrize("content", ["database", "text"])
def test_a_file_of_something_else_is_refused_and_stays_as_it_is(content: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.db"
    if content == "text":
        path.write_text("My notes, which are long enough to be no empty file.\n" * 20)
    else:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE notes (text TEXT)")
        connection.commit()
        connection.close()
    before = path.read_bytes()
    with pytest.raises(ResponseStoreError, match=r"mine\.db"), cached(store=str(path)):
        pass
    assert path.read_bytes() == before


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nighthawk_async.journal.sqlite_files.network_type", lambda path: "nfs")
    with (
        pytest.raises(ResponseStoreError, match="network file system"),
        cached(store=tmp_path / "responses.db"),
    ):
        pass


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(ResponseStoreError, match="missing"),
        cached(store=tmp_path / "missing" / "responses.db"),
    ):
        pass


async def asked_for(store: Store, *texts: str) -> list[int]:
    async with nh.run(Counting()), cached(store=store):
        return [await number(text) for text in texts]


def change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE responses SET body = substr(body, 1, 20)",
        "UPDATE responses SET body = x''",
        "UPDATE responses SET body = CAST(replace(body, 'stop', 'stap') AS BLOB) || x'00'",
        "UPDATE responses SET body = 'no bytes'",
    ],
)
async def test_a_damaged_response_costs_a_request_and_one_warning(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(tmp_path / "responses.db")
    assert await asked_for(store, "a", "b") == [1, 2]
    change(store.path, damage)
    assert await asked_for(store, "b", "a") == [1, 2]
    assert [record.levelno for record in caplog.records if "response" in record.message] == [logging.WARNING]
    assert await asked_for(store, "a", "b") == [2, 1]  # they were replaced


@pytest.mark.anyio
async def test_a_file_that_cannot_be_used_any_more_fails_no_step(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(tmp_path / "responses.db")
    assert await asked_for(store, "a") == [1]
    change(store.path, "DROP TABLE responses")
    assert await asked_for(store, "a", "a") == [1, 2]
    assert len([record for record in caplog.records if "response store" in record.message]) == 1


def content_of(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.iterdir())


@pytest.mark.anyio
async def test_a_file_holds_no_prompt_and_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-of-the-environment-0123456789")
    store = SqliteStore(tmp_path / "responses.db")
    usage = nh.Usage(requests=1)

    def respond(request: Any) -> nh.testing.ModelResponse:
        call = nh.testing.tool_call("nh_outcome", kind="pass", bindings={"value": 4})
        text = "The keys are sk-proj-of-the-environment-0123456789 and sk-given-0123456789abcdef."
        return nh.testing.model_response(call, text=text, usage=usage)

    configuration = nh.StepExecutorConfiguration(model_settings={"api_key": "sk-given-0123456789abcdef"})
    model = nh.testing.ScriptedModel(respond)
    executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
    async with nh.run(executor), cached(store=store):
        assert await number("my private text") == 4
    store.close()
    content = content_of(tmp_path)
    assert b"The keys are" in content
    for secret in (b"of-the-environment", b"sk-given", b"private text"):
        assert secret not in content


def test_a_response_is_found_while_another_process_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite_store, "_BUSY_SECONDS", 0.01)
    store = SqliteStore(tmp_path / "responses.db")
    store.keep(b"a", b"x")
    writer = sqlite3.connect(store.path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    assert store.find(b"a") == b"x"
    store.keep(b"b", b"x")
    writer.execute("ROLLBACK")
    writer.close()
    assert store.find(b"b") is None
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
