"""Variables that a function returns as they stand have the type that it returns."""

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor, pass_response, return_response
from tests.specification.scripted_steps import PASS, ScriptedSteps, assigning, executing

pytestmark = pytest.mark.anyio


@dataclass
class Reply:
    text: str
    stars: int = 0


Doubled = Annotated[int, AfterValidator(lambda value: value * 2)]


@nh.natural_function
async def reply(mail: str) -> Reply:
    """natural
    Answer <mail>: set <:response>.
    """
    return response


async def type_of(function: Any, *values: Any, **committed: Any) -> object:
    executor = ScriptedExecutor([pass_response(**committed)])
    async with nh.run(executor):
        await function(*values)
    return executor.calls[0].binding_types


async def test_the_model_is_told_the_type_and_the_value_is_made_of_it() -> None:
    steps = ScriptedSteps(
        (assigning("response", "{'text': 3}"), PASS), (executing("response = Reply('hi')"), PASS)
    )
    async with nh.run(steps.executor):
        assert await reply("hello") == Reply("hi")
    assert "- response: Reply" in str(steps.model.requests[0].system_prompt)
    assert "text" in str(steps.model.requests[1].messages[-1])  # refused before the function returns it
    async with nh.run(ScriptedExecutor([pass_response(response={"text": "yes", "stars": 1})])):
        assert await reply("hello") == Reply("yes", 1)


async def test_a_value_is_converted_once() -> None:
    @nh.natural_function
    async def double() -> Doubled:
        number = None
        """natural
        Set <:number>.
        """
        return number  # type: ignore[return-value]

    async with nh.run(ScriptedExecutor([pass_response(number=4)])):
        assert await double() == 8


async def test_in_a_loop_and_where_a_block_returns_itself() -> None:
    @nh.natural_function
    async def retry() -> list[int]:
        found = nh.unset
        for _ in range(2):
            """natural
            Set <:found>.
            """
        return found  # type: ignore[return-value]

    executor = ScriptedExecutor([pass_response(found=[1]), pass_response(found=["2"])])
    async with nh.run(executor):
        assert await retry() == [2]
    assert [call.binding_types for call in executor.calls] == [{"found": list[int]}] * 2

    @nh.natural_function
    async def either() -> str:
        found = None
        """natural
        Set <:found>, or return.
        """
        return found  # type: ignore[return-value]

    async with nh.run(ScriptedExecutor([return_response("'mine'")])):
        assert await either() == "mine"
    async with nh.run(ScriptedExecutor([pass_response()])):
        with pytest.raises(nh.ExecutionError):
            await either()


async def test_a_variable_that_anything_else_happens_to_keeps_its_own_type() -> None:
    @nh.natural_function
    async def checked() -> str:
        found = None
        """natural
        Set <:found>.
        """
        if found is None:
            return "nothing"
        return found

    @nh.natural_function
    async def parsed() -> int:
        """natural
        Set <:found>.
        """
        found = int(found)  # type: ignore[has-type]
        return found  # noqa: RET504

    @nh.natural_function
    async def refined() -> int:
        """natural
        Set <:found>.
        """
        """natural
        Make a number of <found> and set <:found>.
        """
        return found

    @nh.natural_function
    async def declared() -> object:
        found: str = ""
        """natural
        Set <:found>.
        """
        return found

    @nh.natural_function
    async def wrapped() -> list[str]:
        """natural
        Set <:found>.
        """
        return [found]

    @nh.natural_function
    async def unknown() -> "Nowhere":  # type: ignore[name-defined]
        """natural
        ---
        deny: [return]
        ---
        Set <:found>.
        """
        return found

    @nh.natural_function
    async def nothing() -> None:
        """natural
        Set <:found>.
        """
        return found

    assert await type_of(checked, found=None) == {"found": object}
    assert await type_of(parsed, found="3") == {"found": object}
    assert await type_of(declared, found="3") == {"found": str}
    assert await type_of(wrapped, found="3") == {"found": object}
    executor = ScriptedExecutor([pass_response(found=None), pass_response(found=3)])
    async with nh.run(executor):
        assert await refined() == 3
    assert executor.calls[0].binding_types == {"found": object}
    for function in (unknown, nothing):
        executor = ScriptedExecutor([pass_response(found=None)])
        async with nh.run(executor):
            try:
                await function()
            except nh.NighthawkError:
                assert function is unknown
        assert executor.calls[0].binding_types == {"found": object}


def test_synchronous_functions_and_methods() -> None:
    class Desk:
        @nh.natural_function
        def answer(self, mail: str) -> Reply | None:
            """natural
            Answer <mail>: set <:_response> and <:note>.
            """
            return _response  # type: ignore[name-defined]

    executor = ScriptedExecutor([pass_response(_response={"text": "a"}, note=1)])
    with nh.run(executor):
        assert Desk().answer("?") == Reply("a")
