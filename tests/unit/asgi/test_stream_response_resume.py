"""Clients that lose the connection and come back: every event once, or a fresh beginning, or nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

import nighthawk_async as nh
from nighthawk_async.asgi.event_stream_encoding import StreamEvent
from nighthawk_async.asgi.event_stream_live import LiveStream, parse_event_id
from nighthawk_async.asgi.work import KeptStreams
from tests.unit.asgi.asgi_client import Connection, get, http_scope, open_connection, open_lifespan
from tests.unit.asgi.event_stream_reader import StreamReader
from tests.unit.asgi.event_stream_scripts import Work, bare_app, read, served, wait_for_text, wait_until

pytestmark = pytest.mark.anyio

HEADER = "last-event-id"


@asynccontextmanager
async def left_after(app: Any, work: Work, text: str) -> AsyncIterator[StreamReader]:
    """A stream whose client has left after so much text, and which goes on."""
    async with open_connection(app, http_scope()) as connection:
        await work.say(text)
        reader = await wait_for_text(connection, text)
        connection.disconnect()
        yield reader


def returning(seen: str, path: str = "/") -> dict[str, Any]:
    return http_scope(path, headers={HEADER: seen})


class Stuck(Connection):
    """A client that takes nothing after the first text."""

    def __init__(self) -> None:
        super().__init__()
        self.is_stuck = anyio.Event()
        self.feed({"type": "http.request", "body": b"", "more_body": False})

    async def send(self, message: dict[str, Any]) -> None:
        await super().send(message)
        if b"event: text" in message.get("body", b""):
            self.is_stuck.set()
            await anyio.sleep_forever()


class Quiet:
    """A call that brings about nothing."""

    def __init__(self) -> None:
        self.is_begun = anyio.Event()
        self.cancelled = 0

    async def __call__(self) -> None:
        self.is_begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled += 1


async def test_a_client_that_comes_back_goes_on_where_it_was() -> None:
    work = Work()
    app = served(work, resume_seconds=60.0)
    async with left_after(app, work, "one ") as before:
        await work.say("two ")
        async with open_connection(app, returning(before.ids[-1])) as again:
            await wait_for_text(again, "two ", before)
            await work.say("three")
            await wait_for_text(again, "two three", before)
            work.finish()
    after = read(again, before)
    numbers = [int(each.rpartition(".")[2]) for each in [*before.ids, *after.ids]]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert (after.names[-1], work.calls, work.cancelled) == ("result", 1, 0)


@pytest.mark.parametrize("received", [1, 2, 3])
async def test_what_was_sent_and_not_received_comes_once_more(received: int) -> None:
    work = Work()
    app = served(work, resume_seconds=60.0)
    async with (
        left_after(app, work, "one ") as sent,
        open_connection(app, returning(sent.ids[received - 1])) as again,
    ):
        await work.say("two")
        work.finish()
    after = read(again, sent.until(sent.ids[received - 1]))
    assert after.ids[: len(sent.ids) - received] == sent.ids[received:]
    assert after.told[: len(sent.ids) - received] == sent.told[received:]
    assert after.text().endswith("two")
    assert len(set(after.ids)) == len(after.ids)
    assert after.known.shown()["children"][0]["transcript"][0]["text"] == "one two"


async def test_a_client_that_comes_back_after_the_end_gets_the_rest() -> None:
    work = Work()
    app = served(work, resume_seconds=60.0)
    async with open_lifespan(app):
        async with left_after(app, work, "one ") as before:
            await work.say("two")
            work.finish("all")
        again = await get(app, headers={HEADER: before.ids[-1]})
        after = read(again, before)
        assert (after.text(), after.told[-1]) == ("two", {"value": "all"})
        assert again.is_complete
        for _ in range(2):  # it may lose the connection again
            once_more = read(await get(app, headers={HEADER: before.ids[-1]}), before)
            assert (once_more.ids, once_more.told) == (after.ids, after.told)
        known_all = await get(app, headers={HEADER: after.ids[-1]})
        assert (known_all.status, known_all.body, work.calls) == (204, b"", 1)


async def test_an_error_while_the_client_is_away_is_told_when_it_is_back() -> None:
    work = Work()
    app = served(work, resume_seconds=60.0)
    async with left_after(app, work, "one ") as before:
        work.fail(nh.errors.ModelTimeoutError("late"))
    after = read(await get(app, headers={HEADER: before.ids[-1]}), before)
    assert (after.names[-1], after.told[-1]["status"]) == ("error", 504)


async def test_the_last_event_that_got_lost_comes_again_though_the_response_was_whole() -> None:
    work = Work()
    work.finish("all")
    app = served(work, resume_seconds=60.0)
    first = read(await get(app))
    again = read(await get(app, headers={HEADER: first.ids[-2]}))
    assert (again.names, again.ids, again.told) == (["result"], first.ids[-1:], [{"value": "all"}])


async def test_a_connection_that_breaks_amid_a_message_loses_nothing() -> None:
    """What the server took and never delivered was sent, as far as anybody here knows."""
    work = Work()
    app = served(work, resume_seconds=60.0)

    connection = Stuck()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app, http_scope(), connection.receive, connection.send)
        await work.say("one ")
        seen = await wait_for_text(connection, "one ")
        await work.say("two ")
        connection.disconnect()
        received = seen.until(seen.ids[seen.names.index("text") - 1])
        async with open_connection(app, returning(received.ids[-1])) as again:
            await wait_for_text(again, "one two ", received)
            work.finish()
    assert read(again, received).names[-1] == "result"


@pytest.mark.virtual_time
async def test_the_call_is_cancelled_when_nobody_comes_back_in_time(virtual_clock: MockClock) -> None:
    work = Work()
    app = served(work, resume_seconds=30.0, heartbeat_seconds=None)
    began = virtual_clock.current_time()
    async with left_after(app, work, "one ") as before:
        pass
    assert virtual_clock.current_time() - began == pytest.approx(30.0)
    assert work.cancelled == 1
    told = read(await get(app, headers={HEADER: before.ids[-1]}), before)
    assert (told.names[-1], told.told[-1]["status"]) == ("error", 408)
    assert told.told[-1]["type"].endswith(":client-away")
    await anyio.sleep(31)
    answered = await get(app, headers={HEADER: before.ids[-1]})
    assert (answered.status, work.calls) == (204, 1)


@pytest.mark.virtual_time
async def test_the_time_begins_anew_each_time_a_client_leaves() -> None:
    work = Work()
    app = served(work, resume_seconds=30.0, heartbeat_seconds=None)
    async with left_after(app, work, "one ") as before:
        await anyio.sleep(20)
        async with open_connection(app, returning(before.ids[-1])) as again:
            await anyio.sleep(100)
            again.disconnect()
        await anyio.sleep(20)
        assert work.cancelled == 0
        work.finish()
    told = read(await get(app, headers={HEADER: before.ids[-1]}), before)
    assert (work.cancelled, told.names[-1]) == (0, "result")


async def test_a_client_that_has_missed_more_than_is_kept_gets_everything_anew() -> None:
    work = Work()
    app = served(work, resume_seconds=60.0)
    async with open_connection(app, http_scope()) as connection:
        node = await work.begun()
        for number in range(12):  # each event is kept; the transcript is not that long
            node.write("text", "x" * 30_000)
            key = f"look#{number}"
            node.write("tool_call", "{}", key=key)
            await wait_until(
                connection, lambda reader, key=key: any(t.get("key") == key for t in reader.told)
            )
        whole = read(connection)
        connection.disconnect()
        async with open_connection(app, returning(whole.ids[0])) as again:
            await wait_until(again, lambda reader: "tool_call" in reader.names)
            work.finish()
    after = read(again)
    assert len(connection.body) > 256 * 1024
    assert (after.names[0], after.names[-1]) == ("snapshot", "result")
    assert after.ids[0] == f"{whole.ids[0].rpartition('.')[0]}.{len(whole.ids) + 1}"
    shown, expected = after.known.shown(), whole.known.shown()
    assert shown["children"][0]["transcript"] == expected["children"][0]["transcript"]


async def test_an_id_that_was_never_given_out_gets_everything_anew() -> None:
    work = Work()
    app = served(work, resume_seconds=60.0)
    async with left_after(app, work, "one ") as before:
        forged = before.ids[-1].rpartition(".")[0] + ".999"
        async with open_connection(app, returning(forged)) as again:
            await wait_for_text(again, "one ")
            work.finish()
    assert read(again).names[0] == "snapshot"


async def test_who_reads_last_reads_on() -> None:
    work = Work()
    app = served(work, resume_seconds=60.0)
    async with open_connection(app, http_scope()) as first:
        await work.say("one ")
        seen = await wait_for_text(first, "one ")
        async with open_connection(app, returning(seen.ids[-1])) as second:
            await first.wait_for_sent(len(first.sent) + 1)
            assert first.is_complete
            await work.say("two")
            await wait_for_text(second, "two", seen)
            work.finish()
    assert (read(second, seen).names[-1], read(first).text(), work.cancelled) == ("result", "one ", 0)


@pytest.mark.virtual_time
async def test_a_connection_that_is_dead_and_still_open_makes_way() -> None:
    """Nobody has told the server; it waits for the client to take what was sent."""
    work = Work()
    app = served(work, resume_seconds=30.0, heartbeat_seconds=None)
    dead = Stuck()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app, http_scope(), dead.receive, dead.send)
        await work.say("one ")
        await dead.is_stuck.wait()
        seen = read(dead)
        async with open_connection(app, returning(seen.ids[0])) as again:
            await wait_for_text(again, "one ", seen.until(seen.ids[0]))
            again.disconnect()
        began = anyio.current_time()
    assert (work.cancelled, anyio.current_time() - began) == (1, pytest.approx(30.0, abs=2.0))


async def test_a_stream_belongs_to_its_path() -> None:
    work = Work()
    app = served(work, resume_seconds=60.0)
    async with left_after(app, work, "one ") as before:
        answered = await get(app, "/elsewhere", headers={HEADER: before.ids[-1]})
        work.finish()
    assert answered.status == 204


@pytest.mark.parametrize("seen", ["unknown.7", "7", "a.b", ".1", "x" * 10_000, "a.9" + "9" * 30])
@pytest.mark.parametrize("resume_seconds", [0.0, 60.0])
async def test_whoever_comes_back_to_nothing_begins_nothing(seen: str, resume_seconds: float) -> None:
    """Browsers come back by themselves, also after the last event, and stop at this answer."""
    work = Work()
    answered = await get(served(work, resume_seconds=resume_seconds), headers={HEADER: seen})
    assert (answered.status, answered.body, work.calls) == (204, b"", 0)


async def test_without_time_to_come_back_the_stream_is_gone_with_its_client() -> None:
    work = Work()
    app = served(work)
    async with left_after(app, work, "one ") as before:
        pass
    assert work.cancelled == 1
    assert (await get(app, headers={HEADER: before.ids[-1]})).status == 204


async def test_an_error_before_anything_has_begun_leaves_nothing_to_come_back_to() -> None:
    async def fail() -> None:
        raise nh.errors.ModelTimeoutError("late")

    assert (await get(served(fail, resume_seconds=60.0))).status == 504


async def test_a_service_that_ends_does_not_wait_for_clients_to_come_back() -> None:
    work = Work()
    app = served(work, resume_seconds=10_000.0, middleware={"grace_seconds": 0.0})
    async with open_lifespan(app) as lifespan, left_after(app, work, "one "):
        await lifespan.stop()
    assert (work.cancelled, lifespan.types[-1]) == (1, "lifespan.shutdown.complete")


async def test_the_end_of_the_service_is_told_to_a_client_that_has_come_back() -> None:
    work = Work()
    app = served(work, resume_seconds=10_000.0, middleware={"grace_seconds": 0.0})
    async with (
        open_lifespan(app) as lifespan,
        left_after(app, work, "one ") as before,
        open_connection(app, returning(before.ids[-1])) as again,
    ):
        await work.say("two")
        await wait_for_text(again, "two", before)
        await lifespan.stop()
    told = read(again, before)
    assert (told.names[-1], work.cancelled, again.is_complete) == ("error", 1, True)
    assert told.told[-1]["type"].endswith(":shutting-down")
    assert again.error is None


async def test_who_is_away_counts_as_in_progress() -> None:
    work = Work()
    app = served(work, resume_seconds=60.0)
    async with left_after(app, work, "one "):
        assert app.requests_in_progress == 1
        work.finish()
    assert app.requests_in_progress == 0


async def test_a_call_whose_client_leaves_before_it_was_told_anything_is_cancelled() -> None:
    """Nobody has an id to come back with."""
    work = Quiet()
    async with open_connection(served(work, resume_seconds=10_000.0), http_scope()) as connection:
        await work.is_begun.wait()
        connection.disconnect()
    assert (connection.sent, work.cancelled) == ([], 1)


async def test_coming_back_needs_a_middleware() -> None:
    answered = await get(bare_app(Work(), resume_seconds=1.0))
    assert isinstance(answered.error, nh.NighthawkError)


@pytest.mark.virtual_time
async def test_what_has_ended_is_kept_for_its_time_and_within_bounds() -> None:
    streams = KeptStreams()
    made = [
        LiveStream(profile="full", path="/", is_resumable=True, reveals_internals=False) for _ in range(150)
    ]
    for number, stream in enumerate(made):
        stream.end(StreamEvent(name="result", data={"value": number}))
        with streams.keeping(stream, 10.0):
            assert stream.take()
            assert streams.find(stream.id, "/") is stream
    assert len(streams) == 100
    assert streams.find(made[0].id, "/") is None
    assert streams.find(made[149].id, "/") is made[149]
    await anyio.sleep(11)
    assert streams.find(made[149].id, "/") is None
    assert len(streams) == 0


def test_ids_of_events_are_read_with_care() -> None:
    assert parse_event_id("a-b.c.12") == ("a-b.c", 12)
    assert [parse_event_id(each) for each in ("", "12", ".12", "a.", "a.-1", "a.1٢", "a.1 ")] == [None] * 7
