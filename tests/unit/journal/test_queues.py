"""Queues: calls that are enqueued, who makes them and in what order, and their results."""

import sys
import types
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalAuditError, JournalError, JournalValueError
from tests.unit.journal import queue_jobs
from tests.unit.journal.durable_runs import shout, shout_synchronously  # as workers import them
from tests.unit.journal.queue_jobs import (
    Order,
    connect,
    fail,
    note,
    pass_gate,
    results,
    serving,
    ship,
    ship_all,
    status_of,
    worker_of,
)

from .durable_runs import change, change_tables, live, opened, query, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    queue_jobs.made.clear()
    queue_jobs.gates.clear()


async def test_a_worker_makes_the_calls_that_were_enqueued(tmp_path: Path) -> None:
    model = shouting()
    with opened(tmp_path) as store:
        run_ids = [
            await store.enqueue(shout, "a"),
            await store.enqueue(shout_synchronously, word="b"),
            await store.enqueue(ship, Order(1, ("lamp",)), to="Bob", key="order-1"),
            await store.enqueue(ship_all, Order(1, ()), Order(2, ()), more=3),
        ]
        assert run_ids[2] == "order-1"
        assert {entry.status for entry in store.queue_entries()} == {"queued"}
        worker = worker_of(store, shout, shout_synchronously, ship, ship_all, model=model)
        async with serving(worker):
            found = await results(store, run_ids)
        assert found == ["A", "B", Order(2, ("lamp", "Bob")), 6]
        assert {entry.status for entry in store.queue_entries()} == {"ended"}
        assert {run.status for run in store.runs()} == {"ended"}
        assert len(model.prompts) == 2
        state = worker.statistics()
        assert (state.claimed, state.ended, state.running, state.failed) == (4, 4, 0, 0)
    with opened(tmp_path) as store:
        assert await store.result("order-1") == found[2]


async def test_the_error_of_a_run_is_its_result(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.enqueue(fail, 7, key="run-7")
        async with serving(worker_of(store, fail)):
            for _ in range(2):
                with pytest.raises(LookupError) as caught:
                    await store.result("run-7")
        assert caught.value.args == ("no order", 7)
        assert queue_jobs.made == [7]
        (run,) = store.runs()
        assert (run.status, run.error) == ("failed", "LookupError: ('no order', 7)")
        await store.requeue("run-7")
        assert status_of(store, "run-7") == "queued"
        async with serving(worker_of(store, fail)):
            with pytest.raises(LookupError):
                await store.result("run-7")
        assert queue_jobs.made == [7, 7]
        with pytest.raises(JournalError, match="none of those"):
            await store.requeue("unknown")


async def test_the_same_call_is_enqueued_once(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        order = Order(1, ("lamp",))
        for _ in range(2):
            assert await store.enqueue(ship, order, key="order-1") == "order-1"
        with pytest.raises(nh.NighthawkError, match="other arguments"):
            await store.enqueue(ship, Order(2, ()), key="order-1")
        with pytest.raises(nh.NighthawkError, match="queue_jobs:ship, not"):
            await store.enqueue(note, 1, key="order-1")
        async with serving(worker_of(store, ship)):
            await store.result("order-1")
            assert await store.enqueue(ship, order, key="order-1") == "order-1"
        assert queue_jobs.made == [order]
        assert len(store.queue_entries()) == 1


async def test_a_run_enqueues_a_call_once_in_all_lives(tmp_path: Path) -> None:
    async def program() -> list[str]:
        return [await store.enqueue(note, number) for number in range(2)]

    with opened(tmp_path) as store:
        first = await live(store, shouting(), program)
        assert await live(store, shouting(), program) == first
        assert len(store.queue_entries()) == 2
        assert await live(store, shouting(), program, "run-2") != first


async def test_calls_are_made_by_priority_and_then_by_age(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        run_ids = [
            await store.enqueue(note, number, priority=priority)
            for number, priority in ((1, 0), (2, 0), (3, -5), (4, 9), (5, 0), (6, 9))
        ]
        async with serving(worker_of(store, note, max_concurrent=1)):
            await results(store, run_ids)
    assert queue_jobs.made == [4, 6, 1, 2, 5, 3]


async def test_a_call_waits_until_it_is_due(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        later = [
            await store.enqueue(note, 1, at=tomorrow),
            await store.enqueue(note, 2, delay=3_600),
            await store.enqueue(note, 3, delay=timedelta(days=30)),
        ]
        async with serving(worker_of(store, note)):
            await store.result(await store.enqueue(note, 4))
            assert queue_jobs.made == [4]
            for run_id in later:
                with pytest.raises(TimeoutError, match="within 0 seconds"):
                    await store.result(run_id, timeout=0)
            change_tables(tmp_path, "UPDATE queue_entries SET due_at = enqueued_at")
            assert await results(store, later) == [1, 2, 3]
        entries = {entry.run_id: entry for entry in store.queue_entries()}
        assert entries[later[1]].max_lives == 5


async def test_a_due_time_is_in_the_store(tmp_path: Path) -> None:
    at = datetime(2031, 5, 1, 12, tzinfo=UTC)
    with opened(tmp_path) as store:
        await store.enqueue(note, 1, at=at)
        (entry,) = store.queue_entries()
    assert entry.due_at == at.timestamp()


async def test_a_store_of_the_same_file_gets_what_another_one_has_enqueued(tmp_path: Path) -> None:
    with opened(tmp_path) as store, opened(tmp_path) as other:
        async with serving(worker_of(store, note, queue="numbers")):
            run_id = await other.enqueue(note, 1, queue="numbers")
            assert await other.result(run_id) == 1


async def test_two_workers_make_each_call_once(tmp_path: Path) -> None:
    with opened(tmp_path) as store, opened(tmp_path) as other:
        run_ids = [await store.enqueue(note, number) for number in range(50)]
        workers = worker_of(store, note, max_concurrent=3), worker_of(other, note, max_concurrent=3)
        async with serving(*workers):
            assert await results(store, run_ids) == list(range(50))
        assert sorted(queue_jobs.made) == list(range(50))
        assert sum(worker.statistics().claimed for worker in workers) == 50
        assert all(worker.statistics().lost == 0 for worker in workers)
        assert {run.lives for run in store.runs()} == {1}


async def test_no_more_runs_than_the_limit_are_in_progress(tmp_path: Path) -> None:
    names = ["a", "b", "c", "d"]
    queue_jobs.gates.update({name: anyio.Event() for name in names})
    with opened(tmp_path) as store:
        run_ids = [await store.enqueue(pass_gate, name) for name in names]
        worker = worker_of(store, pass_gate, max_concurrent=2)
        async with serving(worker):
            while len(queue_jobs.made) < 2:
                await anyio.lowlevel.checkpoint()
            queue_jobs.gates["b"].set()
            await store.result(run_ids[1])
            while len(queue_jobs.made) < 3:
                await anyio.lowlevel.checkpoint()
            assert worker.statistics().running == 2
            assert sorted(queue_jobs.made) == ["a", "b", "c"]  # Trio starts tasks in any order
            for gate in queue_jobs.gates.values():
                gate.set()
            await results(store, run_ids)


async def test_a_transient_error_of_a_model_is_repeated(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.enqueue(connect, key="a", max_lives=3)
        async with serving(worker_of(store, connect)) as _:
            while status_of(store, "a") != "ended":  # without the time between two lives
                change_tables(
                    tmp_path, "UPDATE queue_entries SET due_at = enqueued_at WHERE status = 'queued'"
                )
                await anyio.sleep(0.01)
            assert await store.result("a") == "connected"
        queue_jobs.made.clear()
        await store.enqueue(connect, key="b", max_lives=1)
        async with serving(worker_of(store, connect)):
            with pytest.raises(nh.errors.ModelConnectionError, match="no route"):
                await store.result("b")


async def test_calls_of_other_functions_stay_in_the_queue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as store:
        other = await store.enqueue(shout, "a", priority=5)
        async with serving(worker_of(store, note)):
            assert await store.result(await store.enqueue(note, 1)) == 1
        assert status_of(store, other) == "queued"
    lines = [record.getMessage() for record in caplog.records if "shout" in record.getMessage()]
    assert len(lines) == 1
    assert "tests.unit.journal.durable_runs:shout" in lines[0]


def _nested() -> Any:
    async def inner() -> None: ...

    return inner


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        pytest.param(lambda: None, "top level", id="lambda"),
        pytest.param(_nested(), "top level", id="inner function"),
        pytest.param(partial(note, 1), "no function", id="partial"),
        pytest.param(Path.exists, "top level", id="method"),
        pytest.param(Order, "no function", id="class"),
        pytest.param("shop:handle", "no function", id="text"),
    ],
)
async def test_a_function_that_no_worker_can_import_is_refused(
    tmp_path: Path, function: Any, reason: str
) -> None:
    with opened(tmp_path) as store:
        with pytest.raises(nh.NighthawkError, match=f"{reason}.* at the top level of a module"):
            await store.enqueue(function)
        with pytest.raises(nh.NighthawkError, match="cannot be called by a worker"):
            worker_of(store, function)


async def test_a_function_of_a_script_has_the_name_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", script)
    exec("class LampError(Exception): ...\nasync def light():\n    raise LampError('out')\n", vars(script))
    with opened(tmp_path) as store:
        with pytest.raises(nh.NighthawkError, match="interactive"):
            await store.enqueue(script.light)
        script.__file__ = str(tmp_path / "lamps.py")
        run_id = await store.enqueue(script.light)
        assert store.queue_entries()[0].function == "lamps:light"
        async with serving(worker_of(store, script.light)):
            with pytest.raises(script.LampError):
                await store.result(run_id)


async def test_arguments_that_cannot_be_stored_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        with pytest.raises(JournalValueError, match=r"the argument 'value' of .*queue_jobs:note"):
            await store.enqueue(note, object())
        with pytest.raises(JournalValueError, match="the argument 'to' of"):
            await store.enqueue(ship, Order(1, ()), to=object())
        with pytest.raises(TypeError, match="cannot be called so: missing a required"):
            await store.enqueue(ship)
        assert store.queue_entries() == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"queue": ""}, "queue"),
        ({"key": ""}, "key"),
        ({"priority": 1.5}, "priority"),
        ({"priority": 2**31}, "priority"),
        ({"max_lives": 0}, "max_lives"),
        ({"delay": -1}, "at least 0"),
        ({"delay": "soon"}, "number of seconds"),
        ({"at": datetime(2031, 5, 1)}, "time zone"),
        ({"at": datetime(2031, 5, 1, tzinfo=UTC), "delay": 1}, "not both"),
    ],
)
async def test_bad_options_are_refused(tmp_path: Path, options: Any, reason: str) -> None:
    with opened(tmp_path) as store, pytest.raises(nh.NighthawkError, match=reason):
        await store.enqueue(note, 1, **options)


async def test_a_result_needs_an_enqueued_run(tmp_path: Path) -> None:
    with opened(tmp_path) as store, pytest.raises(JournalError, match="no run 'a' was enqueued"):
        await store.result("a")


async def test_a_result_that_cannot_be_stored_is_the_error_of_the_run(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        run_id = await store.enqueue(opaque)
        async with serving(worker_of(store, opaque)):
            with pytest.raises(JournalValueError, match="object"):
                await store.result(run_id)


async def opaque() -> object:
    """Return what nobody can store."""
    return object()


async def test_a_worker_whose_runs_are_not_durable_ends(tmp_path: Path) -> None:
    executor = nh.AgentStepExecutor.from_model(shouting())
    with opened(tmp_path) as store:
        run_id = await store.enqueue(note, 1)
        worker = nh.journal.Worker(store, [note], run=lambda run_id: nh.run(executor, run_id=run_id))
        with anyio.fail_after(240), pytest.raises(nh.ConfigurationError, match="journal=store"):
            await worker.serve()
        assert status_of(store, run_id) == "queued"
        assert queue_jobs.made == []


async def test_bad_arguments_of_a_worker_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for functions, options in (
            ([], {}),
            ([note, note], {}),
            ([note], {"max_concurrent": 0}),
            ([note], {"queue": ""}),
            ([note], {"grace_seconds": -1}),
        ):
            with pytest.raises(nh.NighthawkError):
                worker_of(store, *functions, **options)
        worker = worker_of(store, note)
        async with serving(worker):
            with pytest.raises(nh.NighthawkError, match="serves already"):
                await worker.serve()
        with pytest.raises(nh.NighthawkError, match="was drained"):
            await worker.serve()


async def test_a_fork_of_a_run_of_a_queue_is_enqueued_by_its_id(tmp_path: Path) -> None:
    model = shouting()
    with opened(tmp_path) as store:
        await store.enqueue(shout_twice, "a", key="run-1")
        async with serving(worker_of(store, shout_twice, model=model)):
            assert await store.result("run-1") == "AA"
            fork = store.fork("run-1", at="run/shout()[1]")
            with pytest.raises(JournalError, match="no run"):
                await store.result(fork)
            assert await store.enqueue(shout_twice, "a", key=fork) == fork
            assert await store.result(fork) == "AA"
        assert len(model.prompts) == 3  # the first of the fork was recorded
        assert {run.run_id: run.status for run in store.runs()} == {"run-1": "ended", fork: "ended"}


async def shout_twice(word: str) -> str:
    """Shout a word two times."""
    return await shout(word) + await shout(word)


async def test_a_parked_run_whose_life_cannot_begin_does_not_count_as_parked_again(tmp_path: Path) -> None:
    with opened(tmp_path, audit_key=b"k" * 32) as store:
        await store.enqueue(shout_twice, "a", key="run-1")
        async with serving(worker_of(store, shout_twice)):
            await store.result("run-1")
        fork = store.fork("run-1", at="run/shout()[1]")
        await store.enqueue(shout_twice, "a", key=fork)
        ((key_name,),) = query(store, "SELECT audit_key FROM runs WHERE run_id = ?", fork)
        change(store, "UPDATE runs SET audit_key = 'other' WHERE run_id = ?", fork)
        async with serving(worker_of(store, shout_twice)):
            with pytest.raises(JournalAuditError, match="another audit key"):
                await store.result(fork)
        assert status_of(store, fork) == "failed"
        change(store, "UPDATE runs SET audit_key = ? WHERE run_id = ?", key_name, fork)
    with opened(tmp_path, audit_key=b"k" * 32) as store:
        await store.requeue(fork)
        async with serving(worker_of(store, shout_twice)):
            assert await store.result(fork) == "AA"
