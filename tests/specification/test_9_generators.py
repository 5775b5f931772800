"""Specification 9 for generators: `return` ends them, with the type their annotation gives the return."""

from collections.abc import AsyncIterator, Generator, Iterator

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor, pass_response, return_response


@nh.natural_function
def count_up() -> Generator[int, None, int]:
    yield 1
    """natural
    Return how it went, or go on.
    """
    yield 2


@nh.natural_function
def count_on() -> Iterator[int]:
    yield 1
    """natural
    Return how it went.
    """


@nh.natural_function
async def count_slowly() -> AsyncIterator[int]:
    yield 1
    """natural
    Return, or go on.
    """
    yield 2


def value_returned_by(generator: Iterator[int]) -> object:
    next(generator)
    with pytest.raises(StopIteration) as stopped:
        next(generator)
    return stopped.value.value


def test_9_a_generator_returns_a_value_of_the_type_its_annotation_names_for_that() -> None:
    with nh.run(ScriptedExecutor([return_response("'7'"), return_response("'seven'")])):
        assert value_returned_by(count_up()) == 7
        generator = count_up()
        next(generator)
        with pytest.raises(nh.ExecutionError, match="the return value must be int"):
            next(generator)


def test_9_an_iterator_annotation_says_nothing_of_the_value_returned() -> None:
    with nh.run(ScriptedExecutor([return_response("'anything'")])):
        assert value_returned_by(count_on()) == "anything"


@pytest.mark.anyio
async def test_9_return_ends_an_async_generator() -> None:
    async with nh.run(ScriptedExecutor([return_response("'dropped'"), pass_response()])):
        assert [number async for number in count_slowly()] == [1]
        assert [number async for number in count_slowly()] == [1, 2]
