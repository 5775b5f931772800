"""Event streams in the compact profile: counts of units of work, and the end."""

import json
from typing import Any

import httpx
import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.asgi import NighthawkMiddleware, stream_node, stream_response
from nighthawk_async.asgi.event_stream_live import Counts, count_progress
from nighthawk_async.observe import TaskTree
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from nighthawk_async.types.model import ModelRequest
from tests.unit.observe.recorded import begin

pytestmark = pytest.mark.anyio


@nh.natural_function
async def rate(review: str) -> int:
    count: int = nh.unset
    """natural
    Count the stars in <review>: <:count>.
    """
    return count


def reply(request: ModelRequest) -> Any:
    if "broken" in str(request.messages[-1]):
        raise nh.errors.ModelConnectionError("no line")
    value = tool_call("nh_assign", target_path="count", expression="review.count('*')")
    return model_response(value, tool_call("nh_outcome", kind="pass"))


async def events_of(app: Any) -> list[tuple[str, dict[str, Any]]]:
    executor = nh.AgentStepExecutor.from_model(ScriptedModel(reply))
    transport = httpx.ASGITransport(NighthawkMiddleware(app, model=executor))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        answer = await client.get("/")
    blocks = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    return [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for _, name, data in blocks
    ]


async def test_a_batch_is_counts_and_its_result() -> None:
    async def rate_all() -> list[int]:
        return await parallel.map(rate, ["*", "**", "***", "****", "*", ""], max_concurrent=2)

    events = await events_of(stream_response(rate_all, min_interval_seconds=0.0))
    *progress, (last, result) = events
    assert (last, result) == ("result", {"value": [1, 2, 3, 4, 1, 0]})
    assert {name for name, _ in progress} == {"progress"}
    counts = [(data["done"], data["total"], data["failed"]) for _, data in progress]
    assert counts[-1] == (6, 6, 0)
    assert sorted(counts) == counts
    assert len(set(counts)) == len(counts) <= 8
    assert {total for _, total, _ in counts} <= {0, 6}


async def test_failures_are_counted() -> None:
    async def rate_all() -> int:
        return (await parallel.settle(rate, ["*", "broken", "**"])).failed

    events = await events_of(stream_response(rate_all))
    assert events[-1] == ("result", {"value": 1})
    data = events[-2][1]
    assert (data["done"], data["total"], data["failed"]) == (3, 3, 1)


async def test_steps_outside_of_batches_are_units_and_the_inside_of_a_unit_is_not() -> None:
    tree = TaskTree()
    run = begin(tree)
    step = run.begin_child("function", "f").begin_child("step", "s")
    step.begin_child("tool_call", "t").begin_child("step", "inner")
    group = run.begin_child("group", "parallel.map", inputs={"items": 5})
    group.begin_child("task", "map[0]").begin_child("step", "s").end("completed")
    group.begin_child("task", "map[1]").end("raised", error=ValueError("no"))
    run.begin_child("group", "work").begin_child("task", "t").begin_child("step", "s").end("completed")
    assert count_progress(tree.snapshot()) == Counts(done=2, total=7, failed=1)


async def test_calls_that_the_tree_has_dropped_have_ended() -> None:
    tree = TaskTree(max_nodes=3)
    group = begin(tree).begin_child("group", "parallel.map", inputs={"items": 9})
    for number in range(7):
        group.begin_child("task", f"map[{number}]").end("completed")
    assert count_progress(tree.snapshot()) == Counts(done=7, total=9)


async def test_the_progress_of_a_node() -> None:
    tree = TaskTree()
    run = begin(tree)
    run.begin_child("step", "s").end("completed")
    run.end("completed")
    node_id = tree.snapshot().children[0].id
    (progress, counts), (end, state) = await events_of(stream_node(node_id, tree=tree))
    assert (progress, end) == ("progress", "end")
    assert counts == {"id": node_id, "done": 1, "total": 1, "failed": 0}
    assert state["state"] == "completed"


def test_there_are_two_profiles() -> None:
    with pytest.raises(nh.NighthawkError, match="profile must be 'compact' or 'full', not 'big'"):
        stream_response(rate_nothing, profile="big")  # pyright: ignore[reportArgumentType]


async def rate_nothing() -> None:
    raise AssertionError
