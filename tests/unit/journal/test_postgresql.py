"""What is special about stores in PostgreSQL: servers that restart, and who else uses the database."""

import threading
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalStoreError

from .durable_runs import change_tables, live, opened, places, shout, shouting
from .postgresql_server import PostgresqlServer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("is_same_store", [True, False])
async def test_a_run_continues_after_its_server_has_restarted(
    tmp_path: Path, postgresql: PostgresqlServer, is_same_store: bool
) -> None:
    model = shouting()
    paid: list[str] = []
    restarts = [postgresql.restart]

    @nh.once
    async def pay(word: str) -> str:
        paid.append(word)
        return word

    async def program() -> list[str]:
        loud = await shout("a")
        while restarts:
            await anyio.to_thread.run_sync(restarts.pop())
        return [await pay(each) for each in (loud, "b", "c")]

    with opened(tmp_path) as store:
        with pytest.raises(JournalStoreError, match="cannot be used"):
            await live(store, model, program)
        assert not paid
        if is_same_store:
            assert await live(store, model, program) == ["A", "b", "c"]
    with opened(tmp_path) as store:
        assert await live(store, model, program) == ["A", "b", "c"]
        assert store.runs()[0].status == "ended"
    assert len(model.prompts) == 1
    assert sorted(paid) == ["A", "b", "c"]


async def test_each_commit_waits_for_the_disk_whatever_the_server_prefers(
    tmp_path: Path, postgresql: PostgresqlServer
) -> None:
    name = postgresql.address_of(tmp_path).partition("?")[0].rpartition("/")[2]
    postgresql.carry_out(tmp_path, f"ALTER DATABASE {name} SET synchronous_commit TO off")
    with opened(tmp_path) as store:
        assert store.runs() == []
        connected = store.thread._database
        assert connected is not None
        assert connected.query("SHOW synchronous_commit") == [("on",)]


def test_stores_that_open_an_empty_database_at_once_share_it(
    tmp_path: Path, postgresql: PostgresqlServer
) -> None:
    postgresql.address_of(tmp_path)
    failures: list[Exception] = []

    def read() -> None:
        with opened(tmp_path) as store:
            try:
                store.runs()
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


async def test_tables_of_others_are_left_alone(tmp_path: Path, postgresql: PostgresqlServer) -> None:
    postgresql.carry_out(tmp_path, "CREATE TABLE runs (id integer); CREATE TABLE records (id integer)")
    with opened(tmp_path) as store:
        assert await live(store, shouting(), lambda: shout("a")) == "A"
        assert places(store, "response") == ["run/shout()[0]/shout#1[0]/turn[0]"]
    postgresql.carry_out(tmp_path, "DROP SCHEMA nighthawk_async CASCADE; SELECT 1 FROM runs, records")


async def test_a_transaction_of_a_process_that_was_stopped_is_ended_by_the_server(
    tmp_path: Path, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nh.journal.tables, "LEASE_SECONDS", 0.2)
    with opened(tmp_path) as store:
        await live(store, shouting(), lambda: shout("a"))
    change_tables(tmp_path, "UPDATE runs SET status = 'running', leased_until = 0")
    is_held, may_go_on = threading.Event(), threading.Event()
    appended = nh.journal.tables.append_records

    def append_and_stop(*arguments: object) -> None:
        appended(*arguments)
        is_held.set()
        may_go_on.wait(60)

    async def program() -> None:
        monkeypatch.setattr(nh.journal.tables, "append_records", append_and_stop)
        await shout("b")

    async def stopped() -> None:
        with opened(tmp_path) as store, pytest.raises(JournalStoreError):
            await live(store, shouting(), program, "run-2")

    async with anyio.create_task_group() as group:
        group.start_soon(stopped)
        await anyio.to_thread.run_sync(is_held.wait)
        monkeypatch.undo()
        with opened(tmp_path) as other:
            # Its own statement waits for the row of the stopped transaction.
            rows = await anyio.to_thread.run_sync(
                lambda: postgresql.carry_out(tmp_path, "DELETE FROM nighthawk_async.runs")
            )
            assert rows is None
            assert other.runs() == []
        may_go_on.set()
