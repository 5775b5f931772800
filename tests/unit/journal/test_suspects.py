"""Calls of queues that may have ended their processes: they run alone, and only losses there count."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec
import pytest

from nighthawk_async.journal import JournalError, JournalStore, RunStuckError, queue_suspects, tables
from nighthawk_async.journal.claim_turns import ClaimTurns
from nighthawk_async.journal.process_calls import note_calls
from nighthawk_async.journal.queue_claims import ClaimedEntry
from nighthawk_async.journal.queued_life import interrupted
from nighthawk_async.journal.values import DEFAULT_RULES
from tests.unit.journal import poison_jobs, queue_jobs
from tests.unit.journal.poison_jobs import WAYS_TO_END, end_process, outlast_poison
from tests.unit.journal.queue_jobs import note, pass_gate, results, serving, status_of, worker_of
from tests.warm_python import WarmPopen

from .durable_runs import address_of, change, opened

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database", "warm_python")]

_together: list[set[str]] = []
_running: set[str] = set()


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    queue_jobs.made.clear()
    queue_jobs.gates.clear()
    _together.clear()
    _running.clear()


async def meet(name: str) -> str:
    """Note who runs at the same time."""
    _running.add(name)
    for _ in range(20):
        _together.append(set(_running))
        await anyio.lowlevel.checkpoint()
    _running.discard(name)
    return name


def lose(store: JournalStore, *run_ids: str, has_company: bool, lives: int = 1) -> None:
    """Leave entries as a worker leaves them that was lost."""
    marks = ", ".join("?" * len(run_ids))
    change(
        store,
        "UPDATE queue_entries SET status = 'claimed', holder = 'gone', leased_until = 0, claim = claim + 1, "
        f"has_company = ?, lives = lives + ? WHERE run_id IN ({marks})",
        *(int(has_company), lives, *run_ids),
    )


async def take_over(store: JournalStore, *functions: Callable[..., Any]) -> None:
    """Have a worker look into the queue that claims nothing there."""
    async with serving(worker_of(store, *functions or (note,))):
        pass


def figures(store: JournalStore) -> dict[str, tuple[str, int, int, int]]:
    """The status, the lives and the losses of all entries."""
    return {
        each.run_id: (each.status, each.lives, each.losses, each.losses_alone)
        for each in store.queue_entries()
    }


async def test_lives_that_were_lost_together_make_nothing_stuck(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    with opened(tmp_path) as store:
        for name in names:
            await store.enqueue(meet, name, key=name, max_lives=1)
        for number in range(1, 8):
            lose(store, *names, has_company=True)
            await take_over(store)
            assert figures(store) == dict.fromkeys(names, ("queued", 0, number, 0))
        async with serving(worker_of(store, meet)):
            assert await results(store, names) == names
    assert all(len(each) == 1 for each in _together)  # one after the other


async def test_calls_that_were_lost_once_run_together_again(tmp_path: Path) -> None:
    queue_jobs.gates.update(a=anyio.Event(), b=anyio.Event())
    with opened(tmp_path) as store:
        for name in ("a", "b"):
            await store.enqueue(pass_gate, name, key=name)
        lose(store, "a", "b", has_company=True)
        async with serving(worker_of(store, pass_gate)):
            await _begun("a", "b")
            assert not any(each.is_suspect for each in store.queue_entries())
            for gate in queue_jobs.gates.values():
                gate.set()


async def test_only_losses_alone_make_a_call_stuck_and_requeue_forgets_them(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.enqueue(meet, "a", key="a", max_lives=2)
        for _ in range(2):
            lose(store, "a", has_company=True)
            await take_over(store)
        lose(store, "a", has_company=False)
        await take_over(store)
        assert figures(store)["a"] == ("queued", 1, 3, 1)
        assert store.queue_entries()[0].is_suspect
        lose(store, "a", has_company=False)
        await take_over(store)
        assert figures(store)["a"] == ("stuck", 2, 4, 2)
        with pytest.raises(
            RunStuckError, match="2 times, its process crashed or hung while it ran there alone"
        ):
            await store.result("a")
        assert "2 times, its process" in store.runs()[0].error
        await store.requeue("a")
        assert figures(store)["a"] == ("queued", 0, 0, 0)
        async with serving(worker_of(store, meet)):
            assert await store.result("a") == "a"


async def test_a_call_beside_others_is_lost_with_company_and_one_alone_is_not(tmp_path: Path) -> None:
    queue_jobs.gates.update(a=anyio.Event(), b=anyio.Event())
    with opened(tmp_path) as store:
        await store.enqueue(pass_gate, "a", key="a")
        async with serving(worker_of(store, pass_gate)):
            await _begun("a")
            assert _company(store) == {"a": 0}
            await store.enqueue(pass_gate, "b", key="b")
            await _begun("a", "b")
            assert _company(store) == {"a": 1, "b": 1}
            for gate in queue_jobs.gates.values():
                gate.set()


async def test_workers_of_one_process_know_of_each_other(tmp_path: Path) -> None:
    queue_jobs.gates.update(a=anyio.Event(), b=anyio.Event())
    with opened(tmp_path) as store:
        await store.enqueue(pass_gate, "a", key="a", queue="one")
        await store.enqueue(pass_gate, "b", key="b", queue="two")
        async with serving(
            worker_of(store, pass_gate, queue="one"), worker_of(store, pass_gate, queue="two")
        ):
            await _begun("a", "b")
            with anyio.fail_after(240):
                while _company(store) != {"a": 1, "b": 1}:
                    await anyio.lowlevel.checkpoint()
            for gate in queue_jobs.gates.values():
                gate.set()


async def _begun(*names: str) -> None:
    with anyio.fail_after(240):
        while set(queue_jobs.made) < set(names):
            await anyio.lowlevel.checkpoint()


def _company(store: JournalStore) -> dict[str, int]:
    read = "SELECT run_id, has_company FROM queue_entries"
    rows = store.thread.perform(lambda: store.thread.opened().query(read)).wait_in_thread()
    return dict(rows)


async def test_a_suspect_and_other_calls_take_turns(tmp_path: Path) -> None:
    healthy, suspects = [f"healthy {number}" for number in range(6)], ["suspect 1", "suspect 2"]
    with opened(tmp_path) as store:
        for name in (*healthy, *suspects):
            await store.enqueue(meet, name, key=name)
        change(store, "UPDATE queue_entries SET losses = 2 WHERE run_id IN ('suspect 1', 'suspect 2')")
        async with serving(
            worker_of(store, meet, max_concurrent=2), worker_of(store, meet, max_concurrent=2)
        ):
            assert await results(store, [*healthy, *suspects]) == [*healthy, *suspects]
    for each in _together:
        assert len(each) == 1 or not each.intersection(suspects)


async def test_workers_that_look_at_the_same_moment_take_turns(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for name in ("suspect", "healthy"):
            await store.enqueue(meet, name, key=name)
        change(store, "UPDATE queue_entries SET losses = 2 WHERE run_id = 'suspect'")
        workers = [worker_of(store, meet) for _ in range(2)]
        async with anyio.create_task_group() as group:
            for each in workers:  # the second looks before the first one knows what it has
                group.start_soon(each._claim, 2)
        claimed = [run_id for each in workers for run_id in each._claims]
        assert len(claimed) == 1
        for each in workers:
            note_calls(each._holder, 0, is_alone=False)  # one may wait for its suspect


async def test_workers_of_two_stores_claim_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside: list[ClaimTurns] = []
    most = 0
    claim = ClaimTurns.claim

    def claim_slowly(self: ClaimTurns, *args: Any) -> Any:
        nonlocal most
        inside.append(self)
        most = max(most, len(inside))
        time.sleep(0.05)  # in which the thread of the other store would claim, too
        try:
            return claim(self, *args)
        finally:
            inside.remove(self)

    monkeypatch.setattr(ClaimTurns, "claim", claim_slowly)
    folders = [tmp_path / name for name in ("suspect", "healthy")]
    for each in folders:
        each.mkdir()
    with opened(folders[0]) as store, opened(folders[1]) as other:
        workers = [worker_of(each, meet) for each in (store, other)]
        for each, folder in zip((store, other), folders, strict=True):
            await each.enqueue(meet, folder.name, key=folder.name)
        change(store, "UPDATE queue_entries SET losses = 2 WHERE run_id = 'suspect'")
        async with anyio.create_task_group() as group:
            for worker in workers:
                group.start_soon(worker._claim, 2)
        assert most == 1
        assert len([run_id for each in workers for run_id in each._claims]) == 1
        for worker in workers:
            note_calls(worker._holder, 0, is_alone=False)  # one may wait for its suspect


async def test_a_busy_worker_claims_no_more_until_a_suspect_has_run(tmp_path: Path) -> None:
    queue_jobs.gates.update(long=anyio.Event())
    with opened(tmp_path) as store:
        await store.enqueue(pass_gate, "long", key="long")
        worker = worker_of(store, pass_gate, meet)
        async with serving(worker):
            await _begun("long")
            await store.enqueue(meet, "suspect", key="suspect", delay=3_600)
            change(store, "UPDATE queue_entries SET losses = 2, due_at = 0 WHERE run_id = 'suspect'")
            with anyio.fail_after(240):
                while not _holder(store, "suspect"):
                    await anyio.lowlevel.checkpoint()
            await store.enqueue(meet, "healthy", key="healthy")
            polled_at = worker.statistics().polled_at
            with anyio.fail_after(240):
                while worker.statistics().polled_at == polled_at:
                    await anyio.lowlevel.checkpoint()
            assert [status_of(store, name) for name in ("suspect", "healthy")] == ["queued", "queued"]
            queue_jobs.gates["long"].set()
            assert await results(store, ["suspect", "healthy"]) == ["suspect", "healthy"]
    assert {"suspect", "healthy"} not in _together


def _holder(store: JournalStore, run_id: str) -> str:
    read = "SELECT holder FROM queue_entries WHERE run_id = ?"
    rows = store.thread.perform(lambda: store.thread.opened().query(read, run_id)).wait_in_thread()
    return rows[0][0]


async def test_neither_a_long_call_nor_a_long_suspect_holds_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_jobs.gates.update(long=anyio.Event(), suspect=anyio.Event())
    with opened(tmp_path) as store:
        await store.enqueue(pass_gate, "suspect", key="suspect")
        change(store, "UPDATE queue_entries SET losses = 2")
        monkeypatch.setattr(tables, "LEASE_SECONDS", 0.5)
        async with serving(worker_of(store, pass_gate, meet)):
            await _begun("suspect")
            await store.enqueue(meet, "healthy 1", key="healthy 1")
            assert await store.result("healthy 1") == "healthy 1"  # beside the suspect, after a while
            await store.enqueue(pass_gate, "long", key="long")
            await _begun("suspect", "long")
            queue_jobs.gates["suspect"].set()
            await store.result("suspect")
            await store.enqueue(meet, "other", key="other", delay=3_600)
            change(store, "UPDATE queue_entries SET losses = 2, due_at = 0 WHERE run_id = 'other'")
            await store.enqueue(meet, "healthy 2", key="healthy 2")
            assert await store.result("healthy 2") == "healthy 2"
            queue_jobs.gates["long"].set()
            assert await store.result("other") == "other"


@pytest.mark.parametrize("way", ["exit", "segfault"])
async def test_a_job_that_ends_its_process_gets_stuck_alone(
    tmp_path: Path, anyio_backend_name: str, way: str
) -> None:
    assert way in WAYS_TO_END
    healthy = ["a", "b", "c"]
    with opened(tmp_path) as store:
        poison = (str(tmp_path), way, len(healthy), 2)
        await store.enqueue(end_process, *poison, key="poison", priority=1, max_lives=2)
        for name in healthy:
            await store.enqueue(outlast_poison, str(tmp_path), name, 2, key=name)
        for _ in range(4):  # two lives together, and two alone
            await anyio.to_thread.run_sync(serve_in_process, anyio_backend_name, address_of(tmp_path))
        async with serving(worker_of(store, end_process, outlast_poison)):
            with pytest.raises(
                RunStuckError,
                match=r"poison_jobs:end_process is stuck: .* 2 times, its process crashed",
            ):
                await store.result("poison")
            assert await results(store, healthy) == healthy
    begun = Counter((tmp_path / "begun.txt").read_text().split())
    assert begun.pop("poison") == 4
    assert max(begun.values()) <= 3


def serve_in_process(backend: str, address: str) -> None:
    """Have a process of its own serve the queue until a call ends it."""
    with WarmPopen(
        [sys.executable, "-m", "tests.unit.journal.poison_jobs", backend, address],
        cwd=Path(__file__).parents[3],
        env=dict(os.environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            assert process.wait(timeout=120) != 0
        finally:
            process.kill()


async def test_a_job_that_exits_fails_and_its_worker_goes_on(tmp_path: Path, anyio_backend_name: str) -> None:
    functions: list[Callable[[int], Any]] = [poison_jobs.exit_at_once, poison_jobs.exit_in_thread]
    if anyio_backend_name == "trio":  # asyncio itself ends with a task that exits
        functions.append(poison_jobs.exit_in_task)
    queue_jobs.gates.update(a=anyio.Event())
    with opened(tmp_path) as store:
        await store.enqueue(pass_gate, "a", key="a")
        async with serving(worker_of(store, pass_gate, *functions)):
            await _begun("a")
            for function in functions:
                run_id = await store.enqueue(function, 3)
                with pytest.raises(
                    JournalError, match=r"raised SystemExit: 3\. A call of a queue cannot end"
                ):
                    await store.result(run_id)
            queue_jobs.gates["a"].set()
            assert await store.result("a") == "a"
        assert {each.lives for each in store.queue_entries()} == {1}


async def test_a_job_that_raises_what_ends_programs_fails_where_the_worker_handles_signals(
    tmp_path: Path, anyio_backend_name: str
) -> None:
    functions: list[Callable[[int], Any]] = [poison_jobs.interrupt, poison_jobs.interrupt_in_thread]
    if anyio_backend_name == "asyncio":
        functions.append(poison_jobs.cancel_itself)
    queue_jobs.gates.update(a=anyio.Event())
    with opened(tmp_path) as store, anyio.open_signal_receiver(signal.SIGINT):
        await store.enqueue(pass_gate, "a", key="a")
        async with serving(worker_of(store, pass_gate, *functions)):
            await _begun("a")
            for function in functions:
                run_id = await store.enqueue(function, 3)
                with pytest.raises(
                    JournalError,
                    match=r"raised (KeyboardInterrupt|CancelledError): 3\. A call of a queue cannot end",
                ):
                    await store.result(run_id)
            queue_jobs.gates["a"].set()
            assert await store.result("a") == "a"
        assert {each.lives for each in store.queue_entries()} == {1}


async def test_a_life_that_ends_its_worker_like_ctrl_c_counts_and_one_that_is_cancelled_does_not() -> None:
    entry = ClaimedEntry(
        run_id="a", function="m:f", arguments=b"", lives=1, max_lives=2, claim=1, holder="worker"
    )
    end = interrupted(entry, KeyboardInterrupt(), DEFAULT_RULES)
    assert (end.kind, end.counts, end.text) == ("returned", True, "KeyboardInterrupt")
    last = interrupted(msgspec.structs.replace(entry, lives=2), KeyboardInterrupt(), DEFAULT_RULES)
    assert last.kind == "failed"
    assert "run 'a': m:f raised KeyboardInterrupt" in last.text
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        finally:
            end = interrupted(entry, KeyboardInterrupt(), DEFAULT_RULES)
    assert (end.kind, end.counts) == ("returned", False)


async def test_calls_that_workers_of_an_earlier_version_had_are_lost_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        earlier = tables._MIGRATIONS[: tables._MIGRATIONS.index(queue_suspects.MIGRATION)]
        patch.setattr(tables, "_MIGRATIONS", earlier)
        with opened(tmp_path) as store:
            await store.enqueue(note, 1, key="a", max_lives=1)
            change(store, "UPDATE queue_entries SET status = 'claimed', lives = 1, holder = 'gone'")
    with opened(tmp_path) as store:
        async with serving(worker_of(store, note)):
            assert await store.result("a") == 1
        assert figures(store)["a"] == ("ended", 1, 1, 0)
