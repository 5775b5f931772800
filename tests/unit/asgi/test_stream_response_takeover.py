"""Calls that go on beyond their first response: places, times and cancellation when others read."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from nighthawk_async.observe import NodeView, TaskTree
from tests.unit.asgi.asgi_client import Connection, get, http_scope, open_connection
from tests.unit.asgi.event_stream_reader import StreamReader
from tests.unit.asgi.event_stream_scripts import Work, read, served, wait_for_text, wait_until

pytestmark = pytest.mark.anyio

HEADER = "last-event-id"


@asynccontextmanager
async def taken_over(app: Any, work: Work) -> AsyncIterator[tuple[Connection, StreamReader]]:
    """A stream whose first response is over, because somebody else reads on; gives that and what was read."""
    async with open_connection(app, http_scope()) as first:
        await work.say("one ")
        seen = await wait_for_text(first, "one ")
        async with open_connection(app, http_scope(headers={HEADER: seen.ids[-1]})) as second:
            await wait_for_whole(first)
            yield second, seen


async def wait_for_whole(connection: Connection) -> None:
    while not connection.is_complete:
        await connection.wait_for_sent(len(connection.sent) + 1)


def requests(tree: TaskTree) -> list[NodeView]:
    return [view for view in tree.snapshot().children if view.kind == "request"]


@pytest.mark.virtual_time
async def test_the_time_of_the_request_that_began_the_call_goes_on_when_others_read(
    virtual_clock: MockClock,
) -> None:
    work = Work()
    limit = {"request_timeout": 100.0}
    app = served(work, middleware=limit, resume_seconds=30.0, heartbeat_seconds=None)
    began = virtual_clock.current_time()
    async with taken_over(app, work) as (second, seen):
        await anyio.sleep(80)
        async with open_connection(app, http_scope(headers={HEADER: seen.ids[-1]})) as third:
            pass
    assert virtual_clock.current_time() - began == pytest.approx(100.0)
    told = read(third, seen)
    assert (told.names[-1], told.told[-1]["status"], work.cancelled) == ("error", 504, 1)
    assert (second.is_complete, third.is_complete, third.error) == (True, True, None)


async def test_whoever_watches_can_cancel_the_request_that_began_the_call_when_others_read() -> None:
    tree, work = TaskTree(), Work()
    app = served(work, middleware={"tree": tree}, resume_seconds=60.0)
    async with taken_over(app, work) as (second, seen):
        tree.cancel(requests(tree)[0].id)
    told = read(second, seen)
    assert (told.names[-1], told.told[-1]["status"], work.cancelled) == ("error", 503, 1)
    assert told.told[-1]["type"].endswith(":cancelled")
    assert (second.is_complete, second.error) == (True, None)
    assert [request.state for request in requests(tree)] == ["cancelled", "completed"]


async def test_cancelling_who_reads_leaves_the_call_alone() -> None:
    tree, work = TaskTree(), Work()
    app = served(work, middleware={"tree": tree}, resume_seconds=60.0)
    async with taken_over(app, work) as (second, seen):
        tree.cancel(requests(tree)[1].id)
        await second.ended.wait()
        async with open_connection(app, http_scope(headers={HEADER: seen.ids[-1]})) as third:
            await work.say("two")
            await wait_for_text(third, "two", seen)
            work.finish()
    assert (work.cancelled, read(third, seen).names[-1]) == (0, "result")


BUSY: list[dict[str, Any]] = [
    {"max_concurrent_requests": 1},
    {"max_concurrent_requests": 1, "max_queued_requests": 0},
    {"max_requests_per_client": 1, "client_of": lambda _: "a client"},
]


@pytest.mark.parametrize("limits", BUSY)
async def test_whoever_comes_back_needs_no_second_place(limits: dict[str, Any]) -> None:
    work = Work()
    app = served(work, middleware=limits, resume_seconds=60.0)
    async with open_connection(app, http_scope()) as first:
        await work.say("one ")
        seen = await wait_for_text(first, "one ")
        first.disconnect()
        for text in ("two ", "three "):  # it may lose the connection more than once
            async with open_connection(app, http_scope(headers={HEADER: seen.ids[-1]})) as again:
                await work.say(text)
                so_far = seen.text() + text
                seen = await wait_until(again, lambda reader, so_far=so_far: so_far in whole(reader), seen)
                assert (app.requests_in_progress, app.requests_waiting) == (1, 0)
                again.disconnect()
        work.finish()
    assert (work.cancelled, app.requests_in_progress, app.requests_waiting) == (0, 0, 0)


class Stuck(Connection):
    """A client that takes nothing after the beginning of the response."""

    def __init__(self) -> None:
        super().__init__()
        self.is_stuck = anyio.Event()
        self.feed({"type": "http.request", "body": b"", "more_body": False})

    async def send(self, message: dict[str, Any]) -> None:
        await super().send(message)
        if message["type"] == "http.response.body":
            self.is_stuck.set()
            await anyio.sleep_forever()


@pytest.mark.virtual_time
async def test_an_id_lets_no_crowd_in() -> None:
    """Those whose place is taken are there for a moment, and might be many."""
    work = Work()
    busy = {"max_concurrent_requests": 1, "max_queued_requests": 0}
    app = served(work, middleware=busy, resume_seconds=60.0, heartbeat_seconds=None)
    async with open_connection(app, http_scope()) as first:
        await work.say("one ")
        seen = await wait_for_text(first, "one ")
        back = http_scope(headers={HEADER: seen.ids[0]})
        async with anyio.create_task_group() as tasks:
            for connection in (Stuck(), Stuck()):
                tasks.start_soon(app, back, connection.receive, connection.send)
                await connection.is_stuck.wait()
            assert (await get(app, headers={HEADER: seen.ids[0]})).status == 503
            await anyio.sleep(5)  # the first of the two has made way
            async with open_connection(app, back) as again:
                await wait_for_text(again, "one ", seen.until(seen.ids[0]))
                work.finish()
    assert (work.cancelled, read(again, seen.until(seen.ids[0])).names[-1]) == (0, "result")


def whole(reader: StreamReader) -> str:
    return str(reader.known.shown()["children"][0]["transcript"])
