"""Natural functions with `on=`."""

import inspect
import os
from collections.abc import AsyncGenerator, Generator

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.distributed import CrossingError
from nighthawk_async.errors import NighthawkError
from nighthawk_async.policies.permissions.callables import faithfully_wrapped, proven_names_of
from nighthawk_async.testing import CallbackExecutor
from tests import placed_natural as placed

pytestmark = pytest.mark.anyio


async def test_each_call_runs_on_the_placement_and_calls_inside_it_where_they_are() -> None:
    async with placed.workers, nh.run(CallbackExecutor(placed.answer)):
        process = await placed.process_of(1, word="b")
        assert process != os.getpid()
        assert await placed.process_of_inner() == process
        assert await nh.tool(placed.process_tool)(1) == process
        assert await parallel.map(placed.process_of, [1, 2]) == [process] * 2
        assert await parallel.map(placed.process_of, [1], on=placed.workers) == [process]
        assert await parallel.map(placed.process_in_thread, [1, 2]) == [process] * 2
        assert await anyio.to_thread.run_sync(placed.process_in_thread, 1) == process
        assert await placed.process_of_decorated(1) == process
        with pytest.raises(CrossingError, match=r"Holder.process_of .* no such function at its top level"):
            await placed.Holder().process_of()
        with pytest.raises(NighthawkError, match=r"process_in_thread\(\) has on= and is not `async def`"):
            placed.process_in_thread(1)
        with pytest.raises(CrossingError, match=r"the argument 'number' of tests.placed_natural:process_of"):
            await placed.process_of(object())  # type: ignore[arg-type]


async def test_a_policy_is_around_the_function_once_on_its_worker() -> None:
    async with placed.workers, nh.run(CallbackExecutor(placed.answer), policies=placed.Negated()):
        process = -await placed.process_of(1)
        assert process > 0
        assert process != os.getpid()
        assert await anyio.to_thread.run_sync(placed.process_in_thread, 1) == -process
        assert await placed.process_of_decorated(1) == -process


async def test_a_placement_that_is_not_entered_is_told() -> None:
    async with nh.run(CallbackExecutor(placed.answer)):
        with pytest.raises(parallel.PlacementClosedError, match="put `async with` around the calls"):
            await placed.process_of(1)
        with pytest.raises(parallel.PlacementClosedError):
            await anyio.to_thread.run_sync(placed.process_in_thread, 1)


async def test_a_placement_can_be_entered_again() -> None:
    here = parallel.Here(max_concurrent=1)

    @nh.natural_function(on=here)
    async def process_of() -> int:
        """natural
        Set <:process>.
        """
        return process  # type: ignore[name-defined]

    for _ in range(2):
        async with here, nh.run(CallbackExecutor(placed.answer)):
            assert await process_of() == os.getpid()
        with pytest.raises(parallel.PlacementClosedError, match="put `async with` around the calls"):
            await process_of()


def test_it_keeps_signature_and_kind() -> None:
    signature = inspect.signature(placed.process_of)
    assert str(signature) == "(number: int = 0, *, word: str = 'a') -> int"
    assert inspect.iscoroutinefunction(placed.process_of)
    assert not inspect.iscoroutinefunction(placed.process_in_thread)
    assert placed.process_of.__qualname__ == "process_of"


def test_permissions_see_the_function_behind_it() -> None:
    assert "tests.placed_natural.process_of" in proven_names_of(placed.process_of)
    assert faithfully_wrapped(placed.process_of) is placed.process_of.__wrapped__  # type: ignore[attr-defined]


def test_what_cannot_be_placed_is_refused() -> None:
    with pytest.raises(NighthawkError, match=r"numbers\(\) is a generator, which cannot have on="):

        @nh.natural_function(on=parallel.Here())
        def numbers() -> Generator[int, None, None]:
            """natural
            Set <:number>.
            """
            yield number  # type: ignore[name-defined]

    with pytest.raises(NighthawkError, match="is a generator"):

        @nh.natural_function(on=parallel.Here())
        async def more() -> AsyncGenerator[int, None]:
            """natural
            Set <:number>.
            """
            yield number  # type: ignore[name-defined]

    for wrong in ("workers", parallel.Here):
        with pytest.raises(TypeError, match="on= is a placement"):
            nh.natural_function(on=wrong)  # type: ignore[call-overload]
