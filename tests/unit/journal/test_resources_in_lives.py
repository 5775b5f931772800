"""Resources of durable runs: each life opens them anew, and what their openers ask is asked once."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response

pytestmark = pytest.mark.anyio


@nh.natural_function
async def think(number: int) -> int:
    result: int = 0
    """natural
    Set <:result> for <number>.
    """
    return result


async def test_each_life_opens_anew_and_asks_no_model_again(tmp_path: Path) -> None:
    asked: list[object] = []
    opened: list[int] = []

    def answer(call: StepCall) -> StepResponse:
        asked.append(call.step_locals["number"])
        return pass_response(result=10 * len(asked))

    @asynccontextmanager
    async def open_it() -> AsyncGenerator[int, None]:
        opened.append(await think(1) + await think(1))
        yield opened[-1]

    async def ask(turns: int) -> int:
        for _ in range(turns):
            await checkpoint()
        return await nh.resource("thing", open_it, owner="run")

    async def live(store: nh.journal.JournalStore, turns: list[int], fails: bool) -> list[int]:
        async with nh.run(CallbackExecutor(answer), journal=store, run_id="run-1"):
            values = await nh.parallel.map(ask, turns)
            values.append(await think(2))
            if fails:
                raise ValueError("the end of this life")
            return values

    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        with pytest.raises(ValueError, match="the end of this life"):
            await live(store, [5, 0], fails=True)
        assert await live(store, [0, 5], fails=False) == [30, 30, 30]
        tree = store.tree("run-1").snapshot()
    assert opened == [30, 30]
    assert asked == [1, 1, 2]
    assert [each.name for each in tree.walk()].count("think") == 3
