"""Specification 9: the value a natural function returns."""

from typing import Self

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor, pass_response, return_response

pytestmark = pytest.mark.anyio


@nh.natural_function
async def average(numbers: list[int]) -> float:
    """natural
    Set <:result> to the average of <numbers>.
    """
    result: float
    return result


@nh.natural_function
async def whatever(numbers):  # type: ignore[no-untyped-def]
    """natural
    Return something about <numbers>.
    """
    return "the body's own"


async def test_9_the_body_returns_a_variable_that_the_step_updated() -> None:
    async with nh.run(ScriptedExecutor([pass_response(result=2.5)])):
        assert await average([2, 3]) == 2.5


async def test_9_a_return_outcome_returns_the_validated_value_immediately() -> None:
    async with nh.run(ScriptedExecutor([return_response("'2.5'")])):
        assert await average([2, 3]) == 2.5


async def test_9_without_an_annotation_any_value_is_returned_as_it_is() -> None:
    numbers = [1]
    async with nh.run(ScriptedExecutor([return_response("numbers"), pass_response()])):
        assert await whatever(numbers) is numbers
        assert await whatever(numbers) == "the body's own"


async def test_9_a_function_annotated_none_returns_none_only() -> None:
    @nh.natural_function
    async def nothing() -> None:
        """natural
        Do nothing.
        """

    async with nh.run(ScriptedExecutor([return_response("None"), return_response("3")])):
        assert await nothing() is None  # type: ignore[func-returns-value]
        with pytest.raises(nh.ExecutionError, match="the return value must be None"):
            await nothing()


async def test_9_every_step_of_a_loop_may_return() -> None:
    @nh.natural_function
    async def find(words: list[str]) -> str:
        for word in words:
            """natural
            Return <word> when it is a fruit.
            """
            assert word == "stone"
        return "none"

    script = [pass_response(), return_response("word")]
    executor = ScriptedExecutor(script)
    async with nh.run(executor):
        assert await find(["stone", "pear", "plum"]) == "pear"
    assert len(executor.calls) == 2


async def test_9_a_return_annotation_that_cannot_be_resolved_is_an_execution_error() -> None:
    @nh.natural_function
    async def lost() -> "Nowhere":  # type: ignore[name-defined]
        """natural
        Return it.
        """

    async with nh.run(ScriptedExecutor([return_response("3")])):
        with pytest.raises(nh.ExecutionError, match=r"annotation of the return value.*Nowhere"):
            await lost()


class Builder:
    @nh.natural_function
    async def build(self) -> "Self":
        """natural
        Return <self>.
        """
        return self


async def test_9_a_method_may_promise_to_return_itself() -> None:
    builder = Builder()
    async with nh.run(ScriptedExecutor([return_response("self")])):
        assert await builder.build() is builder


@nh.natural_function
async def add_one(number: int) -> int:
    total: int = 0
    """natural
    Set <:total> to <number> and return one more.
    """
    return total


class CommittingExecutor:
    async def run_step_async(self, **arguments: object) -> tuple[nh.executors.StepOutcome, dict[str, object]]:
        return nh.executors.ReturnStepOutcome(return_expression="total + 1"), {"total": "41"}


async def test_9_the_return_expression_sees_the_validated_bindings_that_are_committed_with_it() -> None:
    async with nh.run(CommittingExecutor()):
        assert await add_one(1) == 42
