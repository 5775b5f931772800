"""`nh.progress` and the tool `nh_progress`: progress that a program or a model reports itself."""

import math
from typing import Any

import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.asgi.event_stream_live import ProgressEvents
from nighthawk_async.hooks import ProgressReported
from nighthawk_async.observe.node_words import label_of
from nighthawk_async.observe.page.summaries import summarize_node
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response, tool_call
from tests.specification.scripted_steps import PASS, ScriptedSteps, evaluating

pytestmark = pytest.mark.anyio


@nh.natural_function
async def read(pages: int) -> None:
    """natural
    Read <pages> pages.
    """


def keeping() -> tuple[nh.Hooks, list[ProgressReported]]:
    hooks, kept = nh.Hooks(), list[ProgressReported]()
    hooks.on(ProgressReported, kept.append)
    return hooks, kept


def nodes_of(tree: nh.observe.TaskTree) -> list[nh.observe.NodeView]:
    waiting, found = [tree.snapshot()], list[nh.observe.NodeView]()
    while waiting:
        found.append(node := waiting.pop())
        waiting.extend(node.children)
    return found


def reporting(tree: nh.observe.TaskTree) -> list[tuple[str, dict[str, Any]]]:
    """The nodes with progress, and their attributes about it."""
    return [
        (node.kind, {name: value for name, value in node.attributes.items() if "progress" in name})
        for node in nodes_of(tree)
        if "nighthawk.progress" in node.attributes
    ]


async def test_a_tool_a_thread_and_a_function_report_at_their_nodes() -> None:
    shown: list[str] = []
    tree = nh.observe.TaskTree()

    def in_thread() -> None:
        nh.progress("in a thread", done=2)

    async def scan(number: int) -> int:
        nh.progress("reading page 3", done=3, total=40)
        shown.extend(label_of(node).name for node in nodes_of(tree))
        await anyio.to_thread.run_sync(in_thread)
        return number

    @nh.natural_function(tools=[scan])
    async def reading() -> None:
        """natural
        Read.
        """
        nh.progress("closing", done=0.5, total=1)

    hooks, kept = keeping()
    steps = ScriptedSteps(tool_call("scan", number=3), PASS)
    with tree.recording():
        async with nh.run(steps.executor, hooks=hooks):
            await reading()
    assert [(each.message, each.done, each.total) for each in kept] == [
        ("reading page 3", 3, 40),
        ("in a thread", 2, None),
        ("closing", 0.5, 1),
    ]
    assert any(name.endswith(": reading page 3 (3 of 40)") for name in shown)
    assert kept[0].execution_ref.step_id is not None
    assert kept[2].execution_ref.step_id is None
    assert sorted(reporting(tree), key=str) == [
        ("function", {
            "nighthawk.progress": "closing (0.5 of 1)",
            "nighthawk.progress.done": 0.5,
            "nighthawk.progress.total": 1,
        }),
        ("tool_call", {
            "nighthawk.progress": "in a thread (2)",
            "nighthawk.progress.done": 2,
            "nighthawk.progress.total": "",
        }),
    ]  # fmt: skip
    assert not any("closing" in label_of(node).name for node in nodes_of(tree))  # all have ended


async def test_a_binding_function_and_synchronous_functions_report() -> None:
    def count(pages: int) -> int:
        nh.progress(done=pages)
        return pages

    @nh.natural_function
    def reading(count: Any) -> int:
        """natural
        Use <count>.
        """
        return count(4)

    hooks, kept = keeping()

    def run() -> None:
        with nh.run(ScriptedSteps(evaluating("count(3)"), PASS).executor, hooks=hooks):
            assert reading(count) == 4

    await anyio.to_thread.run_sync(run)
    assert [each.done for each in kept] == [3, 4]


async def test_a_model_reports_at_its_step_where_the_tool_is_offered() -> None:
    tree, seen = nh.observe.TaskTree(), list[dict[str, Any]]()

    def look() -> None:
        (node,) = (each for each in nodes_of(tree) if each.kind == "step")
        seen.append(dict(summarize_node(node)))
        events = ProgressEvents()
        (event,) = events.between(None, tree.snapshot())
        seen.append(dict(event.data))
        assert list(events.between(tree.snapshot(), tree.snapshot())) == []

    @nh.natural_function
    async def reading(look: Any) -> None:
        """natural
        Read, then <look>.
        """

    told = tool_call("nh_progress", message="reading page 3", done=3, total=40)
    hooks, kept = keeping()
    steps = ScriptedSteps(
        (told, evaluating("look()"), PASS), provided_tools=("nh_eval", "nh_assign", "nh_exec", "nh_progress")
    )
    with tree.recording():
        async with nh.run(steps.executor, hooks=hooks):
            await reading(look)
    assert [(each.message, each.done, each.total) for each in kept] == [("reading page 3", 3, 40)]
    assert [kind for kind, _ in reporting(tree)] == ["step"]
    assert seen[0]["progress"] == "reading page 3 (3 of 40)"
    assert seen[1]["reported"] == {"text": "reading page 3 (3 of 40)", "done": 3.0, "total": 40.0}
    assert [tool.name for tool in steps.model.requests[0].tools][3] == "nh_progress"


async def test_the_tool_is_off_by_default_and_refuses_bad_numbers() -> None:
    steps = ScriptedSteps(tool_call("nh_progress", message="x"), PASS)
    async with nh.run(steps.executor):
        await read(1)
    assert "nh_progress" not in {tool.name for tool in steps.model.requests[0].tools}
    steps = ScriptedSteps(
        tool_call("nh_progress", message="x", done=3, total=2),
        tool_call("nh_progress", done=3),
        PASS,
        provided_tools=("nh_progress",),
    )
    hooks, kept = keeping()
    async with nh.run(steps.executor, hooks=hooks):
        await read(1)
    assert kept == []
    results = [str(request.messages[-1]) for request in steps.model.requests[1:]]
    assert "done (3.0) must not be more than total (2.0)" in results[0]
    assert "the arguments do not fit" in results[1]


BAD: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"done": -1}, ValueError),
    ({"done": 3, "total": 2}, ValueError),
    ({"done": math.inf}, ValueError),
    ({"done": 1, "total": math.nan}, ValueError),
    ({"total": 4}, ValueError),
    ({}, ValueError),
    ({"done": "3"}, TypeError),
    ({"done": True}, TypeError),
    ({"message": 3}, TypeError),
]


@pytest.mark.parametrize(("arguments", "error"), BAD)
async def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="progress: "):
        nh.progress(**arguments)


async def test_outside_of_runs_it_does_nothing() -> None:
    assert nh.progress("alone", done=0, total=0) is None  # type: ignore[func-returns-value]


async def test_a_long_text_is_cut_and_a_failing_hook_fails_the_step() -> None:
    hooks, kept = keeping()

    async def work(call: StepCall) -> StepResponse:
        nh.progress("a" * 5_000)
        return pass_response()

    async with nh.run(CallbackExecutor(work), hooks=hooks):
        await read(1)
    assert len(kept[0].message) == 1_000

    @hooks.on(ProgressReported)
    def fail(event: ProgressReported) -> None:
        raise RuntimeError("no")

    async with nh.run(CallbackExecutor(work), hooks=hooks):
        with pytest.raises(nh.errors.HookError):
            await read(1)
