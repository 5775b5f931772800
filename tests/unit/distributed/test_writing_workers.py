"""Workers that append to the store of a run themselves: who may, and in which order."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.distributed import Processes, Workers
from nighthawk_async.distributed.journal_messages import Append, decode_report
from nighthawk_async.distributed.messages import Tell, decode_from_worker
from nighthawk_async.journal import JournalStore, JournalStoreError, RunTakenOverError, tables
from nighthawk_async.kernel.run import Run
from tests import durable_worker_functions as functions
from tests.durable_worker_functions import NotingModel, effects_in
from tests.in_memory_workers import InMemoryLink, InMemoryWorkers
from tests.unit.journal.durable_runs import change, opened, query
from tests.unit.journal.postgresql_server import PostgresqlServer

pytestmark = pytest.mark.anyio

ITEMS = tuple("abcdefgh")


@pytest.fixture(autouse=True)
def address(postgresql: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of the store, which workers have in their environment."""
    url = postgresql.address_of(tmp_path)
    monkeypatch.setenv("NIGHTHAWK_JOURNAL", url)
    return url


def run_in(folder: Path, store: JournalStore, run_id: str = "run-1") -> Run:
    """The run."""
    executor = nh.AgentStepExecutor.from_model(NotingModel(str(folder)))
    return nh.run(executor, journal=store, run_id=run_id)


def appended_by_program(workers: InMemoryWorkers) -> int:
    """The number of records that workers have sent to the program."""
    reports = [decode_report(each.body) for each in workers.told if each.topic == "journal"]
    return sum(len(report.records) for report in reports if isinstance(report, Append))


async def eventually(path: Path) -> None:
    """Wait for what a worker does."""
    with anyio.fail_after(240):
        while not await anyio.Path(path).exists():  # noqa: ASYNC110
            await anyio.sleep(0.001)


async def result_in(store: JournalStore) -> None:
    """Wait for the record of a result."""
    with anyio.fail_after(240):
        while all(record.kind != "result" for record in store.records("run-1")):  # noqa: ASYNC110
            await anyio.sleep(0.001)


@contextmanager
def held(store: JournalStore) -> Iterator[None]:
    """Keep the thread of a store from its work meanwhile."""
    begun, released = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        released.wait(30)

    done = store.thread.perform(hold)
    begun.wait(30)
    try:
        yield
    finally:
        released.set()
        done.wait_in_thread()


def jobs_in(folder: Path, *items: str) -> list[tuple[str, str]]:
    """Jobs for functions."""
    return [(str(folder), item) for item in items or ITEMS]


async def test_workers_append_at_the_same_time_and_the_records_are_one_chain(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        async with InMemoryWorkers(2) as workers, run_in(tmp_path, store):
            result = await parallel.map(functions.handle, jobs_in(tmp_path), on=workers)
            assert len(query(store, "SELECT writer FROM run_writers")) == 2
        records = store.records("run-1")
        assert appended_by_program(workers) == 0
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        assert len(records) > len(ITEMS) * 8
        assert [each.records for each in store.verify()] == [len(records)]
        assert query(store, "SELECT writer FROM run_writers") == []
        assert len(list(store.export("run-1"))) == len(records)
        effects = effects_in(tmp_path)
        async with run_in(tmp_path, store):
            assert await parallel.map(functions.handle, jobs_in(tmp_path)) == result
        assert effects_in(tmp_path) == effects


async def test_a_lost_worker_that_goes_on_records_nothing_more(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        async with InMemoryWorkers(1) as workers, anyio.create_task_group() as group:

            async def lose() -> None:
                await eventually(tmp_path / "waiting")
                await result_in(store)
                workers.links["worker-0"].kill()

            group.start_soon(lose)
            async with run_in(tmp_path, store):
                job = jobs_in(tmp_path, "a")
                assert await parallel.map(functions.stamp_late, job, on=workers) == ["a later"]
                (tmp_path / "go").touch()
                await eventually(tmp_path / "refused")
        assert (tmp_path / "refused").read_text() == RunTakenOverError.__name__
        assert effects_in(tmp_path) == ["stamped a", "stamped a later"]
        assert store.verify()


async def test_workers_of_a_run_that_was_taken_over_record_nothing_more(tmp_path: Path) -> None:
    async def take_over(store: JournalStore) -> None:
        await eventually(tmp_path / "waiting")
        change(store, "UPDATE runs SET epoch = epoch + 1")
        (tmp_path / "go").touch()

    async def live(store: JournalStore) -> None:
        async with InMemoryWorkers(1) as workers, anyio.create_task_group() as group:
            group.start_soon(take_over, store)
            async with run_in(tmp_path, store):
                await parallel.map(functions.charge_twice, jobs_in(tmp_path, "a"), on=workers)

    with opened(tmp_path) as store:
        with pytest.RaisesGroup(RunTakenOverError):
            await live(store)
        assert effects_in(tmp_path) == ["charged a"]


async def test_processes_inherit_the_address_and_another_one_finds_what_a_lost_one_has_recorded(
    tmp_path: Path,
) -> None:
    job = jobs_in(tmp_path, "a")
    with opened(tmp_path) as store:
        async with Processes(1, max_concurrent_per_worker=1) as workers, run_in(tmp_path, store):
            result = await parallel.map(functions.charge_then_end_process_once, job, on=workers)
            assert len(query(store, "SELECT writer FROM run_writers")) == 1, "the lost one was dismissed"
        assert effects_in(tmp_path) == ["charged a", "charged a again"]
        async with run_in(tmp_path, store):
            assert await parallel.map(functions.charge_then_end_process_once, job) == result
        assert store.verify()
    assert len(effects_in(tmp_path)) == 2


async def test_nothing_begins_on_a_worker_before_what_the_program_has_recorded_is_durable(
    tmp_path: Path,
) -> None:
    async def call(workers: Workers) -> None:
        nh.journal.random()
        await parallel.call_placed(workers, functions.charge, str(tmp_path), "a")

    with opened(tmp_path) as store:
        async with InMemoryWorkers(1) as workers, run_in(tmp_path, store):
            await parallel.call_placed(workers, functions.charge, str(tmp_path), "first")
            async with anyio.create_task_group() as group:
                with held(store):
                    group.start_soon(call, workers)
                    await anyio.wait_all_tasks_blocked()
                    assert effects_in(tmp_path) == ["charged first"]
        kinds = [(each.kind, each.place.rpartition("/")[2]) for each in store.records("run-1")]
    assert effects_in(tmp_path) == ["charged a", "charged first"]
    assert [kind for kind, _ in kinds][-4:-1] == ["value", "intent", "result"]


@pytest.mark.parametrize("is_lost", [False, True])
async def test_nothing_is_recorded_before_the_program_has_what_was_consumed_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    received, gate = InMemoryLink.receive, anyio.Event()
    told = 0
    recorded: list[str] = []

    async def receive_slowly(self: InMemoryLink) -> bytes:
        nonlocal told
        body = await received(self)
        message = decode_from_worker(body)
        if isinstance(message, Tell) and message.topic == "usage":
            told += 1
            if told > 1:  # after the step, that of its request
                await gate.wait()
        return body

    async def release(store: JournalStore, workers: InMemoryWorkers) -> None:
        while told < 2:  # noqa: ASYNC110
            await anyio.sleep(0.001)
        writing = workers.links["worker-0"].worker.store
        assert writing is not None
        for _ in range(5):  # records that a task may wait for
            await anyio.wait_all_tasks_blocked()
            await writing._opened().perform(lambda: None).wait()
        recorded.extend(each.kind for each in store.records("run-1"))
        if is_lost:
            workers.lose("worker-0")
        gate.set()

    monkeypatch.setattr(InMemoryLink, "receive", receive_slowly)
    with opened(tmp_path) as store:
        async with (
            InMemoryWorkers(1) as workers,
            run_in(tmp_path, store) as run,
            anyio.create_task_group() as group,
        ):
            group.start_soon(release, store, workers)
            await parallel.map(functions.handle, jobs_in(tmp_path, "a"), on=workers)
        assert appended_by_program(workers) == 0
        assert [each.kind for each in store.records("run-1")].count("intent") == 3
    assert recorded.count("intent") == 1, "the one before the step"
    assert run.usage_meter.usage.requests >= 1
    assert effects_in(tmp_path) == ["asked", "charged a", "charged a again", "read a"]


async def test_a_call_is_cancelled_when_what_the_program_has_recorded_before_is_durable(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as store:
        async with InMemoryWorkers(1) as workers, run_in(tmp_path, store):
            async with anyio.create_task_group() as group:
                group.start_soon(
                    parallel.call_placed, workers, functions.charge_then_wait, jobs_in(tmp_path, "a")[0]
                )
                await eventually(tmp_path / "waiting")
                with held(store):
                    nh.journal.random()
                    group.cancel_scope.cancel()
                    with anyio.CancelScope(shield=True):
                        for _ in range(100):
                            await checkpoint()
                        (call,) = workers.links["worker-0"].worker._calls.values()
                        assert not call.scope.cancel_called
            assert not workers.links["worker-0"].worker.has_durable_calls
    assert effects_in(tmp_path) == ["charged a"]


@pytest.mark.parametrize(("problem", "lines"), [("another store", 2), ("no server", 1), ("no address", 1)])
async def test_a_worker_that_does_not_reach_the_store_sends_its_records_to_the_program(
    tmp_path: Path,
    postgresql: PostgresqlServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    problem: str,
    lines: int,
) -> None:
    url = {
        "another store": postgresql.address_of(tmp_path / "other"),
        "no server": f"postgresql://user:secret@/runs?host={tmp_path}",
        "no address": "postgresql://user:secret@host:no-port/runs",
    }[problem]
    monkeypatch.setenv("NIGHTHAWK_JOURNAL", url)
    caplog.set_level(logging.WARNING, "nighthawk")
    with opened(tmp_path) as store:
        async with InMemoryWorkers(1) as workers:
            for run_id in ("run-1", "run-2"):
                async with run_in(tmp_path, store, run_id):
                    await parallel.map(functions.handle, jobs_in(tmp_path), on=workers)
        assert appended_by_program(workers) > 2 * len(ITEMS) * 8
        assert len(store.verify()) == 2
    messages = [each.getMessage() for each in caplog.records]
    assert len(messages) == lines
    assert "the worker cannot append to the store of NIGHTHAWK_JOURNAL itself" in messages[0]
    assert "secret" not in messages[0]


@pytest.mark.parametrize("options", [{"keys": {"first": b"k" * 32}}, {"audit_key": b"a" * 32}], ids=str)
async def test_stores_with_keys_are_appended_to_by_the_program_alone(
    tmp_path: Path, options: dict[str, object]
) -> None:
    with opened(tmp_path, **options) as store:
        async with InMemoryWorkers(1) as workers, run_in(tmp_path, store):
            await parallel.map(functions.handle, jobs_in(tmp_path, "a"), on=workers)
        assert appended_by_program(workers) > 8
        assert store.verify()


async def test_a_store_that_fails_on_a_worker_ends_what_the_run_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    appended = tables.append_as_writer

    def append_or_fail(*arguments: object) -> float:
        if (tmp_path / "go").exists():
            raise ConnectionError("the connection was closed")
        return appended(*arguments)  # type: ignore[arg-type]

    async def go(store: JournalStore) -> None:
        await result_in(store)
        (tmp_path / "go").touch()

    async def live(store: JournalStore) -> None:
        async with InMemoryWorkers(1) as workers, anyio.create_task_group() as group:
            group.start_soon(go, store)
            async with run_in(tmp_path, store):
                job = jobs_in(tmp_path, "a")
                with pytest.raises(JournalStoreError):
                    await parallel.map(functions.charge_twice, job, on=workers)
                await functions.charge(str(tmp_path), "by the program")

    monkeypatch.setattr(tables, "append_as_writer", append_or_fail)
    with opened(tmp_path) as store:
        with pytest.RaisesGroup(pytest.RaisesExc(JournalStoreError, match="the connection was closed")):
            await live(store)
        assert effects_in(tmp_path) == ["charged a"]
        monkeypatch.undo()
        async with run_in(tmp_path, store):
            assert await parallel.map(functions.charge_twice, jobs_in(tmp_path, "a"))
    assert effects_in(tmp_path) == ["charged a", "charged a again"]
