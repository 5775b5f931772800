"""What a dashboard tells of a tree: at once, as it changes, and after a break."""

from decimal import Decimal
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st

from nighthawk_async.asgi import Dashboard, NighthawkMiddleware
from nighthawk_async.asgi.dashboard.live import Changes, changes_between, changes_since, everything
from nighthawk_async.observation import NodeWriter
from nighthawk_async.observe import NodeView, TaskTree
from nighthawk_async.observe.page.summaries import summarize_node
from nighthawk_async.testing import ScriptedExecutor
from nighthawk_async.types.usage import Usage
from tests.unit.asgi.asgi_client import http_scope, open_connection
from tests.unit.asgi.dashboard.dashboard_client import data_of, fetch, reading, top_of

pytestmark = pytest.mark.anyio


async def test_the_tree_is_given_whole_up_to_a_depth_and_a_number() -> None:
    tree = TaskTree()
    top = top_of(tree)
    for name in ("a", "b"):
        run = top.begin_child("run", name, inputs={"text": "x" * 500})
        run.begin_child("step", "inner").begin_child("model_request", "m")
    dashboard = Dashboard(tree, title="Ours")
    whole = data_of(await fetch(dashboard, "/api/tree"))
    assert (whole["title"], whole["is_cut"], whole["can_act"]) == ("Ours", False, False)
    assert _shape(whole["tree"]) == ["", ["a", ["inner", ["m"]]], ["b", ["inner", ["m"]]]]
    assert len(whole["tree"]["children"][0]["hint"]) == 160
    flat = data_of(await fetch(dashboard, "/api/tree", query_string=b"depth=1"))
    assert _shape(flat["tree"]) == ["", ["a"], ["b"]]
    assert flat["tree"]["children"][0]["child_count"] == 1
    few = data_of(await fetch(dashboard, "/api/tree", query_string=b"max_nodes=4"))
    assert _shape(few["tree"]) == ["", ["a", ["inner"]], ["b"]]
    assert few["is_cut"] is True


@pytest.mark.parametrize(
    "query", [b"depth=-1", b"depth=x", b"max_nodes=0", b"max_nodes=", b"depth=" + b"9" * 30]
)
async def test_a_query_that_makes_no_sense_is_refused(query: bytes) -> None:
    response = await fetch(Dashboard(TaskTree()), "/api/tree", query_string=query)
    assert response.status == (200 if query == b"max_nodes=" else 400)


async def test_usage_says_when_it_is_not_complete() -> None:
    tree = TaskTree()
    run = top_of(tree).begin_child("run", "first")
    run.begin_child("model_request", "m").set_usage(Usage(requests=1, input_tokens=5, is_complete=False))
    run.begin_child("model_request", "m").set_usage(Usage(requests=1, input_tokens=7))
    root = data_of(await fetch(Dashboard(tree), "/api/tree"))["tree"]
    (shown,) = root["children"]
    assert root["subtree_usage"] == {"requests": 2, "input_tokens": 12, "is_complete": False}
    assert [each["usage"].get("is_complete", True) for each in shown["children"]] == [False, True]
    assert "usage" not in shown


async def test_a_node_is_given_whole() -> None:
    tree = TaskTree()
    step = top_of(tree).begin_child("step", "draft", inputs={"ticket": "<b>hello</b>"})
    step.write("text", "Dear")
    step.set_usage(Usage(requests=1, input_tokens=5, output_tokens=2, cost=Decimal("0.5")))
    step.end("failed", error=ValueError("no"))
    shown = data_of(await fetch(Dashboard(tree), "/api/nodes/1"))
    assert shown["inputs"] == {"ticket": '"<b>hello</b>"'}
    assert shown["transcript"][0]["text"] == "Dear"
    assert shown["error"] == {"type": "ValueError", "message": "no"}
    assert shown["subtree_usage"]["cost"] == "0.5"
    assert "question" not in shown
    assert (await fetch(Dashboard(tree), "/api/nodes/77")).status == 404
    assert data_of(await fetch(Dashboard(tree), "/api/nodes/0"))["kind"] == "tree"


async def test_a_client_that_has_left_ends_its_stream_without_an_error() -> None:
    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            raise BrokenPipeError

    dashboard: Any = Dashboard(TaskTree())
    await dashboard(http_scope("/api/changes"), anyio.sleep_forever, send)


async def test_changes_are_told_as_they_come() -> None:
    tree = TaskTree()
    run = top_of(tree).begin_child("run", "first")
    async with reading(Dashboard(tree, token="x" * 16), "/api/changes") as reader:
        name, data, event_id = await reader.next_event()
        assert (name, data["can_act"], event_id) == ("reset", True, "")
        name, data, first_id = await reader.next_event()
        assert [node["name"] for node in data["nodes"]] == ["", "first"]
        step = run.begin_child("step", "inner")
        data = (await reader.next_event())[1]
        assert [node["name"] for node in data["nodes"]] == ["", "first", "inner"]
        step.end("completed")
        name, data, last_id = await reader.next_event()
        assert [node["state"] for node in data["nodes"]] == ["running", "running", "completed"]
        assert first_id.partition(".")[0] == last_id.partition(".")[0]


async def test_whoever_comes_back_is_told_what_they_missed() -> None:
    tree = TaskTree()
    top = top_of(tree)
    top.begin_child("run", "old")
    dashboard = Dashboard(tree)
    async with reading(dashboard, "/api/changes") as reader:
        await reader.next_event()
        event_id = (await reader.next_event())[2]
    top.begin_child("run", "new")
    async with reading(dashboard, "/api/changes", last_event_id=event_id) as reader:
        name, data, _ = await reader.next_event()
        assert (name, [node["name"] for node in data["nodes"]]) == ("nodes", ["", "new"])


@pytest.mark.parametrize("event_id", ["", "x", "x.1", "{}.99999", "{}.", "{}.-1", "{}.1x", "{}." + "9" * 40])
async def test_whoever_comes_back_with_what_this_tree_never_had_begins_anew(event_id: str) -> None:
    tree = TaskTree()
    dashboard = Dashboard(tree)
    stream = data_of(await fetch(dashboard, "/api/tree"))["stream"]
    async with reading(dashboard, "/api/changes", last_event_id=event_id.format(stream)) as reader:
        assert (await reader.next_event())[0] == "reset"


async def test_many_nodes_come_in_several_events_and_only_the_last_has_the_id() -> None:
    tree = TaskTree()
    top = top_of(tree)
    for index in range(600):
        top.begin_child("run", str(index))
    async with reading(Dashboard(tree), "/api/changes") as reader:
        await reader.next_event()
        events = [await reader.next_event() for _ in range(3)]
    assert [len(data["nodes"]) for _, data, _ in events] == [250, 250, 101]
    assert [bool(event_id) for _, _, event_id in events] == [False, False, True]


async def test_a_node_is_told_of_until_it_ends() -> None:
    tree = TaskTree()
    step = top_of(tree).begin_child("step", "draft")
    step.write("text", "Dear ")
    async with reading(Dashboard(tree), "/api/nodes/1/changes") as reader:
        assert (await reader.next_event())[0] == "node"
        name, data, _ = await reader.next_event()
        assert (name, data["part"], data["text"]) == ("text", 0, "Dear ")
        step.write("text", "customer")
        name, data, _ = await reader.next_event()
        assert (name, data["part"], data["text"]) == ("text", 0, "customer")
        step.end("completed", outputs={"reply": "Dear customer"})
        name, data, _ = await reader.next_event()
        assert (name, data["outputs"]) == ("node", {"reply": '"Dear customer"'})
        assert (await reader.next_event())[0] == "end"


async def test_what_goes_on_below_a_node_is_told_only_where_it_changes_the_node() -> None:
    tree = TaskTree()
    run = top_of(tree).begin_child("run", "run")
    async with reading(Dashboard(tree), "/api/nodes/1/changes") as reader:
        await reader.next_event()
        step = run.begin_child("step", "inner")
        step.write("text", "hello")
        step.set_usage(Usage(requests=1, input_tokens=3))
        name, data, _ = await reader.next_event()
        assert (name, data["subtree_usage"]["input_tokens"]) == ("node", 3)


@pytest.mark.virtual_time
async def test_a_stream_without_news_gives_signs_of_life(virtual_clock: Any) -> None:
    async with reading(Dashboard(TaskTree(), heartbeat_seconds=14), "/api/changes") as reader:
        await reader.next_event()
        await reader.next_event()
        begin = virtual_clock.current_time()
        connection = reader._connection  # pyright: ignore[reportPrivateUsage]
        sent = len(connection.sent)
        await connection.wait_for_sent(sent + 2)
        assert [message["body"] for message in connection.sent[sent:]] == [b":\n\n"] * 2
        assert virtual_clock.current_time() - begin == pytest.approx(28)
        await connection.ended.wait()
        assert virtual_clock.current_time() - begin == pytest.approx(30)
        assert connection.is_complete


async def test_streams_are_ended_when_a_server_is_about_to_stop() -> None:
    dashboard = Dashboard(TaskTree())
    for path in ("/api/changes", "/api/nodes/0/changes"):
        async with open_connection(dashboard, http_scope(path)) as connection:
            await connection.wait_for_sent(2)
            dashboard.end_streams()
            await connection.ended.wait()
            assert connection.is_complete
    async with reading(dashboard, "/api/changes") as reader:
        assert (await reader.next_event())[0] == "reset"


async def test_numbers_that_a_browser_would_round_are_told_as_texts() -> None:
    tree = TaskTree()
    top_of(tree).begin_child("step", "draft", attributes={"large": 2**60 + 1, "small": 7, "yes": True})
    shown = data_of(await fetch(Dashboard(tree), "/api/nodes/1"))
    assert shown["attributes"] == {"large": "1152921504606846977", "small": 7, "yes": True}


async def test_requests_to_a_dashboard_inside_the_middleware_are_not_shown() -> None:
    tree = TaskTree()
    app = NighthawkMiddleware(Dashboard(tree), model=ScriptedExecutor(), tree=tree)
    assert (await fetch(app)).status == 200
    shown = data_of(await fetch(app, "/api/tree"))
    assert {child["kind"] for child in shown["tree"]["children"]} == {"run"}
    assert {child["child_count"] for child in shown["tree"]["children"]} == {0}
    assert shown["tree"]["child_count"] == len(shown["tree"]["children"])
    assert "request" in {view.kind for view in tree.snapshot().walk()}
    assert "request" not in {view.kind for view in everything(tree.snapshot()).nodes}


def test_dropped_nodes_are_told_of_also_after_a_break() -> None:
    tree = TaskTree(max_finished_trees=1)
    top = top_of(tree)
    before = tree.snapshot()
    top.begin_child("run", "a").end("completed")
    known = tree.snapshot()
    top.begin_child("run", "b").end("completed")
    now = tree.snapshot()
    assert changes_between(known, now).gone == ["1"]
    assert changes_since(now, known.version).kept == {"0": ["2"]}
    assert changes_between(before, now).gone == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30), st.booleans()), max_size=40))
def test_changes_lead_from_any_view_to_any_later_one(steps: list[tuple[int, int, bool]]) -> None:
    tree = TaskTree(max_nodes=6, max_finished_trees=3)
    writers: list[NodeWriter] = [top_of(tree)]
    views = [tree.snapshot()]
    for kind, index, is_looked_at in steps:
        writer = writers[index % len(writers)]
        if kind <= 2 or len(writers) == 1:
            writers.append(writer.begin_child("step", f"node {len(writers)}"))
        elif writer is not writers[0]:
            writer.end("completed")
        if is_looked_at:
            views.append(tree.snapshot())
    views.append(tree.snapshot())
    last = views[-1]
    for view in views:
        known = _applied({}, everything(view))
        assert known == _all_briefs(view)
        assert _applied(dict(known), changes_between(view, last)) == _all_briefs(last)
        assert _applied(dict(known), changes_since(last, view.version)) == _all_briefs(last)


def _applied(known: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """What a page knows after some changes."""
    for view in changes.nodes:
        assert view.parent_id is None or view.parent_id in known, "a child came before its parent"
        known[view.id] = summarize_node(view)
    gone = set(changes.gone)
    for parent, kept in changes.kept.items():
        gone |= {each for each, brief in known.items() if brief["parent_id"] == parent} - set(kept)
    while gone:
        for each in gone:
            known.pop(each, None)
        gone = {each for each, brief in known.items() if brief["parent_id"] in gone}
    return known


def _all_briefs(view: NodeView) -> dict[str, Any]:
    return {node.id: summarize_node(node) for node in view.walk()}


def _shape(shown: Any) -> list[Any]:
    return [shown["name"], *(_shape(child) for child in shown.get("children", ()))]
