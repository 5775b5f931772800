"""Ends of resources, with their owners or before them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.parallel import ResourceOwnerError, ResourceTimeoutError, TaskHandle
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response
from tests.unit.kernel.resource_log import EXECUTOR, OWNERS, Log, inside_a_step

pytestmark = pytest.mark.anyio


async def test_errors_of_closing_are_raised_and_keep_nothing_open() -> None:
    log = Log()
    async with nh.run(EXECUTOR), nh.open_tasks() as tasks:

        async def one() -> None:
            await nh.resource("a", log.opener("a"))
            await nh.resource("b", log.opener("b", error=ValueError("b")))

        async def two() -> None:
            for name in "abc":
                error = None if name == "b" else ValueError(name)
                await nh.resource(name, log.opener(name, error=error))

        handle = tasks.start(one)
        with pytest.raises(ValueError, match="b") as caught:
            await handle
        assert handle.status == "failed"
        assert caught.value.__notes__ == ["raised by the resource 'b' of task run/tasks[0]/one[0]"]
        with pytest.raises(ExceptionGroup, match=r"2 resources of task .* failed") as group:
            await tasks.start(two)
        assert [str(each) for each in group.value.exceptions] == ["c", "a"]
    assert log == ["+a", "+b", "-b", "-a", "+a", "+b", "+c", "-c", "-b", "-a"]


@pytest.mark.parametrize("owner", OWNERS)
async def test_the_error_that_ended_the_owner_stays_the_error(owner: str) -> None:
    log = Log()

    async def work() -> None:
        for name in "ab":
            opener = log.opener(name, error=ValueError(name))
            await nh.resource(name, opener, owner=cast("Any", owner))
        raise KeyError("mine")

    async def parent() -> None:
        async with nh.open_tasks() as tasks:
            await tasks.start(inside_a_step, work)

    with pytest.raises(KeyError, match="mine") as caught:
        async with nh.run(EXECUTOR), nh.open_tasks() as tasks:
            await tasks.start(parent)
    notes = [each for each in caught.value.__notes__ if "failed as well" in each]
    assert [each.rpartition(" failed as well: ")[2] for each in notes] == [
        "ValueError('b')",
        "ValueError('a')",
    ]
    assert log == ["+a", "+b", "-b", "-a"]


async def test_a_step_whose_resource_cannot_be_closed_fails_and_commits_nothing() -> None:
    @nh.natural_function
    async def work() -> int:
        number: int = 1
        try:
            """natural
            Set <:number>.
            """
        except ValueError:
            return number
        return -1

    async def execute(call: StepCall) -> StepResponse:
        await nh.resource("thing", Log().opener(error=ValueError("close")), owner="step")
        return pass_response(number=2)

    async with nh.run(CallbackExecutor(execute)):
        assert await work() == 1


async def test_resources_are_closed_after_a_cancellation() -> None:
    log = Log()
    status: list[str] = []

    async def task() -> None:
        await nh.resource("run", log.opener("run"), owner="run")
        await nh.resource("task", log.opener("task"))
        await inside_a_step(in_a_step)

    async def in_a_step() -> None:
        await nh.resource("step", log.opener("step"), owner="step")
        await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        async with nh.run(EXECUTOR), nh.open_tasks() as tasks:
            handle: TaskHandle[None] = tasks.start(task)
            await anyio.wait_all_tasks_blocked()
            handle.cancel("enough")
            await handle.wait_ended()
            status.append(handle.status)
            assert log == ["+run", "+task", "+step", "-step", "-task"]
            scope.cancel()
            await checkpoint()
    assert scope.cancelled_caught
    assert status == ["cancelled"]
    assert log[-1] == "-run"


async def test_an_error_of_closing_replaces_a_cancellation() -> None:
    async def task() -> None:
        await nh.resource("thing", Log().opener(error=ValueError("close")))
        await anyio.sleep_forever()

    async with nh.run(EXECUTOR), nh.open_tasks() as tasks:
        handle = tasks.start(task)
        await anyio.wait_all_tasks_blocked()
        handle.cancel()
        with pytest.raises(ValueError, match="close"):
            await handle


@pytest.mark.virtual_time
async def test_closing_that_takes_too_long_is_cancelled_and_the_others_are_closed() -> None:
    log = Log()

    @asynccontextmanager
    async def open_slow() -> AsyncGenerator[int, None]:
        yield 5
        try:
            await anyio.sleep_forever()
        finally:
            log.append("cancelled")

    async def use_both() -> None:
        async with nh.run(EXECUTOR):
            await nh.resource("thing", log.opener())
            await nh.resource("slow", open_slow)

    began = anyio.current_time()
    with pytest.raises(ResourceTimeoutError, match="'slow' of task run was not closed within 10 seconds"):
        await use_both()
    assert anyio.current_time() - began == pytest.approx(10)
    assert log == ["+thing", "cancelled", "-thing"]


async def test_a_resource_that_ends_by_itself_is_opened_anew_and_its_error_is_raised_at_the_end() -> None:
    fails = anyio.Event()
    log = Log()

    @asynccontextmanager
    async def open_it() -> AsyncGenerator[int, None]:
        async def fail() -> None:
            await fails.wait()
            if log.count("+") == 1:
                raise OSError("connection lost")

        async with anyio.create_task_group() as group:
            group.start_soon(fail)
            log.append("+")
            yield len(log)

    async def use_it() -> None:
        async with nh.run(EXECUTOR):
            assert await nh.resource("thing", open_it) == 1
            fails.set()
            while await nh.resource("thing", open_it) == 1:
                await checkpoint()
            assert log == ["+", "+"]

    with pytest.raises(ExceptionGroup) as caught:
        await use_it()
    assert [str(each) for each in caught.value.exceptions] == ["connection lost"]


async def test_nothing_is_opened_for_an_owner_that_has_ended() -> None:
    errors: list[Exception] = []
    ended = anyio.Event()

    async def ask() -> None:
        await ended.wait()
        try:
            await nh.resource("late", Log().opener())
        except ResourceOwnerError as error:
            errors.append(error)

    @asynccontextmanager
    async def ask_while_closing() -> AsyncGenerator[int, None]:
        yield 5
        with pytest.raises(ResourceOwnerError, match="task run has ended"):
            await nh.resource("late", Log().opener())

    async with nh.run(EXECUTOR) as run, nh.open_tasks() as tasks:

        async def task() -> None:
            run.task_group.start_soon(ask)

        await tasks.start(task)
        ended.set()
        await nh.resource("thing", ask_while_closing, owner="run")
    assert [str(each) for each in errors] == [
        "task run/tasks[0]/task[0] has ended: it opens no resource 'late'"
    ]


@pytest.mark.parametrize("moment", ["opening", "closing"])
async def test_an_opener_that_ends_the_program_ends_it(moment: str) -> None:
    log = Log()

    @asynccontextmanager
    async def open_it() -> AsyncGenerator[int, None]:
        if moment == "opening":
            raise SystemExit(3)
        yield 5
        raise SystemExit(3)

    async def use_both() -> None:
        async with nh.run(EXECUTOR):
            await nh.resource("other", log.opener())
            await nh.resource("thing", open_it)

    with pytest.raises(SystemExit):
        await use_both()
    assert log == ["+thing", "-thing"]
