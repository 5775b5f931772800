"""Forks and replays at every place of a run with all that is recorded."""

from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.errors import NighthawkError
from nighthawk_async.journal import ReplayEndError
from tests.unit.policies.human_handlers import answering

from .durable_runs import AnsweringModel, opened
from .test_run_tree import answer, send, shout, weigh

pytestmark = pytest.mark.anyio


async def handle() -> list[Any]:
    nh.tool(weigh)  # of this run alone
    words = await nh.parallel.map(shout, ["a", "b", "c"])
    await nh.journal.sleep(seconds=0)
    return [
        *words,
        await nh.ask_user("How many?", schema=int),
        await nh.parallel.race(send, ["x"]),
        await nh.journal.receive("post"),
        await send(await shout("d")),
    ]


async def live(store: Any, run_id: str) -> tuple[Any, int]:
    model = AnsweringModel(answer)
    executor = nh.AgentStepExecutor.from_model(model)
    async with nh.run(executor, journal=store, run_id=run_id, human=answering(3)):
        result = await handle()
    return result, len(model.prompts)


async def test_a_fork_at_every_place_gives_the_same_run(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.send("run-1", "post", "hello")
        result, requests = await live(store, "run-1")
        recorded = {(each.place, each.kind) for each in store.records("run-1") if each.kind != "life"}
        places = list(dict.fromkeys(each.place for each in store.records("run-1") if each.kind != "life"))
        for number, place in enumerate(places):
            run_id = store.fork("run-1", at=place, to=f"fork-{number}")
            copied = sum(each.kind == "response" for each in store.records(run_id))
            assert await live(store, run_id) == (result, requests - copied), place
            again = {(each.place, each.kind) for each in store.records(run_id) if each.kind != "life"}
            assert again == recorded, place
    assert len(places) > 20


async def test_a_replay_stops_before_every_place_and_at_the_end_of_every_beginning(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.send("run-1", "post", "hello")
        await live(store, "run-1")
        for place in dict.fromkeys(each.place for each in store.records("run-1") if each.kind != "life"):
            with pytest.raises(ReplayEndError) as end, nh.journal.replay(store, "run-1", until=place):
                await live(store, "run-1")
            assert end.value.place == place
            run_id = store.fork("run-1", at=place)
            if not store.records(run_id):
                with pytest.raises(NighthawkError, match="no records"):
                    nh.journal.replay(store, run_id)
                continue
            with pytest.raises(ReplayEndError), nh.journal.replay(store, run_id):
                await live(store, run_id)


async def test_a_run_has_a_tree_at_every_record(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.send("run-1", "post", "hello")
        await live(store, "run-1")
        sizes = [
            sum(1 for _ in store.tree("run-1", at=str(record.seq)).snapshot().walk())
            for record in store.records("run-1")
        ]
        ends = {node.state for node in store.tree("run-1").snapshot().children[0].walk()}
    assert sizes == sorted(sizes)
    assert ends == {"completed"}
