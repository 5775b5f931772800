"""Errors of calls on workers that are hard to send: they reach the caller, and no other call notices."""

import asyncio
from typing import Any

import anyio
import pytest

from nighthawk_async import parallel
from nighthawk_async.distributed import RemoteCallError
from nighthawk_async.placements import PlacedCall, PlacedJob
from tests.in_memory_workers import InMemoryWorkers
from tests.odd_errors import ERRORS, StopEverything, fail_oddly, fail_oddly_in_thread

pytestmark = pytest.mark.anyio

EXPECTED: dict[str, tuple[type[BaseException], str]] = {
    "unreadable": (RemoteCallError, "UnreadableError"),
    "no text": (RemoteCallError, "an error that cannot be shown"),
    "surrogates in notes": (ValueError, "noted"),
    "no list of notes": (ValueError, "noted"),
    "no exception": (StopEverything, "all"),
    "interrupt": (KeyboardInterrupt, ""),
    "exit": (SystemExit, "3"),
    "generator": (GeneratorExit, "no generator"),
    "group": (BaseExceptionGroup, "both"),
}


async def error_of(job: PlacedJob) -> BaseException:
    try:
        await job.wait()
    except BaseException as error:
        return error
    raise AssertionError("the call did not fail")


@pytest.mark.parametrize("kind", EXPECTED)
async def test_an_odd_error_is_raised_to_the_caller_and_to_nobody_else(kind: str) -> None:
    async with InMemoryWorkers(1) as workers:
        neighbor = await workers.start(PlacedCall(function=fail_oddly, args=("",)))
        error = await error_of(await workers.start(PlacedCall(function=fail_oddly, args=(kind,))))
        assert await neighbor.wait() == "unharmed"
        assert len(workers.links) == 1, "the worker has gone on"
    expected, text = EXPECTED[kind]
    assert type(error) is expected
    assert text in str(error)


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_cancellation_of_another_event_loop_is_told_in_words(anyio_backend: Any) -> None:
    """It would be a cancellation in a program on asyncio."""
    assert isinstance(ERRORS["cancellation of asyncio"](), asyncio.CancelledError)
    async with InMemoryWorkers(1) as workers:
        with pytest.raises(RemoteCallError, match="CancelledError: not here"):
            await parallel.map(fail_oddly, ["cancellation of asyncio"], on=workers)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_call_that_cancels_itself_ends_alone(anyio_backend: Any) -> None:
    async with InMemoryWorkers(1) as workers:
        neighbor = await workers.start(PlacedCall(function=fail_oddly, args=("",)))
        own = await workers.start(PlacedCall(function=fail_oddly, args=("cancellation of asyncio",)))
        assert type(await error_of(own)) is parallel.CallCancelledError
        assert await neighbor.wait() == "unharmed"
        assert len(workers.links) == 1, "the worker has gone on"


async def test_an_error_of_the_main_module_has_the_name_that_the_program_knows() -> None:
    """The module has another name on workers."""
    async with InMemoryWorkers(1) as workers:
        error = await error_of(await workers.start(PlacedCall(function=fail_oddly, args=("main module",))))
    assert str(error) == "__main__.MainModuleError: no pickle"


@pytest.mark.parametrize(
    ("kind", "expected"), [("python ends", SystemExit), ("no exception", StopEverything)]
)
async def test_an_odd_error_of_a_thread_is_raised_bare(kind: str, expected: type[BaseException]) -> None:
    async with InMemoryWorkers(1) as workers:
        job = await workers.start(PlacedCall(function=fail_oddly_in_thread, args=(kind,)))
        assert type(await error_of(job)) is expected


ATTEMPTS: list[str] = []


async def wait_first(kind: str) -> str:
    """Wait for ever the first time."""
    ATTEMPTS.append(kind)
    if len(ATTEMPTS) == 1:
        await anyio.sleep_forever()
    return "placed again"


async def test_a_worker_that_fails_does_not_tell_its_calls_to_be_cancelled() -> None:
    """They are placed again."""

    def fail(body: bytes) -> None:
        raise anyio.BrokenResourceError

    ATTEMPTS.clear()
    async with InMemoryWorkers(1) as workers:
        job = await workers.start(PlacedCall(function=wait_first, args=("a",)))
        await anyio.wait_all_tasks_blocked()
        workers.links["worker-0"].worker._take = fail  # type: ignore[method-assign]
        for kind in ("b", "c"):  # the worker waits already for the next message
            await workers.start(PlacedCall(function=wait_first, args=(kind,)))
        assert await job.wait() == "placed again"
        assert len(workers.links) == 2
