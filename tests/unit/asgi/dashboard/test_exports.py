"""Files of what is below a node, and search by value, over HTTP."""

from pathlib import Path
from urllib.parse import urlencode

import pytest

from nighthawk_async.asgi import Dashboard
from nighthawk_async.observe import TaskTree, read_recording
from tests.unit.asgi.dashboard.dashboard_client import TOKEN, data_of, fetch, top_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def tree() -> TaskTree:
    tree = TaskTree()
    run = top_of(tree).begin_child("run", "main")
    run.begin_child("step", "classify", inputs={"ticket": "Where is my money?"})
    top_of(tree).begin_child("run", "another")
    return tree


async def test_a_node_is_sent_as_a_recording(tree: TaskTree, tmp_path: Path) -> None:
    sent = await fetch(Dashboard(tree), "/api/nodes/1/recording")
    assert sent.status == 200
    assert sent.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert sent.headers["content-disposition"] == 'attachment; filename="node-1.jsonl"'
    path = tmp_path / "node.jsonl"
    path.write_bytes(sent.body)
    names = [view.name for view in read_recording(path).snapshot().walk()]
    assert names == ["", "main", "classify"]


async def test_everything_is_sent_as_a_page(tree: TaskTree) -> None:
    sent = await fetch(Dashboard(tree, title="Shop & more"), "/api/nodes/0/page")
    assert sent.headers["content-type"] == "text/html; charset=utf-8"
    assert sent.headers["content-disposition"] == 'attachment; filename="node-0.html"'
    assert sent.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert b"<title>Shop &amp; more</title>" in sent.body
    assert b"Where is my money?" in sent.body


@pytest.mark.parametrize("form", ["recording", "page"])
async def test_files_need_what_reading_needs(tree: TaskTree, form: str) -> None:
    dashboard = Dashboard(tree, token=TOKEN, protect_reading=True)
    path = f"/api/nodes/1/{form}"
    assert (await fetch(dashboard, path)).status == 401
    assert (await fetch(dashboard, path, headers={"authorization": f"Bearer {TOKEN}"})).status == 200
    assert (await fetch(Dashboard(tree), path, method="POST")).status == 405
    assert (await fetch(Dashboard(tree), f"/api/nodes/9/{form}")).status == 404
    assert (await fetch(Dashboard(tree), path, query_string=b"stream=another")).status == 409
    head = await fetch(Dashboard(tree), path, method="HEAD")
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize(
    ("text", "found"), [("ticket=where", ["2"]), ("=where is", ["2"]), ("ticket=money", [])]
)
async def test_a_value_is_found_by_its_beginning(tree: TaskTree, text: str, found: list[str]) -> None:
    query = urlencode({"text": text}).encode()
    assert data_of(await fetch(Dashboard(tree), "/api/search", query_string=query)) == {"nodes": found}
