"""Calls that end their workers: healthy ones go on beside them, and only losses alone count."""

from collections import Counter
from pathlib import Path
from typing import cast

import anyio
import anyio.lowlevel
import pytest

from nighthawk_async import parallel
from nighthawk_async.distributed import (
    Processes,
    WorkerLostError,
    WorkerStartError,
    connection,
    worker_starts,
)
from nighthawk_async.distributed.connection import WorkerConnection
from nighthawk_async.distributed.link import KilledFromOutside
from nighthawk_async.distributed.messages import Begin
from nighthawk_async.distributed.processes import _ProcessLink
from nighthawk_async.distributed.worker_starts import WorkerStarts
from tests.in_memory_workers import InMemoryLink, InMemoryWorkers
from tests.worker_functions import die_beside, double, pass_file, stop_beside, take_too_much

pytestmark = pytest.mark.anyio


async def lines_in(path: Path, number: int) -> Counter[str]:
    """The lines of a file, once there are so many."""
    with anyio.fail_after(240):
        while len(lines := read_lines(path)) < number:
            await anyio.lowlevel.checkpoint()
    return Counter(lines)


def read_lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


async def test_a_call_that_ends_its_worker_is_found_among_others(tmp_path: Path) -> None:
    items = [(str(tmp_path), number) for number in range(8)]
    async with Processes(2, max_concurrent_per_worker=4, max_placements=2) as workers:
        settled = await parallel.settle(die_beside, items, on=workers)
    outcomes = enumerate(settled.outcomes)
    assert [number for number, each in outcomes if isinstance(each, parallel.Failed)] == [3]
    (error,) = settled.errors()
    assert isinstance(error, WorkerLostError)
    assert error.lost_alone == 2
    assert "its worker was lost 2 times while it ran there alone" in str(error)
    assert str(error).startswith("tests.worker_functions:die_beside at ")
    assert "item[3]: worker " in str(error)
    assert "Something in the worker has ended it, such as os._exit." in str(error)
    begun = await lines_in(tmp_path / "begun.txt", 1)
    assert begun.pop("3") == error.placements <= 4
    assert max(begun.values()) <= 3


async def test_a_task_that_ends_its_worker_fails_alone(tmp_path: Path) -> None:
    async with Processes(2, max_concurrent_per_worker=4, max_placements=2) as workers:
        async with parallel.open_tasks(on=workers) as tasks:
            handles = [tasks.start(die_beside, (str(tmp_path), number)) for number in range(5)]
            with pytest.raises(WorkerLostError) as lost:
                await handles[3]
            assert lost.value.lost_alone == 2
            assert [await each for each in handles[:3] + handles[4:]] == [0, 1, 2, 4]
        # What a call was guilty of before says nothing about the next one, nor about the same one once more.
        settled = await parallel.settle(die_beside, [(str(tmp_path), 3), (str(tmp_path), 6)], on=workers)
        assert [isinstance(each, parallel.Failed) for each in settled.outcomes] == [True, False]


async def test_workers_that_are_killed_again_and_again_make_no_call_fail(tmp_path: Path) -> None:
    items = [(str(tmp_path), name) for name in "abcd"]
    async with InMemoryWorkers(1, max_placements=3) as workers, anyio.create_task_group() as group:
        results: list[str] = []

        async def run() -> None:
            results.extend(await parallel.map(pass_file, items, on=workers))

        group.start_soon(run)
        for begun in (4, 8, 9, 10, 11, 12):  # twice together, and then one after the other
            lines = await lines_in(tmp_path / "begun.txt", begun)
            assert sum(lines.values()) == begun
            workers.lose(workers.workers[0])
        (tmp_path / "open").touch()
    assert results == list("abcd")
    assert max((await lines_in(tmp_path / "begun.txt", 1)).values()) <= 4


async def test_with_one_placement_nothing_is_placed_again(tmp_path: Path) -> None:
    items = [(str(tmp_path), name) for name in "ab"]
    async with InMemoryWorkers(1, max_placements=1) as workers, anyio.create_task_group() as group:
        errors: list[Exception] = []

        async def run() -> None:
            errors.extend((await parallel.settle(pass_file, items, on=workers)).errors())

        group.start_soon(run)
        await lines_in(tmp_path / "begun.txt", 2)
        workers.lose(workers.workers[0])
    assert ["the call was placed once, and its worker was lost never" in str(each) for each in errors] == [
        True
    ] * 2


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("signal SIGKILL", "for want of memory"),
        ("signal SIGSEGV", "PYTHONFAULTHANDLER=1"),
        ("exit code 1", "os._exit"),
        ("it did not end a cancelled call", "alone"),
    ],
)
def test_a_lost_call_is_named_with_what_to_do(reason: str, remedy: str) -> None:
    text = str(WorkerLostError("worker-1", reason, placements=5, lost_alone=3, call="a:f at map()[0]/[13]"))
    assert text.startswith(f"a:f at map()[0]/[13]: worker worker-1 was lost ({reason}); the call was placed")
    assert remedy in text


async def test_a_call_that_is_refused_memory_fails_alone_and_its_error_says_what_to_do() -> None:
    async with InMemoryWorkers(1) as workers:
        settled = await parallel.settle(take_too_much, range(6), on=workers)
    (error,) = settled.errors()
    assert isinstance(error, MemoryError)
    (note,) = error.__notes__
    assert note.startswith("tests.worker_functions:take_too_much was refused memory on worker-0")
    assert isinstance(settled.outcomes[3], parallel.Failed)


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_LOOK_SECONDS", 0.001)


class SuspendableWorkers(InMemoryWorkers):
    """Workers that can be suspended."""

    can_be_suspended = True


@pytest.mark.usefixtures("quick_looks")
async def test_a_worker_that_is_suspended_for_long_is_lost(tmp_path: Path) -> None:
    async with SuspendableWorkers(1, max_placements=1) as workers, anyio.create_task_group() as group:
        errors: list[Exception] = []

        async def run() -> None:
            errors.extend((await parallel.settle(pass_file, [(str(tmp_path), "a")], on=workers)).errors())

        group.start_soon(run)
        await lines_in(tmp_path / "begun.txt", 1)
        workers.links["worker-0"].suspend()
    assert "was lost (it was stopped by a signal for " in str(errors[0])


@pytest.mark.usefixtures("quick_looks")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the state of a process cannot be seen")
async def test_calls_of_a_process_that_is_stopped_go_on_in_another_one(tmp_path: Path) -> None:
    items = [(str(tmp_path), number) for number in range(6)]
    async with Processes(1) as workers:
        assert await parallel.map(stop_beside, items, on=workers) == list(range(6))
        assert (tmp_path / "stopped").exists()


class SuspendedStarts(SuspendableWorkers):
    """Workers of which the second one is stopped while it starts."""

    async def open_link(self, name: str, begin: Begin) -> InMemoryLink:
        link = await super().open_link(name, begin)
        if self._start_timeout < 1:
            self._start_timeout = 60.0  # of the next attempt
            link.suspend()
            setattr(link, "receive", anyio.sleep_forever)  # noqa: B010  (it is a method)
        return link


async def test_a_worker_that_is_stopped_while_it_starts_is_no_broken_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with SuspendedStarts(1) as workers:
        workers._start_timeout = 0.01
        workers.lose("worker-0")
        assert await parallel.map(double, [1], on=workers) == [2]
    assert "and was stopped by a signal" in caplog.text


class KilledProcesses(Processes):
    """Processes of which the first ones are killed while they start."""

    killed = 0

    async def open_link(self, name: str, begin: Begin) -> _ProcessLink:
        link = await super().open_link(name, begin)
        if self.killed < 4:
            self.killed += 1
            link.kill()
        return link


async def test_a_process_that_is_killed_while_it_starts_is_no_broken_start() -> None:
    async with KilledProcesses(1) as workers:
        assert await parallel.map(double, [1, 2], on=workers) == [2, 4]
    assert workers.killed == 4


class BrokenStarts(InMemoryWorkers):
    """Workers of which the first one starts, and then none for a while."""

    attempts = 0
    was_killed = False
    works_from = 1_000

    async def open_link(self, name: str, begin: Begin) -> InMemoryLink:
        self.attempts += 1
        if self.attempts == 1 or self.attempts >= self.works_from:
            return await super().open_link(name, begin)
        error = WorkerStartError(f"worker {name} did not start: attempt {self.attempts}")
        error.was_killed = self.was_killed
        raise error


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_starts, "_MOST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(worker_starts, "_FIRST_PAUSE_SECONDS", 0.001)


@pytest.mark.usefixtures("short_pauses")
async def test_broken_starts_end_soon_and_say_what_each_ended_with() -> None:
    async with BrokenStarts(1) as workers:
        workers.lose("worker-0")
        with pytest.raises(WorkerStartError, match="attempt 4") as raised:
            await parallel.map(double, [1], on=workers)
        assert ["attempt 2" in each or "attempt 3" in each for each in raised.value.__notes__] == [True] * 2


@pytest.mark.usefixtures("short_pauses")
async def test_starts_that_are_all_killed_end_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_starts, "_MOST_KILLED_STARTS", 10)
    monkeypatch.setattr(worker_starts, "_MOST_KILLED_SECONDS", 0.0)
    async with BrokenStarts(1) as workers:
        workers.was_killed = True
        workers.lose("worker-0")
        with pytest.raises(WorkerStartError, match="attempt 11") as raised:
            await parallel.map(double, [1], on=workers)
        assert raised.value.__notes__ == ["it was killed while it started, 10 times in succession"]


@pytest.mark.usefixtures("short_pauses")
async def test_killed_starts_end_nothing_before_their_time_is_over_and_the_log_tells_of_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_starts, "_MOST_KILLED_STARTS", 2)
    async with BrokenStarts(1) as workers:
        workers.was_killed, workers.works_from = True, 8
        workers.lose("worker-0")
        assert await parallel.map(double, [1], on=workers) == [2]
    texts = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert [text.partition(": ")[0] for text in texts] == [
        "start 1 of worker worker-0.1 was killed",
        "start 2 of worker worker-0.1 was killed",
        "start 4 of worker worker-0.1 was killed",
    ]


async def test_a_worker_that_becomes_ready_lets_the_starts_of_others_be_killed_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_starts, "_FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(worker_starts, "_MOST_KILLED_STARTS", 3)
    monkeypatch.setattr(worker_starts, "_MOST_KILLED_SECONDS", 0.0)
    starts, attempts = WorkerStarts(), 0
    ready = cast("WorkerConnection", object())

    async def connect() -> WorkerConnection:
        nonlocal attempts
        attempts += 1
        if attempts in (2, 4):
            assert await starts.start("other", be_ready, is_first=False) is ready
        error = WorkerStartError(f"attempt {attempts}")
        error.was_killed = True
        raise error

    async def be_ready() -> WorkerConnection:
        return ready

    with pytest.raises(WorkerStartError, match="attempt 6"):
        await starts.start("killed", connect, is_first=False)


class EndingWorkers(InMemoryWorkers):
    """Workers that end as soon as they are ready, and have no call; the last of them stay.

    Attributes:
        stays_from: The number of the start from which workers stay.
        how: How they end.
    """

    stays_from = 1_000
    how: str = "exit code 3"

    async def open_link(self, name: str, begin: Begin) -> InMemoryLink:
        link = await super().open_link(name, begin)
        number, close = len(self.links), link.close

        async def end() -> str:
            await close()
            return self.how

        if 1 < number < self.stays_from:
            link.close = end  # type: ignore[method-assign]
            lose_when_ready(link)
        return link


def lose_when_ready(link: InMemoryLink) -> None:
    """Lose a worker after its first message, which says that it is ready."""
    receive = link.receive

    async def receive_once() -> bytes:
        link.receive = receive  # type: ignore[method-assign]
        body = await receive()
        link.lose()
        return body

    link.receive = receive_once  # type: ignore[method-assign]


@pytest.mark.virtual_time
async def test_workers_that_end_as_soon_as_they_are_ready_are_started_after_pauses_and_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with EndingWorkers(1) as workers:
        workers.lose("worker-0")
        await anyio.sleep(30)
        with pytest.raises(WorkerStartError, match=r"worker-0\.4 has ended .* without a call") as raised:
            await parallel.map(double, [1], on=workers)
        assert len(raised.value.__notes__) == 4
    assert list(workers.links) == ["worker-0", *(f"worker-0.{number}" for number in range(1, 5))]
    assert "has ended 0.0 seconds after it was ready, without a call: exit code 3" in caplog.text


@pytest.mark.virtual_time
async def test_workers_that_something_else_ends_are_started_again_after_pauses() -> None:
    async with EndingWorkers(1) as workers:
        workers.how, workers.stays_from = KilledFromOutside("signal SIGKILL"), 20
        begun_at = anyio.current_time()
        workers.lose("worker-0")
        await anyio.sleep(300)
        assert await parallel.map(double, [1], on=workers) == [2]
        assert anyio.current_time() - begun_at >= 300
    assert len(workers.links) == 20


@pytest.mark.virtual_time
async def test_a_worker_that_had_a_call_or_was_there_for_long_is_replaced_at_once() -> None:
    async with InMemoryWorkers(1) as workers:
        for number in range(10):
            name = f"worker-0.{number}" if number else "worker-0"
            assert workers.workers == (name,)
            if number % 2:
                assert await parallel.map(double, [1], on=workers) == [2]
            else:
                await anyio.sleep(60)
            begun_at = anyio.current_time()
            workers.lose(name)
            with anyio.fail_after(240):
                while workers.workers in ((), (name,)):
                    await anyio.lowlevel.checkpoint()
            assert anyio.current_time() == begun_at
