"""Programs that wait for each other, ended on every schedule: nothing comes out that nobody raised.

What `anyio` and `asyncio.TaskGroup` promise: a cancelled scope absorbs its cancellation, what a task raises
arrives alone. So no task that is being cancelled may report that another one was.
"""

from collections.abc import AsyncIterable, Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.actors import (
    Actor,
    Channel,
    Mailbox,
    Pool,
    Restart,
    SharedCell,
    SourceClosed,
    Supervisor,
    current_child,
    mutex,
    open_actor,
    select,
    semaphore,
)
from nighthawk_async.resilience import rate_limit, vote
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    tool_call,
)
from tests.faults.schedules import BACKENDS, ORDERS, Surprise, explore, ticks

PROGRAMS: dict[str, Callable[[int, int], Awaitable[None]]] = {}
"""Each takes two numbers of turns that its parts let the others have."""

TURNS = ((0, 0), (0, 2), (1, 0))
LONG = {
    "a_step_that_is_steered",
    "a_step_with_tools",
    "combinators",
    "questions_and_approvals",
    "steps_that_wait_to_be_admitted",
}


def program(function: Callable[[int, int], Awaitable[None]]) -> Callable[[int, int], Awaitable[None]]:
    PROGRAMS[function.__name__] = function
    return function


async def give(turns: int) -> int:
    await ticks(turns)
    return turns


class Giver(Actor):
    async def give(self, turns: int) -> int:
        return await give(turns)


@program
async def a_task_group_and_events(a: int, b: int) -> None:
    """What the others are measured by: nothing of the library in it."""
    ended = anyio.Event()

    async def work() -> None:
        try:
            await ticks(b)
        finally:
            ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await ticks(a)
        await ended.wait()


@program
async def tasks_that_are_awaited(a: int, b: int) -> None:
    async with nh.open_tasks() as tasks:
        first, second = tasks.start(give, b), tasks.start(give, b + 1)
        await ticks(a)
        assert await first + await second == 2 * b + 1


@program
async def tasks_that_await_each_other(a: int, b: int) -> None:
    async with nh.open_tasks() as tasks:
        first = tasks.start(give, b)

        async def wait_for_first() -> None:
            await first

        second = tasks.start(wait_for_first)
        await ticks(a)
        await first.wait_ended()
        assert first.status == "completed"
        await second


@program
async def tasks_that_are_awaited_elsewhere(a: int, b: int) -> None:
    async with anyio.create_task_group() as others, nh.open_tasks() as tasks:
        handle = tasks.start(give, b)

        async def wait() -> None:
            await ticks(a)
            await handle

        others.start_soon(wait)
        await ticks(a)
        await handle


@program
async def a_body_that_was_woken_by_a_message_before_it_awaits_a_task(a: int, b: int) -> None:
    mailbox: Mailbox[int] = Mailbox()

    async def send() -> None:
        await ticks(b)
        await mailbox.send(1)
        await ticks(b)

    async with nh.open_tasks() as tasks:
        sender = tasks.start(send)
        await ticks(a)
        await mailbox.receive()
        await sender


@program
async def a_task_that_is_asked_to_end(a: int, b: int) -> None:
    async def work() -> None:
        while not nh.parallel.cancel_requested():
            await checkpoint()
        await ticks(b)

    async with nh.open_tasks() as tasks:
        handle = tasks.start(work)
        await ticks(a)
        await handle.cancel_gracefully(500)


@program
async def blocks_within_blocks_of_tasks(a: int, b: int) -> None:
    async def own_tasks() -> None:
        async with nh.open_tasks() as tasks:
            first, second = tasks.start(give, a), tasks.start(give, b)
            await first
            await second

    async with nh.open_tasks() as tasks:
        handles = [tasks.start(own_tasks) for _ in range(2)]
        await ticks(b)
        for handle in handles:
            await handle


@program
async def a_block_that_waits_for_its_tasks(a: int, b: int) -> None:
    results: list[int] = []

    async def wait_for(handle: nh.parallel.TaskHandle[int]) -> None:
        results.append(await handle)

    async with nh.open_tasks(at_end="wait") as tasks:
        handle = tasks.start(give, a)
        for _ in range(2):
            tasks.start(wait_for, handle)
        await ticks(b)
    assert results == [a, a]


@program
async def mailboxes_of_tasks(a: int, b: int) -> None:
    async def serve() -> None:
        for _ in range(2):
            await nh.current_task().mailbox.receive()
            await ticks(b)

    async with nh.open_tasks() as tasks:
        server = tasks.start(serve)
        for number in range(2):
            await ticks(a)
            await server.mailbox.send(number)
        await server


@program
async def time_limits_within_time_limits(a: int, b: int) -> None:
    async with nh.deadline(500), nh.open_tasks() as tasks:
        handle = tasks.start(give, b)
        with anyio.move_on_after(400):
            await ticks(a)
            await handle


@program
async def a_pool(a: int, b: int) -> None:
    async with Pool(max_concurrent=1, max_queued=1) as pool:
        jobs = [await pool.submit(give, turns) for turns in (b, b, a)]
        await ticks(a)
        assert [await job for job in jobs] == [b, b, a]
    assert [job.status for job in jobs] == ["completed"] * 3


@program
async def submitters_of_a_full_pool(a: int, b: int) -> None:
    async def submit() -> None:
        job = await pool.submit(give, b)
        await ticks(a)
        await job

    async with Pool(max_concurrent=1, max_queued=0) as pool, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(submit)


@program
async def jobs_that_await_jobs(a: int, b: int) -> None:
    async def submit() -> int:
        return await (await pool.submit(give, a))

    async with Pool(max_concurrent=2) as pool, nh.open_tasks() as tasks:
        job, task = await pool.submit(submit), tasks.start(submit)
        await ticks(b)
        assert await job + await task == 2 * a


@program
async def askers_of_an_actor(a: int, b: int) -> None:
    async def ask() -> None:
        await ticks(a)
        assert await giver.ask(Giver.give, b) == b

    async with open_actor(Giver, capacity=1) as giver:
        await giver.tell(Giver.give, b)
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(ask)
        await giver.stop()


@program
async def actors_that_ask_each_other(a: int, b: int) -> None:
    async with open_actor(Giver) as first, open_actor(Giver) as second:

        async def pass_on(_: Giver) -> int:
            await ticks(a)
            return await second.ask(Giver.give, b)

        assert await first.ask(pass_on) == b


@program
async def a_supervisor(a: int, b: int) -> None:
    async def child() -> None:
        await current_child().wait_stop_requested()
        await ticks(b)

    async with Supervisor() as supervisor:
        supervisor.start("child", child, restart=Restart(mode="never"))
        giver = supervisor.start_actor("giver", Giver)
        await ticks(a)
        await giver.ask(Giver.give, b)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(giver.wait_ended)
            await giver.stop()


@program
async def a_channel_and_a_mailbox(a: int, b: int) -> None:
    channel, mailbox = Channel[int](), Mailbox[int](capacity=1)

    async def send() -> None:
        try:
            for number in range(2):
                await ticks(b)
                await channel.send(number)
                await mailbox.send(number)
        finally:
            channel.close()
            mailbox.close()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        for number in range(2):
            await ticks(a)
            assert (await channel.receive(), await mailbox.receive()) == (number, number)


@program
async def selects(a: int, b: int) -> None:
    channel, mailbox = Channel[int](), Mailbox[int](capacity=1)

    async def send() -> None:
        try:
            await ticks(b)
            await channel.send(1)
            await mailbox.send(1)
        finally:
            channel.close()
            mailbox.close()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        for _ in range(2):
            await ticks(a)
            async with select(mailbox.receiving(), channel.receiving(), timeout=500) as fired:
                assert not isinstance(fired, SourceClosed)


@program
async def locks(a: int, b: int) -> None:
    async def work() -> None:
        async with mutex("mutex", timeout=500):
            await ticks(b)
        async with semaphore("semaphore", capacity=2, permits=2):
            await ticks(a)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(work)


@program
async def a_shared_cell(a: int, b: int) -> None:
    cell = SharedCell(0)

    async def change() -> None:
        await ticks(b)
        cell.set(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(change)
        await ticks(a)
        assert (await cell.changed(since=0)).value == 1


@program
async def combinators(a: int, b: int) -> None:
    assert await parallel.map(give, [a, b, a], max_concurrent=2) == [a, b, a]
    assert (await parallel.settle(give, [a, b], max_concurrent=1)).values() == [a, b]
    assert await parallel.gather(give(a), give(b)) == [a, b]
    assert await parallel.race(give, [a, b]) in (a, b)


async def take(results: AsyncIterable[int], turns: int) -> None:
    async for _ in results:
        await ticks(turns)


@program
async def a_stream(a: int, b: int) -> None:
    async with parallel.stream(give, [a, b, a, b]) as results:
        await take(results, a)


@program
async def a_stream_that_two_take_from(a: int, b: int) -> None:
    async with (
        parallel.stream(give, [a, b, a, b], max_concurrent=2) as results,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(take, results, a)
        tasks.start_soon(take, results, b)


@program
async def resilience(a: int, b: int) -> None:
    assert await vote(give, count=3)(a) == a
    assert await parallel.map(rate_limit(per_minute=2)(give), [a, b]) == [a, b]


class Person:
    """Answers after a number of turns."""

    def __init__(self, turns: int) -> None:
        self._turns = turns

    async def ask(self, question: nh.human.Question) -> object:
        await ticks(self._turns)
        return "yes"

    async def approve(self, request: nh.human.ApprovalRequest) -> None:
        await ticks(self._turns)
        request.approve("Ann", digest=request.digest)


@program
async def questions_and_approvals(a: int, b: int) -> None:
    executor = CallbackExecutor(lambda call: pass_response())
    async with nh.run(executor, human=Person(a)), nh.open_tasks() as tasks:
        approval, answer = tasks.start(nh.request_approval, "go on"), tasks.start(nh.ask_user, "Go on?")
        await ticks(b)
        assert await answer == "yes"
        await approval


@nh.natural_function
async def use_tool(turns: int) -> int:
    result: int
    """natural
    Set <:result> with <give> of <turns>.
    """
    return result


@program
async def steps_that_wait_to_be_admitted(a: int, b: int) -> None:
    async def answer(call: StepCall) -> StepResponse:
        return pass_response(result=await give(a))

    executor = CallbackExecutor(answer)
    async with nh.run(executor, max_concurrent_steps=1), nh.open_tasks() as tasks:
        handles = [tasks.start(use_tool, a) for _ in range(2)]
        await ticks(b)
        assert [await handle for handle in handles] == [a, a]


def agent_executor() -> nh.AgentStepExecutor:
    responses: list[Any] = [
        model_response(
            tool_call("nh_eval", expression="await give(turns)"),
            tool_call("nh_assign", target_path="result", expression="give(turns)"),
        ),
        model_response(tool_call("nh_outcome", kind="pass")),
    ]
    return nh.AgentStepExecutor.from_model(model=ScriptedModel(responses))


@program
async def a_step_with_tools(a: int, b: int) -> None:
    async with nh.run(agent_executor()), nh.open_tasks() as tasks:
        handle = tasks.start(use_tool, a)
        await ticks(b)
        assert await handle == a


@program
async def a_step_that_is_steered(a: int, b: int) -> None:
    async with nh.run(agent_executor()), nh.open_tasks() as tasks:
        handle = tasks.start(use_tool, a)
        while handle.status == "pending":
            await checkpoint()
        await ticks(b)
        try:
            await handle.snapshot()
            handle.suspend()
            await handle.wait_suspended()
            handle.resume()
        except (
            parallel.NothingToControlError,
            nh.parallel.TaskEndedError,
        ):  # it was too quick, or is not that far
            await checkpoint()
        await handle


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_comes_out_that_nobody_raised(name: str, backend: str) -> None:
    turns_of, orders = (TURNS[1:], ORDERS[:1]) if name in LONG else (TURNS, ORDERS)
    surprises = [
        (turns, surprise)
        for turns in turns_of
        for surprise in explore(partial(PROGRAMS[name], *turns), backend=backend, orders=orders)
    ]
    assert surprises == []


async def forget_the_own_cancellation() -> None:
    """Waits for tasks, and reports that they were cancelled before it has looked whether it was itself."""
    is_cut = False

    async def work(turns: int, ended: anyio.Event) -> None:
        nonlocal is_cut
        try:
            await ticks(turns)
        except anyio.get_cancelled_exc_class():
            is_cut = True
            raise
        finally:
            ended.set()

    async with anyio.create_task_group() as tasks:
        endings = [anyio.Event(), anyio.Event()]
        for turns, ended in enumerate(endings):
            tasks.start_soon(work, turns, ended)
        for ended in endings:
            await ended.wait()
        if is_cut:
            raise LookupError("it was cancelled")


def test_the_schedules_find_a_wait_that_forgets_its_own_cancellation() -> None:
    found = explore(forget_the_own_cancellation, backend="asyncio", endings=("scope",))
    assert found
    assert all("LookupError: it was cancelled" in surprise.error for surprise in found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_schedules_are_the_same_every_time_and_reach_every_step(backend: str) -> None:
    reached: list[str] = []

    async def note() -> None:
        for step in range(3):
            reached.append(f"step {step}")
            await checkpoint()

    def explored() -> tuple[list[Surprise], list[str]]:
        reached.clear()
        return explore(note, backend=backend, endings=("scope", "time")), list(reached)

    first = explored()
    assert first == explored()
    assert first[0] == []
    assert len(set(first[1])) == 3
