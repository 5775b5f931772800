"""`nh.unset`: the value of a variable that a block will set."""

import copy
import pickle

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    StepCall,
    StepResponse,
    pass_response,
    return_response,
)

pytestmark = pytest.mark.anyio


@nh.natural_function
async def count(text: str, again: bool = False) -> int:
    number: int = nh.unset
    """natural
    Set <:number> to the number of words of <text>.
    """
    if again:
        """natural
        Add one to <number>: <:number>.
        """
    return number


async def test_a_block_sets_it() -> None:
    calls: list[StepCall] = []

    def answer(call: StepCall) -> StepResponse:
        calls.append(call)
        return pass_response(number=len(calls) + 1)

    async with nh.run(CallbackExecutor(answer)):
        assert await count("two words", again=True) == 3
    assert "number" not in calls[0].step_locals
    assert calls[0].binding_types == {"number": int}
    assert calls[1].step_locals["number"] == 2


async def test_a_block_must_set_it() -> None:
    async with nh.run(ScriptedExecutor([pass_response()])):
        with pytest.raises(nh.ExecutionError, match="number"):
            await count("two words")


async def test_a_block_cannot_read_it() -> None:
    @nh.natural_function
    async def read() -> None:
        word: str = nh.unset
        """natural
        Print <word>.
        """
        del word

    async with nh.run(ScriptedExecutor([pass_response()])):
        with pytest.raises(UnboundLocalError, match="'word'"):
            await read()


@pytest.mark.parametrize("annotated", [False, True])
async def test_a_function_cannot_return_it(annotated: bool) -> None:
    @nh.natural_function
    async def perhaps(really: bool):
        word = nh.unset
        if really:
            """natural
            Set <:word>.
            """
        return word

    if annotated:
        perhaps.__wrapped__.__annotations__["return"] = str
        perhaps = nh.natural_function(perhaps.__wrapped__)
    async with nh.run(ScriptedExecutor([pass_response(word="x")])):
        assert await perhaps(True) == "x"
        with pytest.raises(UnboundLocalError, match="no block has set it"):
            await perhaps(False)


async def test_a_block_may_return_instead() -> None:
    async with nh.run(ScriptedExecutor([return_response("7")])):
        assert await count("seven") == 7


def test_it_is_one_object() -> None:
    assert pickle.loads(pickle.dumps(nh.unset)) is nh.unset
    assert copy.copy(nh.unset) is nh.unset
    assert copy.deepcopy(nh.unset) is nh.unset
    assert repr(nh.unset) == "nighthawk_async.unset"
    with pytest.raises(UnboundLocalError, match="no block has set it"):
        bool(nh.unset)
