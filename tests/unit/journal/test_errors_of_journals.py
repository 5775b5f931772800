"""Errors of journals end the run: no combinator, policy, supervisor or pool goes on after one."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.journal import JournalError, RunTakenOverError

from .durable_runs import live, opened, shouting

pytestmark = pytest.mark.anyio


class Fault:
    """Counts the calls that end with an error of the journal, some of them as a cause or in a group."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.calls = 0

    async def __call__(self, *_: object) -> str:
        self.calls += 1
        taken = RunTakenOverError("another process has taken the run over")
        if self.kind == "bare":
            raise taken
        if self.kind == "cause":
            raise ModelStatusError("busy", status=503, is_transient=True) from taken
        raise ExceptionGroup("several", [taken, ValueError("other")])


async def in_settle(fault: Fault) -> object:
    return await nh.parallel.settle(fault, range(3), max_concurrent=1)


async def in_race(fault: Fault) -> object:
    async def one(number: int) -> str:
        return await fault() if number == 0 else "won"

    return await nh.parallel.race(one, range(3), max_concurrent=1)


async def in_map(fault: Fault) -> object:
    return await nh.parallel.map(fault, range(3), max_concurrent=1)


async def in_gather(fault: Fault) -> object:
    return await nh.parallel.gather(fault(), return_exceptions=True)


async def in_stream(fault: Fault) -> object:
    async with nh.parallel.stream(fault, range(3), max_concurrent=1) as results:
        return [result async for result in results]


async def in_retrying(fault: Fault) -> object:
    @nh.resilience.retrying(attempts=3, wait=0, on=Exception)
    async def call() -> str:
        return await fault()

    return await call()


async def in_fallback(fault: Fault) -> object:
    @nh.resilience.fallback(to=_second, on=Exception)
    async def call() -> str:
        return await fault()

    return await call()


async def in_fallback_to_a_default(fault: Fault) -> object:
    @nh.resilience.fallback(default="default", on=Exception)
    async def call() -> str:
        return await fault()

    return await call()


async def _second() -> str:
    return "second"


async def in_vote(fault: Fault) -> object:
    calls: list[int] = []

    @nh.resilience.vote(count=3, min_success=1)
    async def call() -> str:
        calls.append(1)
        return await fault() if len(calls) == 1 else "voted"

    return await call()


async def in_supervisor(fault: Fault) -> object:
    async with nh.actors.Supervisor() as supervisor:
        supervisor.start("child", fault)
        await anyio.sleep_forever()
    raise AssertionError


async def in_pool_without_a_caller(fault: Fault) -> object:
    async with nh.actors.Pool(max_concurrent=1) as pool:
        await pool.submit(fault)
        await anyio.sleep_forever()
    raise AssertionError


async def in_pool(fault: Fault) -> object:
    async with nh.actors.Pool(max_concurrent=1) as pool:
        return await (await pool.submit(fault))


async def in_task_that_nobody_awaits(fault: Fault) -> object:
    async with nh.open_tasks(at_end="wait") as tasks:
        tasks.start(fault)


@pytest.mark.parametrize("kind", ["bare", "cause", "group"])
@pytest.mark.parametrize(
    "program",
    [
        in_settle,
        in_race,
        in_map,
        in_gather,
        in_stream,
        in_retrying,
        in_fallback,
        in_fallback_to_a_default,
        in_vote,
        in_supervisor,
        in_pool_without_a_caller,
        in_pool,
        in_task_that_nobody_awaits,
    ],
)
async def test_an_error_of_a_journal_ends_the_run(
    tmp_path: Path, program: Callable[[Fault], Awaitable[object]], kind: str
) -> None:
    fault = Fault(kind)
    model = shouting()
    with opened(tmp_path) as store:
        with anyio.fail_after(240), pytest.raises(Exception) as caught:  # noqa: PT011
            await live(store, model, lambda: program(fault))
        assert store.runs()[0].status == "failed"
    assert fault.calls == 1
    assert _found(caught.value)


def _found(error: BaseException | None) -> bool:
    if isinstance(error, JournalError):
        return True
    if isinstance(error, ExceptionGroup):
        return any(map(_found, error.exceptions))
    return error is not None and _found(error.__cause__)
