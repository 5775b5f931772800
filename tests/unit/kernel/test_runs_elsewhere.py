"""Runs that are entered elsewhere than where they were opened: in other tasks, threads and event loops."""

import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async import observe, parallel
from nighthawk_async.policies import Policy
from nighthawk_async.testing import CallbackExecutor, pass_response

pytestmark = pytest.mark.anyio

executor = CallbackExecutor(lambda call: pass_response(count=3))


@nh.natural_function
async def stars(review: str) -> int:
    count: int = nh.unset
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


@nh.natural_function
def stars_sync(review: str) -> int:
    count: int = nh.unset
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


class Waiting:
    """An executor whose steps wait until they are cancelled."""

    def __init__(self, awaited: int) -> None:
        self._left = threading.Semaphore(0)
        self._awaited = awaited

    async def run_step_async(self, **details: Any) -> Any:
        self._left.release()
        await anyio.sleep_forever()

    def wait(self) -> None:
        """Wait until the steps have begun."""
        for _ in range(self._awaited):
            self._left.acquire()


def in_other_loop(function: Callable[[], Any], backend: str) -> Any:
    """Run an async function on an event loop of its own, in a thread without the caller's context."""
    results: list[Any] = []
    thread = threading.Thread(
        target=Context().run, args=(lambda: results.append(anyio.run(function, backend=backend)),)
    )
    thread.start()
    thread.join()
    return results[0]


async def test_a_started_run_is_entered_in_tasks_threads_and_other_event_loops() -> None:
    run = await nh.start_run(executor)
    with pytest.raises(nh.NighthawkError, match=r"No run is active here.*with run.active\(\)"):
        await stars("***")
    with run.active():
        assert nh.current_task().id == "run/active[0]"
        assert nh.get_execution_ref().run_id == run.execution_ref.run_id
        assert await parallel.map(stars, ["*", "**"]) == [3, 3]
    async with run.active("request") as entered:
        assert entered is run
        assert nh.current_task().id == "run/request[0]"
        assert await stars("***") == 3

    def in_thread() -> int:
        with run.active():
            return stars_sync("***")

    async def elsewhere() -> int:
        async with run.active():
            return await stars("***")

    with ThreadPoolExecutor(4) as pool:
        pending = [pool.submit(in_thread) for _ in range(20)]
        assert await anyio.to_thread.run_sync(lambda: [each.result() for each in pending]) == [3] * 20
    for backend in ("asyncio", "trio"):
        assert await anyio.to_thread.run_sync(in_other_loop, elsewhere, backend) == 3
    assert run.usage_meter.steps == 2 + 1 + 20 + 2
    await run.aclose()
    await run.aclose()
    for attempt in (run.active(), run.active()):
        with pytest.raises(nh.NighthawkError, match="Only an active run can be entered elsewhere"), attempt:
            pass
    with pytest.raises(nh.NighthawkError, match="Enter one around the call"):
        await stars("***")


async def test_a_run_that_is_everywhere_is_that_of_every_call_without_one() -> None:
    decided: list[str] = []

    class Deciding(Policy):
        async def around_function(self, call: Any, proceed: Any) -> Any:
            decided.append(call.name)
            return await proceed()

    run = await nh.start_run(executor, everywhere=True, policies=[Deciding()], max_concurrent_steps=2)
    assert await stars("***") == 3
    assert decided == ["stars"]
    assert nh.get_execution_ref().run_id == run.execution_ref.run_id
    assert await anyio.to_thread.run_sync(in_other_loop, lambda: stars("***"), "asyncio") == 3
    assert await anyio.to_thread.run_sync(stars_sync, "***") == 3
    assert await parallel.map(stars, ["*"] * 5) == [3] * 5
    assert (await nh.step("Set <:count>.", outputs={"count": int})).count == 3
    with nh.scope(budget=nh.budget(steps=1)):
        await stars("***")
        with pytest.raises(nh.BudgetExceededError):
            await stars("***")
    async with nh.run(CallbackExecutor(lambda call: pass_response(count=5))) as other:
        assert await stars("***") == 5
        assert other.usage_meter.steps == 1
    with pytest.raises(nh.NighthawkError, match="everywhere=True is open already"):
        async with nh.run(executor, everywhere=True):
            pass
    await run.aclose()
    async with nh.run(executor, everywhere=True):
        assert await stars("***") == 3
    with pytest.raises(nh.NighthawkError, match="No run is active"):
        await stars("***")


async def test_steps_of_guests_end_with_the_run_and_with_their_caller() -> None:
    waiting = Waiting(5)
    run = await nh.start_run(waiting)
    errors: list[Exception] = []

    async def guest() -> None:
        with pytest.raises(nh.NighthawkError, match="The run has ended") as caught, run.active():
            await stars("***")
        errors.append(caught.value)

    async def guest_elsewhere() -> None:
        await anyio.to_thread.run_sync(in_other_loop, guest, "asyncio")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(guest)
        tasks.start_soon(guest_elsewhere)
        async with anyio.create_task_group() as others:
            for _ in range(3):
                others.start_soon(guest)
            await anyio.wait_all_tasks_blocked()
            others.cancel_scope.cancel()
        await anyio.to_thread.run_sync(waiting.wait)
        await run.aclose()
    assert len(errors) == 2


async def test_a_failed_task_of_a_started_run_is_raised_by_aclose(caplog: pytest.LogCaptureFixture) -> None:
    run = await nh.start_run(executor)
    has_begun = anyio.Event()

    async def fail() -> None:
        has_begun.set()
        raise ValueError("a task of the run")

    run.task_group.start_soon(fail)
    await has_begun.wait()
    await anyio.wait_all_tasks_blocked()
    with pytest.raises(nh.NighthawkError, match="Only an active run"), run.active():
        pass
    with pytest.raises(ValueError, match="a task of the run"):
        await run.aclose()
    await run.aclose()
    assert "a started run has failed" in caplog.text


async def test_a_run_that_cannot_be_opened_says_so_where_it_is_started() -> None:
    class Broken(Policy):
        def scope(self, kind: Any) -> Any:
            raise LookupError("no room")

    with pytest.raises(LookupError, match="no room"):
        await nh.start_run(executor, policies=[Broken()])
    with pytest.raises(LookupError, match="no room"):
        await anyio.to_thread.run_sync(lambda: nh.start_run_sync(executor, policies=[Broken()]))


async def test_a_started_run_is_closed_from_another_thread_and_event_loop() -> None:
    run = await nh.start_run(executor)
    await anyio.to_thread.run_sync(in_other_loop, run.aclose, "asyncio")
    with pytest.raises(nh.NighthawkError, match="Only an active run"):
        run.guests  # noqa: B018


def test_a_run_lives_in_a_thread_where_there_is_no_event_loop() -> None:
    run = nh.start_run_sync(executor, everywhere=True)
    try:
        assert stars_sync("***") == 3
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(stars_sync, ["*"] * 8)) == [3] * 8
        assert anyio.run(stars, "***") == 3
        with pytest.raises(nh.NighthawkError, match="start_run"):
            anyio.run(run.aclose)
    finally:
        run.close()
    with pytest.raises(nh.NighthawkError, match="No run is active"):
        stars_sync("***")


async def test_steps_of_guests_stand_in_the_tree_of_the_run() -> None:
    async def call() -> None:
        with run.active("cell"):
            await stars("***")

    with observe.recording() as tree:
        run = await nh.start_run(executor)
        async with anyio.create_task_group() as tasks:
            Context().run(tasks.start_soon, call)
        await run.aclose()
    run_line, call_line = observe.view_as_text(tree.snapshot()).splitlines()
    assert run_line.startswith("✓ run")
    assert call_line.startswith("└─ ✓ stars(")


def in_fork(function: Callable[[], object]) -> str:
    """Return what a function returns or raises in a process that is forked from this one."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of threads, which is what this is about
        child = os.fork()
    if child == 0:  # leaves without a word to pytest
        try:
            text = f"returned {function()}"
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write_end, text.encode())
        os._exit(0)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_run_of_the_parent_is_refused_in_a_forked_process() -> None:
    run = nh.start_run_sync(executor, everywhere=True)

    def enter() -> int:
        with run.active():
            return stars_sync("***")

    def open_another() -> int:
        with nh.start_run_sync(executor, everywhere=True).active():
            return stars_sync("***")

    def leave() -> None:
        inner.__exit__(None, None, None)

    try:
        assert stars_sync("***") == 3
        for function in (lambda: stars_sync("***"), enter, run.close):
            assert in_fork(function).startswith("RunForkedError: No run is active in this process.")
        assert in_fork(open_another) == "returned 3"
        with nh.run(executor) as inner:
            assert stars_sync("***") == 3
            assert in_fork(lambda: stars_sync("***")).startswith("RunForkedError")
            assert in_fork(leave) == "returned None"
        assert stars_sync("***") == 3
    finally:
        run.close()
    assert in_fork(lambda: stars_sync("***")).startswith("NighthawkError: No run is active. Enter one")
