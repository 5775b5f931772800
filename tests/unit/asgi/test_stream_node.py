"""How a node goes on that another request has begun, told to any number of clients."""

from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from trio.testing import MockClock

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware, StreamResponse, stream_node
from nighthawk_async.observation import NodeWriter, find_node_writer
from nighthawk_async.observe import NodeNotFoundError, TaskTree
from tests.unit.asgi.applications import Steps
from tests.unit.asgi.asgi_client import get, http_scope, open_connection, open_lifespan
from tests.unit.asgi.event_stream_reader import told_of
from tests.unit.asgi.event_stream_scripts import comments, read, wait_for_text, wait_until

pytestmark = pytest.mark.anyio

SECRET = "the prompt of Ada"
HEADER = "last-event-id"


class Watched:
    """A node in a tree, and the application that streams it."""

    def __init__(self, *, middleware: Any = None, **options: Any) -> None:
        self.tree = TaskTree()
        with self.tree.recording():
            root = find_node_writer()
        assert root is not None
        self.node: NodeWriter = root.begin_child("task", "investigation")
        self._options: dict[str, Any] = {"profile": "full", "min_interval_seconds": 0.0, **options}
        self.app: Any = self._app
        if middleware is not None:
            self.app = NighthawkMiddleware(self._app, model=Steps().executor, **middleware)

    @property
    def node_id(self) -> str:
        return self.tree.snapshot().children[0].id

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        response = stream_node(self.node_id, tree=self.tree, **self._options)
        await response(scope, receive, send)


@pytest.fixture(params=[None, {}], ids=["bare", "middleware"])
def watched(request: pytest.FixtureRequest) -> Watched:
    return Watched(middleware=request.param)


async def test_a_node_is_told_until_it_has_ended(watched: Watched) -> None:
    async with open_connection(watched.app, http_scope()) as connection:
        step = watched.node.begin_child("step", "look")
        for said, so_far in (("one ", "one "), ("two", "one two")):
            step.write("text", said)
            await wait_for_text(connection, so_far)
        step.end("completed")
        watched.node.end("failed", error=ValueError(SECRET))
    told = read(connection)
    assert (connection.status, connection.is_complete, connection.error) == (200, True, None)
    assert connection.headers["content-type"].startswith("text/event-stream")
    assert (told.names[-1], told.told[-1]) == ("end", {"id": watched.node_id, "state": "failed"})
    assert SECRET not in connection.body.decode()


async def test_the_events_tell_the_same_that_is_recorded() -> None:
    watched = Watched(tell_internals=True)
    watched.node.begin_child("step", "look", attributes={"about": SECRET}).write("note", SECRET)
    watched.node.end("completed")
    told = read(await get(watched.app))
    assert told.known.shown() == told_of(watched.tree.snapshot(watched.node_id))


async def test_a_node_that_has_ended_is_told_at_once(watched: Watched) -> None:
    watched.node.end("completed")
    told = read(await get(watched.app))
    assert told.names == ["step", "end"]


async def test_a_client_that_comes_back_is_told_everything_anew(watched: Watched) -> None:
    step = watched.node.begin_child("step", "look")
    step.write("text", "one ")
    async with open_connection(watched.app, http_scope()) as connection:
        before = await wait_for_text(connection, "one ")
        connection.disconnect()
    step.write("text", "two")
    async with open_connection(watched.app, http_scope(headers={HEADER: before.ids[-1]})) as again:
        await wait_until(again, lambda reader: reader.text() == "one two")
        step.end("completed")
        watched.node.end("completed")
    told = read(again, before)
    assert (told.names[0], told.told[0]) == ("snapshot", {"id": watched.node_id})
    assert told.known.shown()["children"][0]["transcript"][0]["text"] == "one two"
    for _ in range(2):  # as browsers do after the last event too
        answered = await get(watched.app, headers={HEADER: told.ids[-1]})
        assert (answered.status, answered.body) == (204, b"")


async def test_many_clients_watch_one_node_and_leave_as_they_like(watched: Watched) -> None:
    async with (
        open_connection(watched.app, http_scope()) as first,
        open_connection(watched.app, http_scope()) as second,
    ):
        watched.node.write("text", "one ")
        for connection in (first, second):
            await wait_for_text(connection, "one ")
        first.disconnect()
        await first.ended.wait()
        watched.node.write("text", "two")
        await wait_for_text(second, "one two")
        assert watched.tree.snapshot(watched.node_id).state == "running"
        watched.node.end("completed")
    assert (first.error, first.is_complete) == (None, False)
    assert read(second).names[-1] == "end"


async def test_the_end_of_the_service_is_told() -> None:
    watched = Watched(middleware={"grace_seconds": 0.0})
    async with (
        open_lifespan(watched.app) as lifespan,
        open_connection(watched.app, http_scope()) as connection,
    ):
        watched.node.write("text", "one")
        await wait_for_text(connection, "one")
        await lifespan.stop()
    told = read(connection)
    assert (told.names[-1], connection.is_complete, connection.error) == ("error", True, None)
    assert told.told[-1]["type"].endswith(":shutting-down")


@pytest.mark.virtual_time
async def test_the_time_of_the_request_counts_and_its_end_is_told() -> None:
    watched = Watched(middleware={"request_timeout": 100.0}, heartbeat_seconds=None)
    answered = await get(watched.app)
    assert (answered.is_complete, read(answered).told[-1]["status"]) == (True, 504)
    assert watched.tree.snapshot(watched.node_id).state == "running"


@pytest.mark.virtual_time
async def test_it_begins_at_once_and_sends_comments_while_nothing_happens(virtual_clock: MockClock) -> None:
    watched = Watched(heartbeat_seconds=15.0)
    began = virtual_clock.current_time()
    async with open_connection(watched.app, http_scope()) as connection:
        await wait_until(connection, lambda reader: reader.names == ["step"])
        assert virtual_clock.current_time() == began
        await connection.wait_for_sent(len(connection.sent) + 2)
        assert comments(connection) == 2
        assert virtual_clock.current_time() - began == pytest.approx(30.0)
        watched.node.end("completed")


async def test_an_endpoint_streams_what_another_has_begun() -> None:
    steps, node_ids = Steps(), list[str]()

    async def begin(request: Request) -> StreamResponse:
        async def call() -> None:
            node_ids.append(nh.observe.find_node_id() or "")
            is_begun.set()
            await steps.release.wait()

        return nh.asgi.stream_response(call, profile="full", min_interval_seconds=0.0)

    async def watch(request: Request) -> StreamResponse:
        return stream_node(node_ids[0], profile="full", min_interval_seconds=0.0)

    is_begun = anyio.Event()
    routes = [Route("/begin", begin), Route("/watch", watch)]
    app = NighthawkMiddleware(Starlette(routes=routes), model=steps.executor, tree=TaskTree())
    async with open_connection(app, http_scope("/begin")):
        await is_begun.wait()
        async with open_connection(app, http_scope("/watch")) as watching:
            await wait_until(watching, lambda reader: "step" in reader.names)
            steps.release.set()
    told = read(watching)
    assert (told.known.root, told.told[-1]) == (node_ids[0], {"id": node_ids[0], "state": "completed"})


def test_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(NodeNotFoundError):
        stream_node("77", tree=TaskTree())


def test_a_tree_is_needed() -> None:
    with pytest.raises(nh.NighthawkError, match="tree"):
        stream_node("1")


@pytest.mark.parametrize("options", [{"heartbeat_seconds": 0}, {"min_interval_seconds": "soon"}])
def test_bad_arguments_are_refused(options: dict[str, Any]) -> None:
    watched = Watched()
    with pytest.raises(nh.NighthawkError, match=next(iter(options))):
        stream_node(watched.node_id, tree=watched.tree, **options)
