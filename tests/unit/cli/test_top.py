"""`nighthawk-async top`: the tree of a running service in the terminal, by hand and against a dashboard."""

import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import partialmethod
from typing import Any

import anyio
import pytest
import uvicorn
from textual.pilot import Pilot
from textual.widgets import Input, Static

from nighthawk_async.asgi import Dashboard
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.cli.live_tree_picture import Picture
from nighthawk_async.cli.top_app import TopApp, details_text
from nighthawk_async.cli.top_client import (
    DashboardClient,
    DashboardError,
    NoDashboardError,
    checked_token,
    checked_url,
)
from nighthawk_async.cli.top_command import _show  # pyright: ignore[reportPrivateUsage]
from nighthawk_async.cli.top_tree import Nodes, TreeRows
from nighthawk_async.errors import ConfigurationError
from nighthawk_async.observation import NodeWriter
from nighthawk_async.observe import TaskTree, view_as_json
from nighthawk_async.observe.page.summaries import summarize_node
from nighthawk_async.types.usage import Usage
from tests.unit.observe.recorded import begin

TOKEN = "a-token-of-the-tests"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The terminal view runs on asyncio alone."""
    return "asyncio"


def brief(node_id: str, parent_id: str | None, **others: Any) -> dict[str, Any]:
    told = {"kind": "step", "name": f"app:{node_id}", "state": "running", "began_at": 100.0, "version": 1}
    return {"id": node_id, "parent_id": parent_id, **told, **others}


TREE = [
    brief("0", None, kind="tree", name=""),
    brief("1", "0", kind="request", name="POST /one"),
    brief("2", "1", controls=["cancel", "steer"], hint="review: <b>good</b>"),
    brief("3", "0", kind="request", name="POST /two", state="completed", ended_at=101.0),
    brief("4", "3", state="completed", ended_at=101.0),
    brief("5", "0", kind="request", name="POST /three", state="failed", ended_at=101.0),
    brief("6", "5", state="failed", ended_at=101.0, error={"type": "KeyError", "message": "[red]\x1b[2J"}),
]


SAID_OF = ("cancel", "suspend", "resume", "resume")


class FakeClient:
    """A dashboard that tells what it is told to tell."""

    def __init__(self) -> None:
        self.acts: list[tuple[str, str, Mapping[str, str]]] = []
        self.asked: list[str] = []
        self.send, self._receive = anyio.create_memory_object_stream[tuple[str, Any] | DashboardError](100)
        self.can_act = True
        self.connections = 0

    async def changes(self) -> AsyncGenerator[tuple[str, Mapping[str, Any]], None]:
        self.connections += 1
        if self.connections == 1:
            yield "reset", {"now": 110.0, "can_act": self.can_act, "title": "x"}
            yield "nodes", {"nodes": TREE}
        while True:
            told = await self._receive.receive()
            if isinstance(told, DashboardError):
                raise told
            yield told

    async def details(self, node_id: str) -> Mapping[str, Any]:
        self.asked.append(node_id)
        tree = TaskTree()
        node = begin(tree, "step", f"details of {node_id}")
        node.write("text", "so \x1b[2J it [bold]is")
        return {**view_as_json(tree.snapshot("1"), depth=0), "id": node_id}

    async def act(self, node_id: str, action: str, body: Mapping[str, str]) -> None:
        if body.get("text") == "refuse":
            raise DashboardError("it [/refuses")
        self.acts.append((node_id, action, body))

    def close(self) -> None:
        self.send.close()
        self._receive.close()


def shown(app: TopApp) -> list[str]:
    """The lines of the tree that are seen."""
    tree = app.query_one("#tree", TreeRows)
    lines = [tree.render_line(y).text.rstrip() for y in range(tree.size.height)]
    return [line for line in lines if line]


async def until(pilot: Pilot[Any], condition: Callable[[], bool]) -> None:
    """Wait until something holds; the test's own limit of time ends it otherwise."""
    while not condition():
        await pilot.pause(0.02)


@contextmanager
def fake_client() -> Generator[FakeClient]:
    client = FakeClient()
    try:
        yield client
    finally:
        client.close()


def line_of(app: TopApp) -> Input:
    return app.query_one("#line", Input)


def details_of(app: TopApp) -> str:
    return str(app.query_one("#details", Static).content)


@pytest.mark.anyio
@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_the_tree_is_shown_with_what_failed_open_and_what_ended_well_folded(
    size: tuple[int, int],
) -> None:
    with fake_client() as client:
        app = TopApp(client, "http://service/")
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: len(shown(app)) == 5)
            lines = shown(app)
            assert lines[0].startswith("● request POST /one")
            assert lines[1].startswith("└─ ● step app:2 review: <b>good</b>")
            assert lines[2].startswith("✓ request POST /two +1")
            assert lines[3].startswith("✗ request POST /three")
            assert lines[4].startswith("└─ ✗ step app:6")
            assert app.screen.has_class("wide") is (size[0] > 100)
            await pilot.press("down", "down", "right")
            await until(pilot, lambda: len(shown(app)) == 6)
            await pilot.press("left")
            await until(pilot, lambda: len(shown(app)) == 5)


@pytest.mark.anyio
async def test_the_chosen_node_is_shown_whole_and_as_plain_text() -> None:
    with fake_client() as client:
        app = TopApp(client, "http://service/")
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: "details of 1" in details_of(app))
            await pilot.press("down")
            await until(pilot, lambda: client.asked[-1] == "2")
            await until(pilot, lambda: "#2" in details_of(app))
            assert "so \N{REPLACEMENT CHARACTER}[2J it [bold]is" in details_of(app)


@pytest.mark.anyio
async def test_a_node_is_cancelled_and_steered_with_words_and_not_by_escape() -> None:
    with fake_client() as client:
        app = TopApp(client, "http://service/")
        async with app.run_test() as pilot:
            await until(pilot, lambda: len(shown(app)) == 5)
            await pilot.press("down", "c")
            assert line_of(app).has_focus
            assert "cancel step app:2" in line_of(app).placeholder
            await pilot.press("escape")
            assert app.query_one("#tree").has_focus
            await pilot.press("c", *"no", "enter")
            await until(pilot, lambda: len(client.acts) == 1)
            await pilot.press("s", *"go", "enter")
            await until(pilot, lambda: len(client.acts) == 2)
            assert client.acts == [
                ("2", "cancel", {"reason": "no"}),
                ("2", "steer", {"text": "go"}),
            ]


@pytest.mark.anyio
async def test_words_for_a_node_of_a_tree_that_is_gone_reach_no_other_node() -> None:
    with fake_client() as client:
        app = TopApp(client, "http://service/")
        async with app.run_test() as pilot:
            await until(pilot, lambda: len(shown(app)) == 5)
            await pilot.press("down", "c", *"no")
            await client.send.send(("reset", {"now": 110.0, "can_act": True, "title": "x"}))
            await client.send.send(("nodes", {"nodes": TREE}))
            await until(pilot, lambda: bool(app.query_one("#tree").has_focus))
            await pilot.press("enter")
            await until(pilot, lambda: app.query_one("#tree", TreeRows).chosen_id == "1")
            assert client.acts == []


@pytest.mark.anyio
async def test_what_is_not_possible_is_said_and_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_client() as client:
        app = TopApp(client, "http://service/")
        said: list[str] = []
        monkeypatch.setattr(app, "notify", lambda message, **options: said.append(message))
        async with app.run_test() as pilot:
            await until(pilot, lambda: len(shown(app)) == 5)
            await pilot.press("c", "p", "r", "down", "r", "s", *"refuse", "enter")
            await until(pilot, lambda: len(said) == 5)
            a_request = [f"This request cannot be asked to {each}: choose a step." for each in SAID_OF[:3]]
            assert said[:4] == [*a_request, "It cannot be asked to resume now."]
            assert said[4] == "it [/refuses"
            assert client.acts == []


@pytest.mark.anyio
async def test_a_dashboard_without_a_token_is_read_only() -> None:
    with fake_client() as client:
        client.can_act = False
        app = TopApp(client, "http://service/")
        async with app.run_test() as pilot:
            await until(pilot, lambda: len(shown(app)) == 5)
            await pilot.press("down", "c")
            assert not line_of(app).has_focus


@pytest.mark.anyio
async def test_a_search_shows_what_matches_and_what_is_above_it() -> None:
    with fake_client() as client:
        app = TopApp(client, "http://service/")
        async with app.run_test() as pilot:
            await until(pilot, lambda: len(shown(app)) == 5)
            await pilot.press("slash", *"keyerror")
            await until(pilot, lambda: len(shown(app)) == 2)
            await pilot.press("enter", "escape")
            await until(pilot, lambda: len(shown(app)) == 5)


@pytest.mark.anyio
async def test_a_lost_connection_is_told_and_tried_again() -> None:
    with fake_client() as client:
        app = TopApp(client, "http://service/")
        async with app.run_test(size=(160, 24)) as pilot:
            await until(pilot, lambda: len(shown(app)) == 5)
            await client.send.send(DashboardError("it went away"))
            head = app.query_one("#head", Static)
            await until(pilot, lambda: "it went away; trying again" in str(head.content))
            await client.send.send(("nodes", {"nodes": [], "gone": ["1"], "kept": {"0": ["5"]}}))
            await until(pilot, lambda: len(shown(app)) == 2)
            assert client.connections == 2
            assert "it went away" not in str(head.content)


@pytest.mark.anyio
@pytest.mark.parametrize("told", [{"nodes": [{}]}, {"nodes": 7}, {}])
async def test_what_is_not_understood_is_told_and_tried_again(told: Mapping[str, object]) -> None:
    with fake_client() as client:
        app = TopApp(client, "http://service/")
        async with app.run_test(size=(160, 24)) as pilot:
            await until(pilot, lambda: len(shown(app)) == 5)
            await client.send.send(("nodes", told))
            head = app.query_one("#head", Static)
            await until(pilot, lambda: "not understood; trying again" in str(head.content))
            client.details = whole_is_nothing  # type: ignore[method-assign]
            await pilot.press("down")
            await until(pilot, lambda: "not understood" in details_of(app))


async def whole_is_nothing(node_id: str) -> Mapping[str, object]:
    """Details that are none."""
    return {}


async def nothing_here(scope: Any, receive: Any, send: Any) -> None:
    """What a framework answers where nothing is; at /busy what may pass."""
    status = 503 if scope["path"].startswith("/busy/") else 404
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b'{"detail":"Not Found"}'})


async def page(scope: Any, receive: Any, send: Any) -> None:
    """A page for everything, as that of a proxy where people log in."""
    kinds = {"/list/": b"application/json", "/half/": b"text/event-stream; charset=utf-8"}
    kind = next((kind for path, kind in kinds.items() if scope["path"].startswith(path)), b"text/html")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    body = b"[]" if kind == b"application/json" else b"event: nodes\ndata: []\n\n"
    await send({"type": "http.response.body", "body": body})


@pytest.mark.anyio
async def test_what_is_no_dashboard_is_told() -> None:
    with serving(page) as url:
        async with DashboardClient(url, None) as client:
            with pytest.raises(DashboardError, match="no dashboard here: it answers with text/html"):
                await anext(client.changes())
            with pytest.raises(DashboardError, match="no dashboard here: it answers with text/html"):
                await client.details("1")
        async with DashboardClient(f"{url}list/", None) as client:
            with pytest.raises(DashboardError, match="not understood"):
                await client.details("1")
        async with DashboardClient(f"{url}half/", None) as client:
            with pytest.raises(DashboardError, match="not understood"):
                await anext(client.changes())


@pytest.mark.anyio
@pytest.mark.parametrize("answers", [nothing_here, page, Dashboard(TaskTree())])
async def test_an_address_that_never_was_that_of_a_dashboard_ends_the_view(
    answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TopApp, "run_async", partialmethod(TopApp.run_async, headless=True))
    with serving(answers) as url:
        words = rf"^{url}api/: there is no dashboard here: .*is mounted"
        with pytest.raises(ConfigurationError, match=words):
            await _show(f"{url}api/", None)


@pytest.mark.anyio
async def test_a_service_that_is_busy_at_first_is_waited_for() -> None:
    with serving(nothing_here) as url:
        async with DashboardClient(f"{url}busy/", None) as client:
            app = TopApp(client, url)
            async with app.run_test(size=(160, 24)) as pilot:
                head = app.query_one("#head", Static)
                await until(pilot, lambda: "status 503; trying again" in str(head.content))
                assert app.is_running


@pytest.mark.anyio
async def test_what_was_a_dashboard_once_is_waited_for_whatever_answers() -> None:
    with fake_client() as client:
        app = TopApp(client, "http://service/")
        async with app.run_test(size=(160, 24)) as pilot:
            await until(pilot, lambda: len(shown(app)) == 5)
            await client.send.send(NoDashboardError("there is no dashboard here: status 404"))
            head = app.query_one("#head", Static)
            await until(pilot, lambda: "status 404; trying again" in str(head.content))
            await until(pilot, lambda: client.connections == 2)


def test_an_address_that_is_no_dashboards_is_a_bad_argument(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(TopApp, "run_async", partialmethod(TopApp.run_async, headless=True))
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    with serving(nothing_here) as url:
        assert run_command_line(["top", url]) == 2
    error = capsys.readouterr().err
    assert f"{url}: there is no dashboard here: status 404. Give the address at which" in error


@pytest.mark.parametrize("token", ["wr\xf6ng", "two words", "line\nend"])
def test_what_is_no_token_is_refused(token: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["top", "localhost:1", "--token", token]) == 2
    assert "visible ASCII" in capsys.readouterr().err
    assert checked_token("") is None


def test_nodes_that_are_gone_are_forgotten_with_everything_below() -> None:
    nodes = Nodes()
    nodes.apply({"nodes": TREE})
    nodes.apply({"nodes": [], "gone": ["5"], "kept": {}})
    assert set(nodes.views) == {"0", "1", "2", "3", "4"}
    nodes.apply({"nodes": [brief("0", None, kind="tree")], "kept": {"0": ["3"]}})
    assert [row.view.id for row in nodes.rows(folded={"3": False}, search="")] == ["3", "4"]
    nodes.reset()
    assert nodes.rows(folded={}, search="") == []


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("localhost:8000", "http://localhost:8000/"),
        ("http://host/dashboard/", "http://host/dashboard/"),
        ("https://host/a?b#c", "https://host/a/"),
    ],
)
def test_a_url_may_be_written_shortly(given: str, url: str) -> None:
    assert checked_url(given) == url


@pytest.mark.parametrize("given", ["ftp://host", "http://", "http://host:port", ""])
def test_what_is_no_url_is_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigurationError):
        checked_url(given)
    assert run_command_line(["top", given]) == 2


def test_the_view_needs_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["top", "localhost:1"]) == 1
    assert "needs a terminal" in capsys.readouterr().err


class Control:
    """Ends its node when it is asked to."""

    def __init__(self) -> None:
        self.node: NodeWriter | None = None

    def request_cancel(self, reason: str | None) -> None:
        assert self.node is not None
        self.node.end("cancelled", error=TimeoutError(reason))


@contextmanager
def serving(dashboard: Any) -> Generator[str]:
    """A dashboard in a thread; gives its URL."""
    configuration = uvicorn.Config(dashboard, port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(configuration)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.anyio
async def test_a_real_dashboard_shows_the_same_tree_and_obeys() -> None:
    tree = TaskTree()
    control = Control()
    node = control.node = begin(tree, "run", "main").begin_child("step", "app:1", control=control)
    node.write("text", "thinking")
    with serving(Dashboard(tree, token=TOKEN)) as url:
        async with DashboardClient(url, TOKEN) as client:
            app = TopApp(client, url)
            async with app.run_test(size=(120, 30)) as pilot:
                await until(pilot, lambda: len(shown(app)) == 2)
                assert shown(app)[0].startswith("● run main")
                assert shown(app)[1].startswith("└─ ● step app:1")
                await pilot.press("down")
                await until(pilot, lambda: "thinking" in details_of(app))
                await pilot.press("c", *"no", "enter")
                await until(pilot, lambda: tree.snapshot("2").is_ended)
                await until(pilot, lambda: "⊘ step app:1" in shown(app)[1])
                await until(pilot, lambda: "TimeoutError: no" in details_of(app))


@pytest.mark.anyio
async def test_a_refusal_of_the_dashboard_is_told_in_its_words() -> None:
    tree = TaskTree()
    begin(tree)
    with serving(Dashboard(tree, token=TOKEN, protect_reading=True)) as url:
        async with DashboardClient(url, None) as client:
            with pytest.raises(DashboardError, match="has no token"):
                await anext(client.changes())
        async with DashboardClient(url, TOKEN) as client:
            with pytest.raises(DashboardError, match="no node '77'"):
                await client.details("77")
            async with aclosing(client.changes()) as changes:
                await anext(changes)
            with pytest.raises(DashboardError, match="cannot be asked to suspend"):
                await client.act("1", "suspend", {})
    async with DashboardClient(url, None) as client:
        with pytest.raises(DashboardError):
            await anext(client.changes())


def test_a_node_is_told_whole() -> None:
    tree = TaskTree()
    node = begin(tree, "step", "app:1")
    node.write("reasoning", "hm\nwell")
    node.end("failed", outputs={"label": "x"}, error=ValueError("not\ngood"))
    text = details_text(view_as_json(tree.snapshot("1"), depth=0), time.time()).plain
    for expected in (
        "✗ failed  step app:1  #1",
        "ValueError: not\ngood",
        "after\nlabel = ",
        "reasoning\nhm\nwell",
    ):
        assert expected in text


def test_a_node_tells_costs_and_tokens_as_the_rows_do_and_a_cancellation_by_its_type() -> None:
    tree = TaskTree()
    node = begin(tree, "step", "app:1")
    usage = Usage(requests=2, input_tokens=1_200, output_tokens=34, cost=Decimal("0.00001"))
    node.set_usage(replace(usage, unpriced_requests=1, is_complete=False))
    node.end("cancelled", error=TimeoutError())
    lines = details_text(view_as_json(tree.snapshot("1"), depth=0), time.time()).plain.splitlines()
    assert "itself: 2 requests, ~1,200 tokens in, ~34 out, ~<$0.0001+" in lines
    assert "TimeoutError" in lines


def test_what_is_not_exact_is_so_in_the_rows_too() -> None:
    tree = TaskTree()
    node = begin(tree, "step", "app:1")
    node.set_usage(Usage(requests=1, input_tokens=15, cost=Decimal("0.5"), is_complete=False))
    nodes = Nodes()
    nodes.apply({"nodes": [summarize_node(tree.snapshot()), summarize_node(tree.snapshot("1"))]})
    assert nodes.views["1"].subtree_usage == tree.snapshot("1").subtree_usage
    assert not nodes.views["0"].subtree_usage.is_complete
    (line,) = Picture(width=70, is_ascii=False).draw(nodes.rows(folded={}, search=""), time.time())
    assert line.plain.endswith("~15 tok   ~$0.5000")


@pytest.mark.anyio
async def test_keys_for_failures_folding_and_copying(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(TopApp, "copy_to_clipboard", lambda self, text: copied.append(text))
    with fake_client() as client:
        app = TopApp(client, "http://x")
        async with app.run_test(size=(100, 24)) as pilot:
            await until(pilot, lambda: len(shown(app)) > 3)
            tree = app.query_one("#tree", TreeRows)
            await pilot.press("minus")
            await until(pilot, lambda: len(shown(app)) == 3)
            await pilot.press("f")
            await until(pilot, lambda: tree.chosen_id == "6")
            assert any("app:6" in line for line in shown(app))
            await pilot.press("plus")
            await until(pilot, lambda: len(shown(app)) == 6)
            await pilot.press("f")
            await pilot.pause()
            assert tree.chosen_id == "6"
            await until(pilot, lambda: "details of 6" in details_of(app))
            await pilot.press("y")
            assert "details of 6" in copied[0]


def test_the_next_failure_is_one_that_failed_by_itself() -> None:
    nodes = Nodes()
    assert nodes.next_failure(None) is None
    more = [brief("7", "0", state="failed"), brief("8", "7", state="completed"), brief("9", "0")]
    nodes.apply({"nodes": [*TREE, *more]})
    assert nodes.next_failure(None) == "6"
    assert nodes.next_failure("6") == "7"
    assert nodes.next_failure("9") == "6"
    assert nodes.next_failure("gone") == "6"
