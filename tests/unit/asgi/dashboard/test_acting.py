"""Who may act, and what comes of it."""

from typing import Any

import pytest

from nighthawk_async import NighthawkError
from nighthawk_async.asgi import Dashboard
from nighthawk_async.observe import TaskTree
from tests.unit.asgi.asgi_client import http_scope, open_connection
from tests.unit.asgi.dashboard.dashboard_client import TOKEN, Control, act, data_of, fetch, top_of

pytestmark = pytest.mark.anyio


class Scene:
    """A dashboard with one node that can be influenced."""

    def __init__(self, **settings: Any) -> None:
        self.tree = TaskTree()
        self.control = Control()
        self.writer = top_of(self.tree).begin_child("step", "draft", control=self.control)
        self.dashboard = Dashboard(self.tree, **{"token": TOKEN, **settings})

    @property
    def path(self) -> str:
        return f"/api/nodes/{self.tree.snapshot().children[0].id}"

    async def stream(self) -> str:
        return data_of(await fetch(self.dashboard, "/api/tree"))["stream"]


async def test_whoever_has_the_token_acts() -> None:
    scene = Scene()
    for action, body in [("cancel", {"reason": "enough"}), ("steer", {"text": "shorter"}), ("suspend", {})]:
        assert (await act(scene.dashboard, f"{scene.path}/{action}", body)).status == 202
    scene.writer.change_state("suspended")
    assert (await act(scene.dashboard, f"{scene.path}/resume")).status == 202
    assert scene.control.asked == [("cancel", "enough"), ("steer", "shorter"), ("suspend",), ("resume",)]


async def test_a_cancellation_without_a_reason_says_who() -> None:
    scene = Scene(token={"ada": TOKEN})
    await act(scene.dashboard, f"{scene.path}/cancel")
    assert scene.control.asked == [("cancel", "cancelled by ada")]


async def test_without_a_configured_token_nobody_acts() -> None:
    scene = Scene(token=None)
    response = await act(scene.dashboard, f"{scene.path}/cancel")
    assert response.status == 403
    assert data_of(response)["type"].endswith(":read-only")
    assert data_of(await fetch(scene.dashboard, "/api/tree"))["can_act"] is False
    assert scene.control.asked == []


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": TOKEN},
        {"authorization": "Bearer \xfc\xff"},
    ],
)
async def test_a_wrong_token_is_refused(headers: dict[str, str]) -> None:
    scene = Scene()
    scope = http_scope(f"{scene.path}/cancel", method="POST", headers={"content-type": "application/json"})
    scope["headers"] += [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    async with open_connection(scene.dashboard, scope) as connection:
        pass
    assert connection.status == 401
    assert connection.headers["www-authenticate"].startswith("Bearer")
    assert scene.control.asked == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 202),
        ({"origin": "https://service.example", "sec-fetch-site": "same-origin"}, 202),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "https://service.example:8443"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://[bad"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://service.example", "sec-fetch-site": "cross-site"}, 403),
    ],
)
async def test_pages_of_other_origins_do_not_act_even_with_the_token(
    headers: dict[str, str], status: int
) -> None:
    scene = Scene()
    assert (await act(scene.dashboard, f"{scene.path}/cancel", headers=headers)).status == status
    assert bool(scene.control.asked) is (status == 202)


@pytest.mark.parametrize(
    ("raw", "content_type", "status"),
    [
        (b'{"stream": "%s", "text": "a"}', "application/json; charset=utf-8", 202),
        (b'{"stream": "%s", "text": "a"}', "text/plain", 415),
        (b'{"stream": "%s", "text": "a"}', "application/x-www-form-urlencoded", 415),
        (b"text=a", "application/json", 400),
        (b'{"stream": "%s", "text": 1}', "application/json", 400),
        (b'{"stream": "%s"}', "application/json", 400),
        (b'{"text": "a"}', "application/json", 400),
        (b"", "application/json", 400),
        (b'{"stream": "%s", "text": "a", "more": 1}', "application/json", 400),
        (b'{"stream": "%s", "text": "\xff"}', "application/json", 400),
        (b'{"stream": "%s", "text": "' + b"a" * 65_536 + b'"}', "application/json", 413),
    ],
)
async def test_only_json_of_the_right_form_and_size_is_taken(
    raw: bytes, content_type: str, status: int
) -> None:
    scene = Scene()
    headers = {"content-type": content_type}
    raw = raw.replace(b"%s", (await scene.stream()).encode())
    response = await act(scene.dashboard, f"{scene.path}/steer", raw=raw, headers=headers)
    assert response.status == status
    assert scene.control.asked == ([("steer", "a")] if status == 202 else [])


async def test_a_body_that_never_ends_is_read_up_to_the_limit_only() -> None:
    scene = Scene()
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    scope = http_scope(f"{scene.path}/steer", method="POST", headers=headers)
    chunk = {"type": "http.request", "body": b" " * 30_000, "more_body": True}
    async with open_connection(scene.dashboard, scope, chunk, chunk, chunk, chunk, chunk) as connection:
        pass
    assert (connection.status, connection.asked_for) == (413, 3)


async def test_a_client_that_leaves_before_its_body_is_whole_changes_nothing() -> None:
    scene = Scene()
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    scope = http_scope(f"{scene.path}/cancel", method="POST", headers=headers)
    chunk = {"type": "http.request", "body": b"{", "more_body": True}
    async with open_connection(scene.dashboard, scope, chunk, {"type": "http.disconnect"}) as connection:
        pass
    assert connection.error is None
    assert (connection.sent, scene.control.asked) == ([], [])


@pytest.mark.parametrize("action", ["cancel", "steer", "suspend", "resume", "answer"])
async def test_what_is_meant_for_a_node_of_another_tree_reaches_none(action: str) -> None:
    old, scene = Scene(), Scene()
    more = {"steer": {"text": "shorter"}, "answer": {"answer": "yes"}}.get(action, {})
    body = {"stream": await old.stream(), **more}
    response = await act(scene.dashboard, f"{scene.path}/{action}", body)
    assert response.status == 409
    assert "restarted" in data_of(response)["detail"]
    assert scene.control.asked == []


async def test_a_node_of_another_tree_is_not_shown_for_the_one_that_was_seen() -> None:
    old, scene = Scene(), Scene()
    for path in (scene.path, f"{scene.path}/changes"):
        query = f"stream={await old.stream()}".encode()
        assert (await fetch(scene.dashboard, path, query_string=query)).status == 409
    query = f"stream={await scene.stream()}".encode()
    assert (await fetch(scene.dashboard, scene.path, query_string=query)).status == 200


async def test_trees_that_were_made_before_a_process_was_forked_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    before = await scene.stream()
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert await scene.stream() != before


async def test_a_body_that_is_nested_too_deep_is_refused() -> None:
    scene = Scene()
    raw = b'{"stream": "", "answer": ' + b"[" * 30_000 + b"]" * 30_000 + b"}"
    assert (await act(scene.dashboard, f"{scene.path}/answer", raw=raw)).status == 400


async def test_what_is_not_possible_is_said_plainly() -> None:
    scene = Scene()
    assert (await act(scene.dashboard, "/api/nodes/999/cancel")).status == 404
    assert (await act(scene.dashboard, f"{scene.path}/answer", {"answer": "yes"})).status == 409
    assert (await fetch(scene.dashboard, f"{scene.path}/cancel")).status == 405
    assert (await fetch(scene.dashboard, f"{scene.path}/explode", method="POST")).status == 405
    scene.writer.end("completed")
    response = await act(scene.dashboard, f"{scene.path}/cancel")
    assert response.status == 409
    assert "has ended" in data_of(response)["detail"]


async def test_a_token_is_tried_out_without_doing_anything() -> None:
    scene = Scene(token={"ada": TOKEN})
    response = await fetch(scene.dashboard, "/api/actor", headers={"authorization": f"Bearer {TOKEN}"})
    assert (response.status, data_of(response)) == (200, {"actor": "ada"})
    for headers in ({}, {"authorization": "Bearer not-the-token-at-all"}):
        response = await fetch(scene.dashboard, "/api/actor", headers=headers)
        assert (response.status, data_of(response)["type"].rpartition(":")[2]) == (401, "bad-token")
    elsewhere = {"authorization": f"Bearer {TOKEN}", "sec-fetch-site": "cross-site"}
    assert (await fetch(scene.dashboard, "/api/actor", headers=elsewhere)).status == 403
    read_only = Scene(token=None)
    response = await fetch(read_only.dashboard, "/api/actor", headers={"authorization": f"Bearer {TOKEN}"})
    assert (response.status, data_of(response)["type"].rpartition(":")[2]) == (403, "read-only")
    assert scene.control.asked == []


async def test_reading_is_protected_where_that_is_wanted() -> None:
    scene = Scene(protect_reading=True)
    for path in ("/api/tree", "/api/changes", scene.path, f"{scene.path}/changes"):
        assert (await fetch(scene.dashboard, path)).status == 401
    assert (await fetch(scene.dashboard)).status == 200
    headers = {"authorization": f"bearer {TOKEN}"}
    assert (await fetch(scene.dashboard, "/api/tree", headers=headers)).status == 200


@pytest.mark.parametrize(
    "settings",
    [
        {"token": ""},
        {"token": "too-short"},
        {"token": "sixteen spaces and"},
        {"token": {"ada": TOKEN, "bob": TOKEN}},
        {"token": {}},
        {"token": {"": TOKEN}},
        {"token": 1},
        {"protect_reading": True},
        {"allowed_hosts": "localhost"},
        {"heartbeat_seconds": -1},
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(NighthawkError):
        Dashboard(TaskTree(), **settings)
