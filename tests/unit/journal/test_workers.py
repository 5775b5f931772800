"""Workers that crash, hang, drain, and lose their store; and their health."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import RunStuckError, Worker, tables
from tests.unit.journal import queue_jobs
from tests.unit.journal.queue_jobs import (
    LEASE_SECONDS,
    note,
    pass_gate,
    serving,
    shout_and_pass_gate,
    status_of,
    work_and_wait,
    worker_of,
)
from tests.warm_python import WarmPopen

from .durable_runs import address_of, change_tables, opened, shouting, stop_between_transactions

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database", "warm_python")]


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    queue_jobs.made.clear()
    queue_jobs.gates.clear()


@contextmanager
def worker_process(backend: str, folder: Path) -> Iterator[WarmPopen]:
    """A worker of `work_and_wait` in a process of its own."""
    with WarmPopen(
        [sys.executable, "-m", "tests.unit.journal.queue_jobs", backend, address_of(folder)],
        cwd=Path(__file__).parents[3],
        env=dict(os.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line_with(lines: Iterable[str], text: str) -> str:
    """The first line that has a text; empty if there is none."""
    return next((line for line in lines if text in line), "")


async def made(number: int) -> None:
    """Wait until so many calls have begun."""
    with anyio.fail_after(240):
        while len(queue_jobs.made) < number:
            await anyio.lowlevel.checkpoint()


async def test_a_killed_worker_loses_its_run_to_another_one_that_asks_nothing_again(
    tmp_path: Path, anyio_backend_name: str
) -> None:
    model = shouting()
    with opened(tmp_path) as store:
        await store.enqueue(work_and_wait, str(tmp_path), key="run-1")
        with worker_process(anyio_backend_name, tmp_path) as process:
            assert await anyio.to_thread.run_sync(process.stdout.readline) == "A\n"
            async with serving(worker_of(store, work_and_wait, model=model)):
                assert status_of(store, "run-1") == "claimed"
                process.send_signal(signal.SIGKILL)
                await anyio.to_thread.run_sync(process.wait)
                assert await store.result("run-1") == "successor"
        (entry,) = store.queue_entries()
        assert (entry.lives, store.runs()[0].lives) == (2, 2)
    assert not model.prompts
    assert (tmp_path / "paid.txt").read_text() == "successor\n"


async def test_a_worker_that_was_stopped_beyond_its_lease_has_lost_its_run(
    tmp_path: Path, anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "LEASE_SECONDS", LEASE_SECONDS)
    model = shouting()
    with opened(tmp_path) as store:
        await store.enqueue(work_and_wait, str(tmp_path), key="run-1")
        with worker_process(anyio_backend_name, tmp_path) as process:
            assert await anyio.to_thread.run_sync(process.stdout.readline) == "A\n"
            await stop_between_transactions(process, address_of(tmp_path))
            async with serving(worker_of(store, work_and_wait, model=model)):
                assert await store.result("run-1") == "successor"
            entries, records = store.queue_entries(), store.records("run-1")
            process.send_signal(signal.SIGCONT)
            await anyio.to_thread.run_sync(lambda: print("go on", file=process.stdin, flush=True))
            # PostgreSQL ends the connection of a process that was stopped within a transaction.
            assert await anyio.to_thread.run_sync(
                line_with, process.stderr, "queue_jobs:work_and_wait: lost: "
            )
        assert (store.queue_entries(), store.records("run-1")) == (entries, records)
    assert not model.prompts
    assert (tmp_path / "paid.txt").read_text() == "successor\n"


def crash(folder: Path, *, lives: int) -> None:
    """Leave an entry as a worker leaves it that crashed in its last life so far."""
    change_tables(folder, f"UPDATE queue_entries SET status = 'claimed', holder = 'gone', lives = {lives}")


async def test_a_run_whose_lives_crash_is_stuck_in_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as store:
        await store.enqueue(note, 1, key="a", max_lives=2)
        crash(tmp_path, lives=2)
        async with serving(worker_of(store, note)):
            with pytest.raises(RunStuckError, match="2 lives in a row"):
                await store.result("a")
            assert status_of(store, "a") == "stuck"
            (run,) = store.runs()
            assert run.status == "stuck"
            assert "crashed or hung" in run.error
            assert queue_jobs.made == []
            await store.requeue("a")
            assert await store.result("a") == 1
        assert store.runs()[0].status == "ended"
        assert "run a is stuck" in caplog.text
        await store.enqueue(note, 2, key="b", max_lives=2)
        change_tables(
            tmp_path,
            "UPDATE queue_entries SET status = 'claimed', holder = 'gone', lives = 1 WHERE run_id = 'b'",
        )
        async with serving(worker_of(store, note)):
            assert await store.result("b") == 2


async def test_a_worker_that_drains_ends_its_runs_and_claims_no_more(tmp_path: Path) -> None:
    queue_jobs.gates["a"] = anyio.Event()
    with opened(tmp_path) as store:
        first = await store.enqueue(pass_gate, "a")
        worker = worker_of(store, pass_gate)
        async with anyio.create_task_group() as group:
            await group.start(worker.serve)
            await made(1)
            worker.drain()
            second = await store.enqueue(pass_gate, "a")
            queue_jobs.gates["a"].set()
        assert await store.result(first, timeout=0) == "a"
        assert status_of(store, second) == "queued"
        assert worker.statistics().is_draining


async def test_runs_that_exceed_the_grace_time_go_back_into_the_queue(tmp_path: Path) -> None:
    queue_jobs.gates["a"] = anyio.Event()
    model = shouting()
    with opened(tmp_path) as store:
        run_id = await store.enqueue(shout_and_pass_gate, "a")
        worker = worker_of(store, shout_and_pass_gate, model=model, grace_seconds=0)
        async with anyio.create_task_group() as group:
            await group.start(worker.serve)
            await made(1)
            worker.drain()
        (entry,) = store.queue_entries()
        assert (entry.status, entry.lives) == ("queued", 0)
        assert store.runs()[0].status == "cancelled"
        assert worker.statistics().returned == 1
        queue_jobs.gates["a"].set()
        async with serving(worker_of(store, shout_and_pass_gate, model=model)):
            assert await store.result(run_id) == "A"
    assert len(model.prompts) == 1


async def test_a_cancelled_worker_gives_its_runs_back(tmp_path: Path) -> None:
    queue_jobs.gates["a"] = anyio.Event()
    with opened(tmp_path) as store:
        run_ids = [await store.enqueue(pass_gate, "a") for _ in range(3)]
        async with anyio.create_task_group() as group:
            await group.start(worker_of(store, pass_gate).serve)
            await made(3)
            group.cancel_scope.cancel()
        assert {status_of(store, run_id) for run_id in run_ids} == {"queued"}


async def test_a_run_that_is_in_progress_elsewhere_stays_in_the_queue(tmp_path: Path) -> None:
    executor = nh.AgentStepExecutor.from_model(shouting())
    with opened(tmp_path) as store:
        await store.enqueue(note, 1, key="a")
        worker = worker_of(store, note)
        async with serving(worker):
            async with nh.run(executor, journal=store, run_id="b"):
                await store.enqueue(note, 2, key="b")
                assert await store.result("a") == 1
                while not worker.statistics().returned:
                    await anyio.lowlevel.checkpoint()
            change_tables(tmp_path, "UPDATE queue_entries SET due_at = 0 WHERE status = 'queued'")
            assert await store.result("b") == 2
        assert {entry.lives for entry in store.queue_entries()} == {1}


async def health_of(worker: Worker, path: str = "/health") -> httpx.Response:
    """The answer of the application of a worker."""
    transport = httpx.ASGITransport(app=worker.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://worker") as client:
        return await client.get(path)


async def test_the_health_and_the_metrics_of_a_worker(tmp_path: Path) -> None:
    queue_jobs.gates["a"] = anyio.Event()
    with opened(tmp_path) as store:
        await store.enqueue(pass_gate, "a", queue='"q"')
        worker = worker_of(store, pass_gate, queue='"q"')
        assert (await health_of(worker)).json()["polled_at"] is None
        async with serving(worker):
            await made(1)
            await store.enqueue(pass_gate, "a", queue='"q"', delay=3_600)
            response = await health_of(worker)
            assert response.status_code == 200
            health = response.json()
            polled_at = health.pop("polled_at")
            assert polled_at > 0
            assert health == {
                "status": "ok",
                "queue": '"q"',
                "claimed": 1,
                "running": 1,
                "parked": 0,
                "entries": {"queued": 1, "claimed": 1, "parked": 0, "stuck": 0},
                "suspects": 0,
                "is_store_reachable": True,
            }
            lines = (await health_of(worker, "/metrics")).text.splitlines()
            assert "# TYPE nighthawk_worker_claimed_total counter" in lines
            assert 'nighthawk_worker_claimed_total{queue="\\"q\\""} 1' in lines
            assert 'nighthawk_worker_lives_total{queue="\\"q\\"",end="ended"} 0' in lines
            assert 'nighthawk_queue_entries{queue="\\"q\\"",status="queued"} 1' in lines
            assert 'nighthawk_worker_store_reachable{queue="\\"q\\""} 1' in lines
            assert (await health_of(worker, "/")).status_code == 404
            worker.drain()
            draining = await health_of(worker)
            assert (draining.status_code, draining.json()["status"]) == (503, "draining")
            queue_jobs.gates["a"].set()


async def test_a_worker_outlives_a_store_that_goes_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue_jobs.gates["a"] = anyio.Event()
    with opened(tmp_path) as store:
        run_id = await store.enqueue(pass_gate, "a")
        worker = worker_of(store, pass_gate)
        async with serving(worker):
            await made(1)
            change_tables(tmp_path, "ALTER TABLE queue_entries RENAME TO away")
            while worker.statistics().is_store_reachable:
                await anyio.lowlevel.checkpoint()
            queue_jobs.gates["a"].set()
            response = await health_of(worker)
            assert (response.status_code, response.json()["status"]) == (503, "store unreachable")
            assert response.json()["entries"] is None
            change_tables(tmp_path, "ALTER TABLE away RENAME TO queue_entries")
            assert await store.result(run_id) == "a"
            assert worker.statistics().is_store_reachable
    assert sum("cannot be used, it is tried again" in each.message for each in caplog.records) == 1


class ParkingRun:
    """A run that parks where its program raises `ParkError`.

    Args:
        run: The run.
        folder: The folder of the store.
    """

    def __init__(self, run: Any, folder: Path) -> None:
        self._run = run
        self._folder = folder

    async def __aenter__(self) -> None:
        await self._run.__aenter__()

    async def __aexit__(self, exc_type: Any, exc: BaseException | None, traceback: Any) -> None:
        await self._run.__aexit__(exc_type, exc, traceback)
        if isinstance(exc, queue_jobs.ParkError):
            change_tables(self._folder, "UPDATE runs SET status = 'parked', wakes_at = NULL")


async def test_a_parked_run_is_left_alone_until_a_message_wakes_it(tmp_path: Path) -> None:
    executor = nh.AgentStepExecutor.from_model(shouting())
    with opened(tmp_path) as store:

        def make_run(run_id: str) -> ParkingRun:
            return ParkingRun(nh.run(executor, journal=store, run_id=run_id), tmp_path)

        run_id = await store.enqueue(queue_jobs.wait_for_reply)
        worker = Worker(store, [queue_jobs.wait_for_reply, note], run=make_run)
        async with serving(worker):
            while not worker.statistics().parked:
                await anyio.lowlevel.checkpoint()
            assert status_of(store, run_id) == "parked"
            assert store.runs()[0].status == "parked"
            assert (await health_of(worker)).json()["parked"] == 1
            assert await store.result(await store.enqueue(note, 1)) == 1
            assert status_of(store, run_id) == "parked"
            await store.send(run_id, "reply", "hello")
            assert await store.result(run_id) == "hello"
        assert worker.statistics().parked == 1


async def test_a_message_makes_a_parked_run_due(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        epoch, _ = await store.thread.claim("a").wait()
        await store.thread.end("a", epoch, "parked", "").wait()
        await store.send("unknown", "reply", 1)
        assert store.runs()[0].wakes_at is None
        await store.send("a", "reply", 1)
        assert store.runs()[0].wakes_at is not None
