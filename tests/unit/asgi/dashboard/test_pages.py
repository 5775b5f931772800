"""The page and its files, under any path and on any host that is allowed."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from nighthawk_async import NighthawkError
from nighthawk_async.asgi import Dashboard
from nighthawk_async.observe import TaskTree, find_node_id
from tests.unit.asgi.applications import answer
from tests.unit.asgi.dashboard.dashboard_client import fetch

pytestmark = pytest.mark.anyio

STATIC = Path(str(files("nighthawk_async.observe.page"))) / "static"


@pytest.fixture
def dashboard() -> Dashboard:
    return Dashboard(TaskTree())


async def test_the_page_is_served_with_a_policy_that_allows_only_its_own_files(dashboard: Any) -> None:
    page = await fetch(dashboard)
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"


async def test_every_file_is_served_with_its_type_and_those_are_all_there_are(dashboard: Any) -> None:
    types = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".html": "text/html"}
    for path in STATIC.iterdir():
        served = await fetch(dashboard, "/" if path.suffix == ".html" else f"/static/{path.name}")
        assert served.status == 200, path.name
        assert served.body == path.read_bytes()
        assert served.headers["content-type"].partition(";")[0] == types[path.suffix]


async def test_the_page_names_nothing_but_its_own_files_by_relative_addresses(dashboard: Any) -> None:
    page = (await fetch(dashboard)).body.decode()
    for address in re.findall(r'(?:src|href)="([^"]*)"', page):
        assert (await fetch(dashboard, f"/{address}")).status == 200
        assert not address.startswith(("/", "http"))
    for path in STATIC.glob("*.js"):
        for name in re.findall(r'from "\./([^"]+)"', path.read_text()):
            assert (STATIC / name).is_file()


def test_no_file_reads_text_as_markup_or_code_or_leaves_for_other_hosts() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|parseFromString"
        r"|setHTML|srcdoc|\beval\(|new Function|\bon\w+=\"|https?://(?!www\.w3\.org/2000/svg)|\bcookie\b"
    )
    found = {
        (path.name, match)
        for path in STATIC.iterdir()
        for match in forbidden.findall(path.read_text(encoding="utf-8"))
    }
    assert found == set()


async def test_a_file_that_the_browser_has_is_not_sent_again(dashboard: Any) -> None:
    tag = (await fetch(dashboard, "/static/app.js")).headers["etag"]
    again = await fetch(dashboard, "/static/app.js", headers={"if-none-match": f'"other", W/{tag}'})
    assert (again.status, again.body) == (304, b"")
    assert (await fetch(dashboard, "/static/app.js", headers={"if-none-match": '"other"'})).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../application.py",
        "/static/%2e%2e/security.py",
        "/static/index.html",
        "/static/",
        "/static",
        "/static//app.js",
        "/app.js",
        "/api",
        "/api/nodes/../tree",
        "/api/nodes/x",
        "/etc/passwd",
        "//etc/passwd",
    ],
)
async def test_nothing_else_is_there(dashboard: Any, path: str) -> None:
    response = await fetch(dashboard, path)
    assert response.status == 404
    assert response.headers["content-type"] == "application/problem+json"


async def test_headers_alone_are_given_when_only_they_are_asked_for(dashboard: Any) -> None:
    head = await fetch(dashboard, method="HEAD")
    assert head.body == b""
    assert int(head.headers["content-length"]) > 0
    refused = await fetch(dashboard, method="DELETE")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("path", "root_path"),
    [("/", ""), ("/", "/dash"), ("/dash/", "/dash"), ("/a/b/", "/a/b"), ("/dash/", "/dash/")],
)
async def test_it_is_mounted_under_any_path(dashboard: Any, path: str, root_path: str) -> None:
    page = await fetch(dashboard, path, root_path=root_path)
    assert page.status == 200
    assert b"<!doctype html>" in page.body


@pytest.mark.parametrize(
    ("path", "root_path", "location"),
    [
        ("/dash", "/dash", "./dash/"),
        ("/a/b", "/a/b", "./b/"),
        ("", "/dash", "./dash/"),
        ("", "", "./"),
        ("/x:y", "/x:y", "./x%3Ay/"),
    ],
)
async def test_its_path_without_a_slash_leads_to_that_with_one(
    dashboard: Any, path: str, root_path: str, location: str
) -> None:
    response = await fetch(dashboard, path, root_path=root_path)
    assert (response.status, response.headers["location"]) == (307, location)


async def test_a_framework_mounts_it(dashboard: Any) -> None:
    app = Starlette(routes=[Mount("/inside/dashboard", dashboard)])
    assert b"<!doctype html>" in (await fetch(app, "/inside/dashboard/")).body
    assert (await fetch(app, "/inside/dashboard/static/app.js")).status == 200
    assert (await fetch(app, "/inside/dashboard/api/tree")).status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("[::1]:8000", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("", 421),
    ],
)
async def test_only_the_hosts_that_are_allowed_are_served(host: str, status: int) -> None:
    dashboard = Dashboard(TaskTree(), allowed_hosts=["localhost", "::1"])
    for path in ("/", "/api/tree", "/static/app.js"):
        assert (await fetch(dashboard, path, headers={"host": host})).status == status


async def test_without_a_tree_and_without_a_recording_the_page_is_there_and_its_data_is_not() -> None:
    dashboard = Dashboard()
    assert (await fetch(dashboard)).status == 200
    assert (await fetch(dashboard, "/api/tree")).status == 503
    with TaskTree().recording():
        assert (await fetch(dashboard, "/api/tree")).status == 200


async def test_websockets_are_refused_and_a_lifespan_is_gone_through(dashboard: Any) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive() -> Any:
        return next(messages)

    await dashboard({"type": "websocket"}, receive, send)
    await dashboard({"type": "lifespan"}, receive, send)
    assert sent == ["websocket.close", "lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_an_application_is_served_with_the_dashboard_beside_it() -> None:
    scopes: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope["path"])
        assert find_node_id() == "0"
        await answer(send, "ours")

    both = Dashboard().beside(app, path="/look")
    assert (await fetch(both, "/look/")).status == 200
    assert (await fetch(both, "/look")).status == 307
    assert (await fetch(both, "/look/api/tree")).status == 200
    assert (await fetch(both, "/under/look/static/app.js", root_path="/under")).status == 200
    assert (await fetch(both, "/looking")).body == b"ours"
    assert (await fetch(both, "/")).body == b"ours"
    assert scopes == ["/looking", "/"]


@pytest.mark.parametrize("path", ["look", "/look/", "/", ""])
def test_a_path_without_a_slash_at_its_beginning_or_with_one_at_its_end_is_refused(path: str) -> None:
    with pytest.raises(NighthawkError, match="slash"):
        Dashboard().beside(answer, path=path)
