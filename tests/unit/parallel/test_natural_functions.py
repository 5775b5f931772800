"""Natural functions in combinators, async and synchronous."""

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response

pytestmark = pytest.mark.anyio


@nh.natural_function
async def shout(text: str) -> str:
    """natural
    Set <:result> to <text> in capitals.
    """
    result: str
    return result


@nh.natural_function
def shout_in_thread(text: str) -> str:
    """natural
    Set <:result> to <text> in capitals.
    """
    result: str
    return result


async def answer(call: StepCall) -> StepResponse:
    await anyio.lowlevel.checkpoint()
    text = str(call.step_locals["text"])
    if text == "wrong":
        raise nh.ExecutionError(text)
    if text == "forever":
        await anyio.sleep_forever()
    return pass_response(result=text.upper())


@pytest.mark.parametrize("function", [shout, shout_in_thread])
async def test_natural_functions_run_in_parallel(function: parallel.AnyFunction[str, str]) -> None:
    texts = [f"text {number}" for number in range(10)]
    capitals = [text.upper() for text in texts]
    async with nh.run(CallbackExecutor(answer)):
        assert await parallel.map(function, texts, max_concurrent=3) == capitals
        assert (await parallel.settle(function, [*texts, "wrong"])).values() == capitals
        async with parallel.stream(function, texts) as results:
            assert sorted([result async for result in results]) == capitals
        assert await parallel.race(function, ["wrong", "right", "forever"]) == "RIGHT"


@pytest.mark.parametrize("function", [shout, shout_in_thread])
async def test_the_first_failing_step_ends_the_others_and_arrives_bare(
    function: parallel.AnyFunction[str, str],
) -> None:
    async with nh.run(CallbackExecutor(answer)):
        with pytest.raises(nh.ExecutionError, match="wrong"):
            await parallel.map(function, ["forever", "wrong", "forever"])


@pytest.mark.parametrize("function", [shout, shout_in_thread])
async def test_the_deadline_ends_the_steps(function: parallel.AnyFunction[str, str]) -> None:
    async with nh.run(CallbackExecutor(answer)):
        with pytest.raises(parallel.DeadlineExceededError):
            await parallel.map(function, ["forever"] * 3, deadline=0.05)


async def test_steps_can_be_gathered() -> None:
    async with nh.run(CallbackExecutor(answer)):
        assert await parallel.gather(shout("a"), shout("b")) == ["A", "B"]
