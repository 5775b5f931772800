"""The store: leases, durability, files that are none, and the thread that writes."""

import hashlib
import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalStoreError, RunInProgressError, RunTakenOverError, tables
from nighthawk_async.journal.holders import is_alive, process_name
from nighthawk_async.testing import ModelResponse

from . import durable_runs
from .durable_runs import (
    AnsweringModel,
    assigning,
    change_tables,
    live,
    opened,
    places,
    shout,
    shout_synchronously,
    shouting,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


async def test_a_run_is_open_once(tmp_path: Path) -> None:
    async def program() -> None:
        with opened(tmp_path) as other, pytest.raises(RunInProgressError, match=str(os.getpid())):
            await live(other, shouting(), lambda: shout("a"))
        await shout("b")

    with opened(tmp_path) as store:
        await live(store, shouting(), program)
        await live(store, shouting(), lambda: shout("c"), "run-2")


async def test_who_has_lost_a_run_records_nothing_more_and_begins_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid: list[int] = []

    @nh.once
    async def pay() -> None:
        paid.append(1)

    async def program() -> None:
        await shout("a")
        monkeypatch.setattr(tables, "is_alive", lambda holder: False)  # as if its machine had stopped
        with opened(tmp_path) as other:
            await live(other, shouting(), lambda: shout("a"))
            records = len(other.records("run-1"))
            with pytest.raises(RunTakenOverError):
                await pay()
            assert len(other.records("run-1")) == records

    with opened(tmp_path) as store, pytest.raises(RunTakenOverError):
        await live(store, shouting(), program)
    assert not paid


async def test_a_step_is_seen_by_others_while_its_model_is_asked(tmp_path: Path) -> None:
    """Its record is written with the next one, but does not wait for that; the same store sees it at once."""
    seen: list[str] = []

    def answer(prompt: str, turn: int) -> ModelResponse:
        # This holds the event loop, so that nothing more is recorded meanwhile.
        with opened(tmp_path) as other:
            by_then = time.monotonic() + 30
            while len(places(other, "step")) == len(seen) and time.monotonic() < by_then:
                time.sleep(0.01)
            seen.append(places(other, "step")[-1])
        return assigning("loud", "word.upper()")

    async def program() -> None:
        for word in "ab":
            assert await shout(word) == word.upper()

    with opened(tmp_path) as store:
        await live(store, AnsweringModel(answer), program)
        assert seen == places(store, "step")
        assert len(seen) == 2
        looked: list[int] = []

        def look(prompt: str, turn: int) -> ModelResponse:
            looked.append(len(places(store, "step", run_id="run-2")))
            return assigning("loud", "word.upper()")

        await live(store, AnsweringModel(look), program, "run-2")
        assert looked == [1, 2]


def test_the_holder_of_a_lease_is_known_by_its_process() -> None:
    holder = process_name("x")
    assert is_alive(holder)
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert not is_alive(f"{process.pid}:1:x")
    assert not is_alive("")


def test_a_holder_on_another_machine_counts_as_alive() -> None:
    pid, started_at, token, _, _ = process_name("x").split(":")
    assert is_alive(f"{pid}:{started_at}:{token}:0123456789ab:localhost")
    assert is_alive("0:1:x:0123456789ab:localhost")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the state of a process is read from /proc")
def test_a_killed_process_that_nobody_has_waited_for_holds_no_lease() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    holder = process_name("x").replace(str(os.getpid()), str(process.pid), 1)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(holder)
    process.communicate()


def test_synchronous_programs_continue_as_well(tmp_path: Path) -> None:
    model = shouting()
    with opened(tmp_path) as store:
        for _ in range(2):
            with nh.run(nh.AgentStepExecutor.from_model(model), journal=store, run_id="run-1"):
                assert [shout_synchronously("a"), shout_synchronously("a")] == ["A", "A"]
        assert {record.place for record in store.records("run-1") if record.kind == "step"} == {
            f"run/shout_synchronously()[{number}]/shout_synchronously#1[0]" for number in (0, 1)
        }
    assert len(model.prompts) == 2


async def test_many_runs_share_a_store(tmp_path: Path) -> None:
    model = shouting()

    async def one(number: int) -> None:
        await live(store, model, lambda: shout("a"), f"run-{number}")

    with opened(tmp_path) as store:
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(one, number)
        assert len(store.runs()) == 20
        assert {row.status for row in store.runs()} == {"ended"}


async def test_a_closed_store_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        pass
    store.close()
    with pytest.raises(JournalStoreError, match="closed"):
        await live(store, shouting(), lambda: shout("a"))


async def test_tables_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert store.runs() == []
    is_file = durable_runs.server is None
    change_tables(
        tmp_path, "PRAGMA user_version = 99" if is_file else "UPDATE schema_version SET version = 99"
    )
    with opened(tmp_path) as store, pytest.raises(JournalStoreError, match="newer version"):
        await live(store, shouting(), lambda: shout("a"))


async def test_a_store_that_cannot_write_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = shouting()

    def fail(*arguments: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async def program() -> None:
        await shout("a")
        monkeypatch.setattr(tables, "append_records", fail)
        await shout("b")

    with opened(tmp_path) as store, pytest.raises(JournalStoreError, match="disk is full"):
        await live(store, model, program)
    monkeypatch.undo()
    with opened(tmp_path) as store:
        assert await live(store, model, lambda: shout("a")) == "A"
    assert len(model.prompts) == 2


async def test_a_store_continues_after_a_failure_with_other_runs_and_later_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = shouting()

    def fail(*arguments: object) -> None:
        raise OSError("no space")

    async def program() -> None:
        await shout("a")
        monkeypatch.setattr(tables, "append_records", fail)
        try:
            await shout("b")
        finally:
            monkeypatch.undo()
            await live(store, model, lambda: shout("a"), "run-2")

    with opened(tmp_path) as store:
        with pytest.raises(JournalStoreError, match="no space"):
            await live(store, model, program)
        assert [row.status for row in store.runs()] == ["failed", "ended"]
        assert await live(store, model, lambda: shout("a")) == "A"
    assert len(model.prompts) == 3


async def test_a_life_without_one_record_gets_no_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid: list[int] = []

    @nh.once
    async def pay() -> None:
        paid.append(1)

    def fail(*arguments: object) -> None:
        raise OSError("no space")

    async def program() -> None:
        await shout("a")
        monkeypatch.setattr(tables, "append_records", fail)
        with pytest.raises(JournalStoreError):
            await pay()
        monkeypatch.undo()
        with opened(tmp_path) as other, pytest.raises(RunInProgressError):  # until this life has ended
            await live(other, shouting(), lambda: shout("a"))
        await pay()

    with opened(tmp_path) as store, pytest.raises(JournalStoreError, match="no space"):
        await live(store, shouting(), program)
    assert not paid


async def test_what_no_database_stores_ends_its_run_alone(tmp_path: Path) -> None:
    model = shouting()

    async def program() -> None:
        await live(store, model, lambda: shout("a"), "run-2")
        nh.journal.patched("\0")
        await shout("b")

    async def failing() -> None:
        raise ValueError("\0\ud800")

    with opened(tmp_path) as store:
        with pytest.raises(nh.journal.JournalValueError, match="NUL"):
            await live(store, model, program)
        with pytest.raises(nh.journal.JournalValueError, match="NUL"):
            await live(store, model, program, "\ud800")
        with pytest.raises(ValueError, match="\0"):
            await live(store, model, failing, "run-3")
        assert {row.run_id: row.status for row in store.runs()} == {
            "run-1": "failed",
            "run-2": "ended",
            "run-3": "failed",
        }
        assert store.runs()[-1].error == "ValueError: ??"


async def test_places_may_be_long(tmp_path: Path) -> None:
    async def nested(names: list[str]) -> str:
        async def deeper() -> str:
            return await nested(names[1:])

        if not names:
            return await shout("a")
        async with nh.open_tasks() as tasks:
            return await tasks.start(deeper, name=names[0])

    names = [hashlib.sha256(bytes([number])).hexdigest() for number in range(60)]
    model = shouting()
    with opened(tmp_path) as store:
        for _ in range(2):
            assert await live(store, model, lambda: nested(names)) == "A"
        assert len(places(store, "response")[0]) > 3_000
    assert len(model.prompts) == 1


async def test_no_thread_is_left(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await live(store, shouting(), lambda: shout("a"))
        assert [thread for thread in threading.enumerate() if "journal" in thread.name]
    assert not [thread for thread in threading.enumerate() if "journal" in thread.name]


async def test_less_durable_runs_record_the_same(tmp_path: Path) -> None:
    model = shouting()
    with opened(tmp_path, durability="effect") as store:
        for _ in range(2):
            assert await live(store, model, lambda: shout("a")) == "A"
    assert len(model.prompts) == 1


async def test_a_cancelled_run_is_noted(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        with anyio.CancelScope() as scope:

            async def program() -> None:
                await shout("a")
                scope.cancel()
                await anyio.sleep_forever()

            await live(store, shouting(), program)
        assert store.runs()[0].status == "cancelled"
        assert await live(store, shouting(), lambda: shout("a")) == "A"


_FORK = """
import os, sys
import anyio
from tests.unit.journal.test_store import live, shout, shouting
import nighthawk_async as nh

with nh.journal.open(sys.argv[1]) as store:
    unused = nh.journal.open(sys.argv[1])
    assert anyio.run(live, store, shouting(), lambda: shout("a")) == "A"
    child = os.fork()
    if not child:
        try:
            anyio.run(live, store, shouting(), lambda: shout("a"))
        except nh.journal.JournalStoreError as error:
            print(error)
        print(anyio.run(live, unused, shouting(), lambda: shout("a"), "run-2"))
        store.close()
    else:
        assert os.waitpid(child, 0)[1] == 0
        print([row.status for row in store.runs()])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_opens_the_journal_again(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORK, f"sqlite:///{tmp_path}/runs.db"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert process.returncode == 0, process.stderr
    refused, result, statuses = process.stdout.splitlines()
    assert "was forked from process" in refused
    assert (result, statuses) == ("A", "['ended', 'ended']")
