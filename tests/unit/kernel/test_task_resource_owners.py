"""Owners of resources that are not there or on another event loop, and nodes of resources."""

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.parallel import ResourceOwnerError
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response
from tests.unit.kernel.resource_log import EXECUTOR, Log, inside_a_step

pytestmark = pytest.mark.anyio


async def test_without_a_run_a_step_or_a_parent_there_is_an_error() -> None:
    opener = Log().opener()
    with pytest.raises(nh.NighthawkError, match="No run is active"):
        await nh.resource("thing", opener)
    async with nh.run(EXECUTOR):
        with pytest.raises(nh.NighthawkError, match="No step is active"):
            await nh.resource("thing", opener, owner="step")
        with pytest.raises(ResourceOwnerError, match="task run has no parent"):
            await nh.resource("thing", opener, owner="parent")


async def test_in_a_run_entered_with_with_steps_and_tasks_own_resources_and_the_run_does_not() -> None:
    log = Log()

    async def work() -> None:
        await nh.resource("thing", log.opener("step"), owner="step")
        with pytest.raises(ResourceOwnerError, match="enter the run with `async with`"):
            await nh.resource("thing", log.opener("run"), owner="run")

    with nh.run(EXECUTOR):
        await inside_a_step(work)
        async with nh.open_tasks() as tasks:
            await tasks.start(partial(nh.resource, "thing", log.opener("task")))
        with pytest.raises(ResourceOwnerError, match="enter the run with `async with`"):
            await nh.resource("thing", log.opener("run"))
    assert log == ["+step", "-step", "+task", "-task"]


async def test_the_extent_of_a_request_is_a_task_that_owns_resources() -> None:
    log = Log()
    async with nh.run(EXECUTOR) as run:
        async with run.extent("request"):
            await nh.resource("thing", log.opener("request"))
            await nh.resource("thing", log.opener("run"), owner="parent")
        assert log == ["+request", "+run", "-request"]


def test_synchronous_functions_have_resources_on_their_portal() -> None:
    log = Log()
    threads: set[int] = set()

    @nh.natural_function
    def work() -> None:
        """natural
        Work.
        """

    async def execute(call: StepCall) -> StepResponse:
        threads.add(threading.get_ident())
        await nh.resource("thing", log.opener("step"), owner="step")
        assert await nh.resource("thing", opener, owner="run") == await nh.resource("thing", opener)
        return pass_response()

    opener = log.opener("run")
    with nh.run(CallbackExecutor(execute)):
        work()
        work()
    assert log == ["+step", "+run", "-step", "+step", "-step", "-run"]
    assert len(threads) == 1


async def test_a_portal_does_not_use_the_resources_of_the_loop_that_waits_for_it() -> None:
    log = Log()

    @nh.natural_function
    def work() -> None:
        """natural
        Work.
        """

    async def execute(call: StepCall) -> StepResponse:
        assert await nh.resource("thing", log.opener("portal"), owner="run") == "portal"
        if "tasks" in nh.current_task().id:
            with pytest.raises(ResourceOwnerError, match="belongs to another event loop"):
                await nh.resource("thing", log.opener("task"))
        return pass_response()

    async def task() -> None:
        await nh.resource("thing", log.opener("task"))
        work()

    async def use_both_loops() -> None:
        async with nh.run(CallbackExecutor(execute)), nh.open_tasks() as tasks:
            await nh.resource("thing", log.opener("loop"), owner="run")
            await tasks.start(task)

    with pytest.warns(RuntimeWarning, match="blocks it"):
        await use_both_loops()
    assert log[:4] == ["+loop", "+task", "+portal", "-task"]
    assert sorted(log[4:]) == ["-loop", "-portal"]


async def test_a_worker_thread_of_the_loop_reaches_the_resources_of_its_task() -> None:
    log = Log()

    @nh.natural_function
    def work() -> None:
        """natural
        Work.
        """

    async def execute(call: StepCall) -> StepResponse:
        await nh.resource("thing", log.opener())
        return pass_response()

    async with nh.run(CallbackExecutor(execute)), nh.open_tasks() as tasks:
        await tasks.start(work)
        assert log == ["+thing", "-thing"]


# Observers and journals


async def test_a_resource_is_a_node_below_its_owner() -> None:
    may_open = anyio.Event()
    texts: list[str] = []

    @asynccontextmanager
    async def open_it() -> AsyncGenerator[int, None]:
        await may_open.wait()
        yield 5
        raise ValueError("close")

    async def task() -> None:
        await nh.resource("shell", open_it)

    with nh.observe.recording() as tree:
        async with nh.run(EXECUTOR), nh.open_tasks() as tasks:
            handle = tasks.start(task)
            await anyio.wait_all_tasks_blocked()
            texts.append(nh.observe.view_as_text(tree.snapshot()))
            may_open.set()
            with pytest.raises(ValueError, match="close"):
                await handle
            texts.append(nh.observe.view_as_text(tree.snapshot()))
    shown = [next(line for line in text.splitlines() if "resource shell" in line) for text in texts]
    assert "○" in shown[0]
    assert "✗" in shown[1]
