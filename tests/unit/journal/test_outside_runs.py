"""Effects outside of every run, while a durable run is open in the process."""

import contextvars
import gc
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalError, OutsideRunError
from nighthawk_async.testing import ScriptedExecutor

from .durable_runs import live, opened, places, shouting

pytestmark = pytest.mark.anyio

made: list[str] = []


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made.clear()


@nh.once
def send(text: str) -> str:
    made.append(text)
    return text


@nh.once
async def send_async(text: str) -> str:
    made.append(text)
    return text


@nh.repeatable
def read(text: str) -> str:
    made.append(text)
    return text


@nh.repeatable
async def read_async(text: str) -> str:
    made.append(text)
    return text


@nh.journal.stage("part")
async def part(text: str) -> str:
    made.append(text)
    return text


class Account:
    @nh.once
    def charge(self, text: str) -> str:
        made.append(text)
        return text


def in_new_loop(function: Callable[..., Awaitable[Any]], *args: object) -> Any:
    return anyio.run(function, *args)


def in_portal(function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    with anyio.from_thread.start_blocking_portal() as portal:
        return portal.call(function, *args)


def without_context(call: Callable[[], Any]) -> Any:
    """Make a call in a thread that has no context of the caller's, and raise its error here."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


CALLS: dict[str, tuple[str, Callable[[], Any]]] = {
    "once": ("send", lambda: send("a")),
    "once, async": ("send_async", lambda: in_new_loop(send_async, "a")),
    "once, portal": ("send_async", lambda: in_portal(send_async, "a")),
    "repeatable": ("read", lambda: read("a")),
    "repeatable, async": ("read_async", lambda: in_new_loop(read_async, "a")),
    "method": ("charge", lambda: Account().charge("a")),
    "stage": ("part", lambda: in_new_loop(part, "a")),
    "now": ("nighthawk_async.journal.now", nh.journal.now),
    "random": ("nighthawk_async.journal.random", nh.journal.random),
    "patched": ("nighthawk_async.journal.patched", lambda: nh.journal.patched("new")),
    "sleep": ("nighthawk_async.journal.sleep", lambda: anyio.run(lambda: nh.journal.sleep(seconds=0))),
}


@pytest.mark.parametrize("name", CALLS)
async def test_beside_a_durable_run_a_call_outside_of_every_run_is_refused(tmp_path: Path, name: str) -> None:
    function, call = CALLS[name]

    async def program() -> None:
        with pytest.raises(OutsideRunError, match=r"copy_context\(\)\.run") as caught:
            without_context(call)
        assert caught.value.function == function
        assert "'run-1'" in str(caught.value)

    with opened(tmp_path) as store:
        await live(store, shouting(), program)
        assert made == []
        without_context(call)  # the run has ended
    assert made == (
        ["a"] if function in ("send", "send_async", "read", "read_async", "charge", "part") else []
    )


async def test_an_empty_context_is_outside_of_every_run(tmp_path: Path) -> None:
    async def program() -> None:
        with pytest.raises(OutsideRunError):
            contextvars.Context().run(send, "a")
        # A coroutine runs in the context of the task that awaits it.
        assert await contextvars.Context().run(lambda: send_async("a")) == "a"

    with opened(tmp_path) as store:
        await live(store, shouting(), program)
        assert places(store, "result") == ["run/send_async()[0]"]


async def test_an_error_in_a_thread_of_its_own_is_raised_there(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def call() -> None:
        try:
            send("a")
        except OutsideRunError as error:
            errors.append(error)

    async def program() -> None:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    with opened(tmp_path) as store:
        await live(store, shouting(), program)
    assert len(errors) == 1
    assert made == []


async def test_the_remedies_record_the_calls(tmp_path: Path) -> None:
    async def program() -> list[str]:
        results = [await anyio.to_thread.run_sync(send, "a")]
        with ThreadPoolExecutor(1) as pool:
            results.append(pool.submit(contextvars.copy_context().run, send, "b").result())
        thread = threading.Thread(target=contextvars.copy_context().run, args=(send, "c"))
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
        return results

    with opened(tmp_path) as store:
        for _ in range(2):
            assert await live(store, shouting(), program) == ["a", "b"]
        assert len(places(store, "result")) == 3
    assert made == ["a", "b", "c"]


async def test_many_threads_with_the_context_record_their_calls(tmp_path: Path) -> None:
    async def program() -> list[str]:
        contexts = [contextvars.copy_context() for _ in range(4)]

        def call(number: int) -> str:
            return contexts[number].run(send, f"mail {number}")

        def call_all() -> list[str]:
            with ThreadPoolExecutor(4) as pool:
                return list(pool.map(call, range(4)))

        return await anyio.to_thread.run_sync(call_all)

    with opened(tmp_path) as store:
        for _ in range(3):
            assert await live(store, shouting(), program) == [f"mail {number}" for number in range(4)]
    assert sorted(made) == [f"mail {number}" for number in range(4)]


async def test_calls_that_are_meant_to_be_outside_say_so(tmp_path: Path) -> None:
    def call() -> str:
        with nh.journal.unrecorded():
            return send("a")

    def call_in_run() -> str:
        with nh.run(ScriptedExecutor([])):
            return send("b")

    def call_in_durable_run() -> str:
        with nh.journal.unrecorded(), opened(tmp_path / "other") as other:
            with nh.run(ScriptedExecutor([]), journal=other, run_id="run-2"):
                send("c")
            assert places(other, "result", run_id="run-2") == ["run/send()[0]"]
            return send("d")

    (tmp_path / "other").mkdir()

    async def program() -> None:
        for each in (call, call_in_run, call_in_durable_run):
            await anyio.to_thread.run_sync(without_context, each)
        with pytest.raises(OutsideRunError):
            without_context(lambda: send("e"))

    with opened(tmp_path) as store:
        await live(store, shouting(), program)
        assert places(store, "result") == []
    assert made == ["a", "b", "c", "d"]


async def test_a_durable_run_records_every_effect(tmp_path: Path) -> None:
    async def program() -> None:
        with pytest.raises(JournalError, match="every effect is recorded"), nh.journal.unrecorded():
            raise AssertionError

    with opened(tmp_path) as store:
        await live(store, shouting(), program)


async def test_replays_and_runs_without_a_journal_are_not_refused(
    tmp_path: Path,
) -> None:
    def replayed() -> list[str]:
        with nh.journal.replay(store, "run-0"):
            return anyio.run(lambda: live(store, shouting(), first, "run-0"))

    async def first() -> list[str]:
        return [await send_async("a")]

    async def program() -> None:
        assert await anyio.to_thread.run_sync(without_context, replayed) == ["a"]

    with opened(tmp_path) as store:
        await live(store, shouting(), first, "run-0")
        await live(store, shouting(), program)
    async with nh.run(ScriptedExecutor([])):
        assert await anyio.to_thread.run_sync(without_context, lambda: send("b")) == "b"
    assert made == ["a", "b"]


@pytest.mark.parametrize("ends", ["error", "claim"])
async def test_a_life_that_failed_is_not_open(tmp_path: Path, ends: str) -> None:
    async def fail() -> None:
        if ends == "claim":
            with pytest.raises(nh.journal.RunInProgressError):
                await live(store, shouting(), fail)
        raise ValueError

    with opened(tmp_path) as store:
        with pytest.raises(ValueError, match=r"^$"):
            await live(store, shouting(), fail)
        assert without_context(lambda: send("a")) == "a"


def test_a_run_that_was_abandoned_is_not_open(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        life = store.open_run("run-1")
        life.__enter__()
        with pytest.raises(OutsideRunError):
            send("a")
        del life
        gc.collect()
        assert send("a") == "a"


def test_a_run_in_one_thread_is_open_for_the_others(tmp_path: Path) -> None:
    begun, ends = threading.Event(), threading.Event()

    async def program() -> None:
        begun.set()
        await anyio.to_thread.run_sync(ends.wait)

    with opened(tmp_path) as store:
        thread = threading.Thread(target=anyio.run, args=(lambda: live(store, shouting(), program),))
        thread.start()
        assert begun.wait(60)
        with pytest.raises(OutsideRunError):
            send("a")
        ends.set()
        thread.join()
        assert send("a") == "a"
