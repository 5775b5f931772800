"""Resources of tasks, steps and runs, ended at any moment: each is closed, once, and in time."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response
from tests.faults.cancellation_points import cancel_at
from tests.faults.schedules import BACKENDS, Surprise, explore, ticks


class Ledger:
    """Books every use of resources, and notices one that is used when it is not open."""

    def __init__(self) -> None:
        self.live: list[str] = []
        self.opened = 0
        self.problems: list[str] = []

    def opener(self, name: str, turns: int = 1) -> Callable[[], AbstractAsyncContextManager[str]]:
        """An opener that takes a number of turns to open and to close, and holds a task group open."""

        @asynccontextmanager
        async def open_it() -> AsyncGenerator[str, None]:
            await ticks(turns)
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep_forever)
                self.live.append(name)
                self.opened += 1
                try:
                    yield name
                finally:
                    with anyio.CancelScope(shield=True):
                        await ticks(turns)
                    if self.live[-1] != name:
                        self.problems.append(f"{name} is closed before {self.live[-1]}")
                    self.live.remove(name)
                    group.cancel_scope.cancel()

        return open_it

    async def use(self, name: str, **options: Any) -> None:
        """Use a resource for some time."""
        await nh.resource(name, self.opener(name), **options)
        try:
            await ticks(2)
        finally:
            if name not in self.live:
                self.problems.append(f"{name} is used and not open")


async def use_everything(ledger: Ledger) -> None:
    async def execute(call: StepCall) -> StepResponse:
        await ledger.use("step", owner="step")
        return pass_response()

    async def task() -> None:
        await ledger.use("task")
        await nh.step("Work.")

    async with nh.run(CallbackExecutor(execute)):
        await ledger.use("run", owner="run")
        async with nh.open_tasks(at_end="wait") as tasks:
            tasks.start(task)
            await ledger.use("run")


async def share_one(ledger: Ledger) -> None:
    executor = CallbackExecutor(lambda call: pass_response())
    async with nh.run(executor), nh.open_tasks(at_end="wait") as tasks:
        tasks.start(partial(ledger.use, "shared", owner="run"))
        tasks.start(partial(ledger.use, "shared", owner="parent"))


async def lean_on_each_other(ledger: Ledger) -> None:
    @asynccontextmanager
    async def open_upper() -> AsyncGenerator[str, None]:
        await nh.resource("lower", ledger.opener("lower"))
        async with ledger.opener("upper")() as value:
            yield value

    async with nh.run(CallbackExecutor(lambda call: pass_response())):
        await nh.resource("upper", open_upper)
        await ledger.use("lower")


async def talk_to_a_server(ledger: Ledger) -> None:
    """A session as that of an MCP server: a task that reads, a handshake, and a farewell."""

    @asynccontextmanager
    async def open_session() -> AsyncGenerator[Callable[[str], Awaitable[str]], None]:
        questions, asked = anyio.create_memory_object_stream[str](0)
        answers, answered = anyio.create_memory_object_stream[str](0)

        async def serve(*, task_status: TaskStatus[None]) -> None:  # "die" ends the session
            task_status.started()
            async with asked, answers:
                async for question in asked:
                    await answers.send(question.upper())
                    if question == "die":
                        outer.cancel_scope.cancel()

        async def ask(question: str) -> str:
            await questions.send(question)
            return await answered.receive()

        async with questions, answered, anyio.create_task_group() as outer:
            await outer.start(serve)
            async with anyio.create_task_group() as inner:
                inner.start_soon(anyio.sleep_forever)
                await ask("hello")
                ledger.live.append("session")
                ledger.opened += 1
                try:
                    yield ask
                finally:
                    with anyio.CancelScope(shield=True):
                        await ticks(2)
                    ledger.live.remove("session")
                    inner.cancel_scope.cancel()
                    outer.cancel_scope.cancel()

    async def ask_it(question: str) -> None:
        ask = await nh.resource("server", open_session, owner="run")
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await ask(question)

    async with nh.run(CallbackExecutor(lambda call: pass_response())):
        await ask_it("how are you")
        async with nh.open_tasks(at_end="wait") as tasks:
            tasks.start(partial(ask_it, "and now"))
        await ask_it("die")
        await ticks(6)
        await ask_it("again")


PROGRAMS: dict[str, Callable[[Ledger], Awaitable[None]]] = {
    each.__name__: each for each in (use_everything, share_one, lean_on_each_other, talk_to_a_server)
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_on_every_schedule_each_resource_is_closed_and_no_error_appears(name: str, backend: str) -> None:
    found: list[Surprise | str] = []
    opened: set[int] = set()

    async def audited() -> None:
        ledger = Ledger()
        try:
            await PROGRAMS[name](ledger)
        finally:
            opened.add(ledger.opened)
            found.extend(ledger.problems)
            found.extend(f"{each} is left open" for each in ledger.live)

    found += explore(audited, backend=backend)
    assert found == []
    assert len(opened) > 1, "it was never ended in the middle"


@pytest.mark.anyio
@pytest.mark.parametrize("name", PROGRAMS)
async def test_cancelled_at_any_await_everything_is_closed(name: str) -> None:
    wait = 1
    while True:
        ledger = Ledger()
        with anyio.fail_after(240):
            is_reached = await cancel_at(wait, partial(PROGRAMS[name], ledger))
        assert (ledger.live, ledger.problems) == ([], []), f"cancelled at wait {wait}"
        if not is_reached:
            break
        wait += 1
    assert wait > 4


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["task", "run", "parent"]),
            st.integers(0, 3),
            st.booleans(),
        ),
        max_size=8,
    )
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_any_mix_of_callers_opens_each_resource_once_for_each_owner(
    backend: str, callers: list[tuple[str, Any, int, bool]]
) -> None:
    ledger = Ledger()
    values: dict[tuple[str, str], set[int]] = {}

    async def ask(name: str, owner: Any, turns: int, is_cancelled: bool) -> None:
        await ticks(turns)
        with anyio.CancelScope() as scope:
            if is_cancelled:
                scope.cancel()
            opener = partial(_numbered, ledger, f"{owner} {name}")
            value = await nh.resource(name, opener, owner=owner)
            values.setdefault((name, "run" if owner == "parent" else owner), set()).add(value)

    async def main() -> None:
        async with nh.run(CallbackExecutor(lambda call: pass_response())), nh.open_tasks() as tasks:

            async def work() -> None:
                async with anyio.create_task_group() as group:
                    for caller in callers:
                        group.start_soon(ask, *caller)

            await tasks.start(work)
            await checkpoint()

    anyio.run(main, backend=backend)
    assert ledger.live == []
    assert all(len(each) == 1 for each in values.values())


@asynccontextmanager
async def _numbered(ledger: Ledger, name: str) -> AsyncGenerator[int, None]:
    await checkpoint()
    ledger.opened += 1
    ledger.live.append(name)
    number = ledger.opened
    yield number
    ledger.live.remove(name)


@pytest.mark.anyio
async def test_an_object_that_nobody_waits_for_any_more_is_closed_to_the_end() -> None:
    closed: list[str] = []

    class Browser:
        async def aclose(self) -> None:
            await ticks(3)
            closed.append("browser")

    async def open_browser() -> Browser:
        with anyio.CancelScope(shield=True):  # as one that starts a process
            asking.set()
            await ticks(5)
        return Browser()

    async with nh.run(CallbackExecutor(lambda call: pass_response())):
        asking = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(partial(nh.resource, "browser", open_browser))
            await asking.wait()
            group.cancel_scope.cancel()
    assert closed == ["browser"]
