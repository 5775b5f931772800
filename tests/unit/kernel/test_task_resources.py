"""Resources that live with a step, a task, its parent or the run: who gets them, and how they are opened."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.parallel import (
    CallCancelledError,
    ResourceConflictError,
    ResourceDeadlockError,
    ResourceOwnerError,
)
from nighthawk_async.resilience import Baseline, retrying
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response
from tests.unit.kernel.resource_log import EXECUTOR, OWNERS, Log, inside_a_step

pytestmark = pytest.mark.anyio


CURRENT = ContextVar[str]("current", default="nobody")


async def test_a_hundred_callers_open_a_resource_once() -> None:
    log = Log()
    opener = log.opener()
    values: list[str] = []

    async def ask(_: int) -> None:
        values.append(await nh.resource("thing", opener))

    async with nh.run(EXECUTOR):
        await nh.parallel.map(ask, range(100))
        assert log == ["+thing"]
    assert values == ["thing"] * 100
    assert log == ["+thing", "-thing"]


async def test_items_of_a_combinator_share_what_their_task_owns_and_tasks_do_not() -> None:
    async def ask(_: int = 0) -> object:
        return await nh.resource("thing", lambda: _Closable([]))

    async with nh.run(EXECUTOR):
        items = await nh.parallel.map(ask, range(3))
        async with nh.open_tasks() as tasks:
            first, second = tasks.start(ask), tasks.start(ask)
            others = [await first, await second]
        assert len({id(each) for each in items}) == 1
        assert len({id(each) for each in (*others, items[0])}) == 3


class _Closable:
    """A context manager that is its own value."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def __aenter__(self) -> "_Closable":
        await checkpoint()
        self.log.append("entered")
        return self

    async def __aexit__(self, *exc_details: object) -> None:
        await checkpoint()
        self.log.append("left")


async def test_each_owner_closes_its_resource_at_its_own_end() -> None:
    log = Log()

    async def work() -> None:
        for owner in OWNERS:
            await nh.resource("thing", log.opener(owner), owner=cast("Any", owner))
        log.append("step ends")

    async def task() -> None:
        await inside_a_step(work)
        log.append("task ends")

    async def parent() -> None:
        async with nh.open_tasks(at_end="wait") as tasks:
            tasks.start(task)
        log.append("parent ends")

    async with nh.run(EXECUTOR):
        async with nh.open_tasks() as tasks:
            await tasks.start(parent)
        log.append("run ends")
    assert log == [
        *("+step", "+task", "+parent", "+run"),
        *("step ends", "-step", "task ends", "-task", "parent ends", "-parent", "run ends", "-run"),
    ]


async def test_the_owner_run_is_the_innermost_run_and_its_root_task() -> None:
    log = Log()
    opener = log.opener("outer")
    async with nh.run(EXECUTOR):
        await nh.resource("thing", opener, owner="task")
        assert await nh.resource("thing", opener, owner="run") == "outer"
        async with nh.run(EXECUTOR):
            assert await nh.resource("thing", opener, owner="parent") == "outer"
            await nh.resource("thing", log.opener("inner"), owner="run")
        assert log == ["+outer", "+inner", "-inner"]
    assert log[-1] == "-outer"


async def test_a_resource_is_closed_before_the_handle_of_its_task_reports_the_end() -> None:
    log = Log()

    async def task() -> str:
        return await nh.resource("thing", log.opener())

    async with nh.run(EXECUTOR), nh.open_tasks() as tasks:
        handle = tasks.start(task)
        assert await handle == "thing"
        assert log == ["+thing", "-thing"]


async def test_a_resource_is_open_until_everything_that_its_owner_has_started_has_ended() -> None:
    log = Log()

    async def child() -> None:
        await nh.resource("thing", opener, owner="parent")
        try:
            await anyio.sleep_forever()
        finally:
            log.append("child ends")

    opener = log.opener()
    async with nh.run(EXECUTOR) as run:
        async with nh.open_tasks() as tasks:
            tasks.start(child)
            await anyio.wait_all_tasks_blocked()
        run.task_group.start_soon(partial(nh.resource, "late", log.opener("late")))
    assert log == ["+thing", "child ends", "+late", "-late", "-thing"]


async def test_each_attempt_at_a_step_has_its_own_resources() -> None:
    log = Log()

    async def execute(call: StepCall) -> StepResponse:
        await nh.resource("thing", log.opener(), owner="step")
        if log.count("+thing") < 2:
            raise nh.ModelError("try again", is_transient=True)
        return pass_response()

    baseline = Baseline(retries=retrying(attempts=2, wait=0))
    async with nh.run(CallbackExecutor(execute), resilience=baseline):
        await nh.step("Work.")
    assert log == ["+thing", "-thing"] * 2


# What an opener may be


async def test_an_opener_may_give_an_object_that_can_be_closed() -> None:
    log: list[str] = []

    class Connection:
        async def aclose(self) -> None:
            await checkpoint()
            log.append("connection")

    class File:
        def close(self) -> None:
            log.append("file")

    async def connect() -> Connection:
        await checkpoint()
        return Connection()

    async def open_file() -> File:
        return File()

    @contextmanager
    def lock() -> Generator[int, None, None]:
        yield 5
        log.append("lock")

    async with nh.run(EXECUTOR):
        assert isinstance(await nh.resource("connection", connect), Connection)
        assert isinstance(await nh.resource("file", open_file), File)
        assert await nh.resource("lock", lock) == 5
    assert log == ["lock", "file", "connection"]


async def test_what_is_no_opener_is_refused() -> None:
    async def give_nothing() -> Any:
        return 5

    async def generate() -> AsyncGenerator[int, None]:
        yield 5

    def count() -> Generator[int, None, None]:
        yield 5

    async with nh.run(EXECUTOR):
        for opener, match in (
            (give_nothing, "neither aclose"),
            (generate, "asynccontextmanager"),
            (lambda: 5, "no context manager and no awaitable"),
        ):
            with pytest.raises(TypeError, match=match):
                await nh.resource("thing", cast("Any", opener))
        for called in (5, Log().opener()(), contextmanager(count)()):
            with pytest.raises(TypeError, match="needs a function without arguments"):
                await nh.resource("thing", cast("Any", called))
        for name in ("", "a/b", "a[0]"):
            with pytest.raises(ValueError, match="name of a resource"):
                await nh.resource(name, Log().opener())
        with pytest.raises(ValueError, match="'step', 'task', 'parent' or 'run'"):
            await nh.resource("thing", Log().opener(), owner=cast("Any", "program"))


async def test_another_function_under_the_same_name_is_refused() -> None:
    class Factory:
        @asynccontextmanager
        async def open(self) -> AsyncGenerator[int, None]:
            yield 5

    @asynccontextmanager
    async def open_number(number: int) -> AsyncGenerator[int, None]:
        yield number

    first, second = Factory(), Factory()
    async with nh.run(EXECUTOR):
        assert [await nh.resource("a", lambda: open_number(1)) for _ in range(2)] == [1, 1]
        assert [await nh.resource("b", partial(open_number, each)) for each in (1, 2)] == [1, 1]
        assert [await nh.resource("c", first.open) for _ in range(2)] == [5, 5]
        with pytest.raises(ResourceConflictError, match=r"'a' of task run is opened by .*choose another"):
            await nh.resource("a", partial(open_number, 1))
        with pytest.raises(ResourceConflictError):
            await nh.resource("c", second.open)


async def test_an_opener_sees_the_context_variables_that_its_owner_began_with() -> None:
    seen: list[object] = []

    @asynccontextmanager
    async def open_it() -> AsyncGenerator[int, None]:
        step = None
        with pytest.raises(nh.NighthawkError, match="No step is active"):
            step = nh.get_current_step_context()
        seen.extend((CURRENT.get(), nh.current_task().id, nh.current_task().step_id, step))
        yield 5

    async def in_a_step() -> None:
        CURRENT.set("step")
        await nh.resource("thing", open_it, owner="run")

    CURRENT.set("run")
    async with nh.run(EXECUTOR), nh.open_tasks() as tasks:
        await tasks.start(inside_a_step, in_a_step)
    assert seen == ["run", "run", None, None]


async def test_a_resource_of_a_step_is_opened_inside_the_step() -> None:
    seen: list[object] = []

    @asynccontextmanager
    async def open_it() -> AsyncGenerator[int, None]:
        seen.append(nh.current_task().step_id)
        yield 5

    async def in_a_step() -> None:
        await nh.resource("thing", open_it, owner="step")
        seen.append(nh.current_task().step_id)

    async with nh.run(EXECUTOR):
        await inside_a_step(in_a_step)
    assert len(set(seen)) == 1
    assert seen[0] is not None


# Opening that fails, and callers that are cancelled


async def test_all_who_wait_get_the_error_and_the_next_caller_opens_anew() -> None:
    log, errors = Log(), list[Exception]()
    error = OSError("no")
    fails = [True]

    @asynccontextmanager
    async def open_it() -> AsyncGenerator[str, None]:
        async with log.opener(opening=error if fails else None)() as value:
            yield value

    async def ask(_: int) -> None:
        try:
            await nh.resource("thing", open_it)
        except OSError as raised:
            errors.append(raised)

    async with nh.run(EXECUTOR):
        await nh.parallel.map(ask, range(3))
        assert errors == [error] * 3
        fails.clear()
        assert await nh.resource("thing", open_it) == "thing"
    assert log == ["+thing", "-thing"]


async def test_a_cancelled_caller_leaves_the_others_waiting() -> None:
    may_open = anyio.Event()
    log = Log()

    @asynccontextmanager
    async def open_it() -> AsyncGenerator[str, None]:
        log.append("begun")
        await may_open.wait()
        async with log.opener()() as value:
            yield value

    values: list[str] = []

    async def ask() -> None:
        values.append(await nh.resource("thing", open_it))

    async with nh.run(EXECUTOR), anyio.create_task_group() as others:
        async with anyio.create_task_group() as cancelled:
            cancelled.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            others.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            cancelled.cancel_scope.cancel()
        may_open.set()
    assert values == ["thing"]
    assert log == ["begun", "+thing", "-thing"]


async def test_an_opening_that_nobody_waits_for_is_cancelled_and_the_next_waits_for_its_end() -> None:
    log = Log()

    @asynccontextmanager
    async def open_it() -> AsyncGenerator[str, None]:
        log.append("begun")
        try:
            if log.count("begun") == 1:
                await anyio.sleep_forever()
            yield "thing"
        finally:
            with anyio.CancelScope(shield=True):
                await checkpoint()
            log.append("ended")

    async with nh.run(EXECUTOR):
        async with anyio.create_task_group() as group:
            group.start_soon(nh.resource, "thing", open_it)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        assert await nh.resource("thing", open_it) == "thing"
    assert log == ["begun", "ended", "begun", "ended"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # Trio cancels no futures
async def test_an_opener_that_awaits_what_others_cancel_fails() -> None:
    @asynccontextmanager
    async def open_it() -> AsyncGenerator[int, None]:
        raise anyio.get_cancelled_exc_class()  # as asyncio raises it for a future that others cancel
        yield 5

    async with nh.run(EXECUTOR):
        with pytest.raises(CallCancelledError, match="'thing' of task run"):
            await nh.resource("thing", open_it)


async def test_the_owner_ends_while_something_that_it_does_not_own_waits() -> None:
    errors: list[Exception] = []
    waits = anyio.Event()

    @asynccontextmanager
    async def open_it() -> AsyncGenerator[int, None]:
        waits.set()
        await anyio.sleep_forever()
        yield 5

    async def ask() -> None:
        try:
            await nh.resource("thing", open_it)
        except ResourceOwnerError as error:
            errors.append(error)

    async with nh.run(EXECUTOR) as run:

        async def task() -> None:
            run.task_group.start_soon(ask)
            await waits.wait()

        async with nh.open_tasks() as tasks:
            await tasks.start(task)
        await anyio.wait_all_tasks_blocked()
        assert [str(each) for each in errors] == [
            "the resource 'thing' of task run/tasks[0]/task[0] was not opened: its owner has ended"
        ]


async def test_a_resource_that_waits_for_itself_is_refused() -> None:
    @asynccontextmanager
    async def open_it() -> AsyncGenerator[int, None]:
        yield await nh.resource("thing", open_it)

    @asynccontextmanager
    async def open_first() -> AsyncGenerator[int, None]:
        yield await nh.resource("second", open_second)

    @asynccontextmanager
    async def open_second() -> AsyncGenerator[int, None]:
        async with nh.open_tasks() as tasks:
            yield await tasks.start(partial(nh.resource, "first", open_first, owner="run"))

    async with nh.run(EXECUTOR):
        with pytest.raises(ResourceDeadlockError, match="'thing' → 'thing'"):
            await nh.resource("thing", open_it)
        with pytest.raises(ResourceDeadlockError, match="'second' → 'first' → 'second'"):
            await nh.resource("first", open_first)


async def test_resources_of_resources_are_closed_after_those_that_need_them() -> None:
    log = Log()

    @asynccontextmanager
    async def open_pool() -> AsyncGenerator[str, None]:
        connection = await nh.resource("connection", log.opener("connection"))
        async with log.opener("pool")() as pool:
            yield f"{pool} on {connection}"

    async with nh.run(EXECUTOR):
        assert await nh.resource("pool", open_pool) == "pool on connection"
    assert log == ["+connection", "+pool", "-pool", "-connection"]
