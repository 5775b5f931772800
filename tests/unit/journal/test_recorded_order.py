"""The order of results in a later life that runs fewer calls at once."""

from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh

from .durable_runs import live, opened, shout
from .jumping_time import SlowModel

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


async def in_order(words: str, gates: dict[str, anyio.Event], word: str) -> str:
    """Shout a word after those that come before it."""
    for before in words[: words.index(word)]:
        await gates[before].wait()
    result = await shout(word)
    gates[word].set()
    return result


async def test_a_stream_keeps_its_order_with_less_room(tmp_path: Path) -> None:
    model = SlowModel()

    async def program(max_concurrent: int, **order: Any) -> list[str]:
        gates = {word: anyio.Event() for word in "abcd"}

        async def one(word: str) -> str:
            return await in_order(order.get("words", word), gates, word)

        async with nh.parallel.stream(one, "abcd", max_concurrent=max_concurrent) as stream:
            return [await anext(stream) for _ in "abcd"]

    with opened(tmp_path) as store:
        assert await live(store, model, lambda: program(4, words="dcba")) == ["D", "C", "B", "A"]
        for max_concurrent in (1, 2):
            assert await live(store, model, lambda: program(max_concurrent)) == ["D", "C", "B", "A"]  # noqa: B023
    assert len(model.prompts) == 4


async def test_a_race_is_won_again_with_less_room(tmp_path: Path) -> None:
    model = SlowModel()

    async def program(max_concurrent: int, **order: Any) -> str:
        gates = {word: anyio.Event() for word in "abc"}

        async def one(word: str) -> str:
            result = await in_order(order.get("words", word), gates, word)
            if result == "C":
                raise ValueError(result)
            return result

        return await nh.parallel.race(one, "abc", max_concurrent=max_concurrent)

    with opened(tmp_path) as store:
        assert await live(store, model, lambda: program(3, words="cba")) == "B"
        assert await live(store, model, lambda: program(1)) == "B"
    assert len(model.prompts) in (2, 3)  # the third may have been asked before the second one won
