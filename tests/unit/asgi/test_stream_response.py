"""A call's progress as server-sent events: order, ends, and clients that are slow or leave."""

import gc
import logging
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from trio.testing import MockClock

import nighthawk_async as nh
from nighthawk_async.asgi import stream_response
from nighthawk_async.observe import NodeView, TaskTree
from nighthawk_async.testing import CallbackExecutor, pass_response
from tests.unit.asgi.applications import Steps, stars
from tests.unit.asgi.asgi_client import Connection, get, http_scope, open_connection, open_lifespan
from tests.unit.asgi.event_stream_reader import told_of
from tests.unit.asgi.event_stream_scripts import (
    Work,
    bare_app,
    comments,
    read,
    served,
    wait_for_text,
    wait_until,
)

pytestmark = pytest.mark.anyio

SECRET = "the prompt of Ada"


async def test_a_natural_function_is_told_from_its_beginning_to_its_result() -> None:
    answered = await get(served(lambda: stars("***")))
    told = read(answered)
    assert (answered.status, answered.is_complete, answered.error) == (200, True, None)
    assert {name: answered.headers[name] for name in ("cache-control", "x-accel-buffering")} == {
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
    }
    assert answered.headers["content-type"].startswith("text/event-stream")
    assert [told.names[0], told.names[-1]] == ["step", "result"]
    assert told.told[-1] == {"value": 3}
    kinds = [data["kind"] for name, data in zip(told.names, told.told, strict=True) if name == "step"]
    assert list(dict.fromkeys(kinds)) == ["task", "function", "step"]


async def test_the_events_tell_the_same_tree_that_is_recorded() -> None:
    tree, work = TaskTree(), Work()
    app = served(work, middleware={"tree": tree}, tell_internals=True)
    async with open_connection(app, http_scope()) as connection:
        await work.say("Hello")
        await wait_for_text(connection, "Hello")
        node = await work.begun()
        node.write("reasoning", "hm")
        node.write("tool_call", '{"a":1}', key="look#1")
        node.write("tool_result", "2", key="look#1")
        node.set_usage(nh.Usage(requests=1, output_tokens=5))
        await wait_until(connection, lambda reader: "usage" in reader.names and "tool_result" in reader.names)
        work.finish()
    told = read(connection)
    streamed = next(view for view in tree.snapshot().walk() if view.name == "stream")
    assert told.known.shown() == told_of(streamed)
    (request,) = [root for root in tree.snapshot().children if root.kind == "request"]
    assert request.find(streamed.id) is streamed


async def test_every_event_has_an_id_and_they_count_up() -> None:
    told = read(await get(served(lambda: stars("***"))))
    streams = {each.rpartition(".")[0] for each in told.ids}
    assert len(streams) == 1
    assert [int(each.rpartition(".")[2]) for each in told.ids] == [*range(1, len(told.ids) + 1)]


async def test_text_comes_while_the_call_goes_on_and_only_what_is_new() -> None:
    work = Work()
    async with open_connection(served(work), http_scope()) as connection:
        for said, so_far in (("one ", "one "), ("two ", "one two "), ("three", "one two three")):
            await work.say(said)
            await wait_for_text(connection, so_far)
        work.finish()
    told = read(connection)
    assert [data["text"] for name, data in zip(told.names, told.told, strict=True) if name == "text"] == [
        "one ",
        "two ",
        "three",
    ]


async def test_it_works_without_a_middleware_and_without_a_tree() -> None:
    async with nh.run(CallbackExecutor(lambda call: pass_response(count=3))):
        told = read(await get(bare_app(lambda: stars("***"))))
    assert (told.names[-1], told.told[-1]) == ("result", {"value": 3})
    assert told.known.shown()["state"] == "completed"


async def test_an_error_before_anything_has_begun_becomes_a_status() -> None:
    async def fail() -> None:
        raise nh.errors.ModelStatusError(SECRET, status=429, is_transient=True, retry_after_seconds=7)

    answered = await get(served(fail))
    assert (answered.status, answered.headers["retry-after"]) == (503, "7")
    assert SECRET not in str(answered.sent)


async def test_a_framework_gets_its_own_errors_before_anything_has_begun() -> None:
    async def fail() -> None:
        raise LookupError(SECRET)

    answered = await get(served(fail))
    assert answered.sent == []
    assert isinstance(answered.error, LookupError)


async def test_an_error_of_the_library_after_the_beginning_is_the_last_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Work()
    with caplog.at_level(logging.INFO, logger="nighthawk"):
        headers = {"x-request-id": "r-1"}
        async with open_connection(served(work), http_scope(headers=headers)) as connection:
            await work.say("one")
            await wait_for_text(connection, "one")
            work.fail(nh.errors.ModelStatusError(SECRET, status=503, is_transient=True))
    told = read(connection)
    assert (connection.status, connection.is_complete, connection.error) == (200, True, None)
    assert told.names[-1] == "error"
    assert (told.told[-1]["status"], told.told[-1]["request_id"]) == (503, "r-1")
    assert SECRET not in connection.body.decode()
    assert told.known.shown()["error"] == {"type": "ModelStatusError", "message": ""}
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("WARNING", None), "it passes"
    assert SECRET in record.getMessage()


@pytest.mark.parametrize("grouped", [False, True])
async def test_a_client_that_leaves_between_two_turns_is_nothing_to_be_logged(
    caplog: pytest.LogCaptureFixture, grouped: bool
) -> None:
    """The call may be asked to end, and end, before it is cancelled."""
    raised: list[BaseException] = []

    async def call() -> None:
        with anyio.CancelScope(shield=True):
            while not nh.parallel.cancel_requested():
                await checkpoint()
            with pytest.raises(nh.parallel.TaskCancelledError) as ended:
                await stars("***")
            raised.append(ended.value)
            raise ExceptionGroup("both", [ended.value] * 2) if grouped else ended.value

    caplog.set_level(logging.DEBUG, logger="nighthawk")
    async with open_connection(served(call), http_scope()) as connection:
        await wait_until(connection, lambda reader: "step" in reader.names)
        connection.disconnect()
    assert "disconnected" in str(raised[0])
    assert connection.error is None
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("DEBUG", None)
    assert "the call of an event stream has failed with the status 503" in record.getMessage()


async def test_any_other_error_is_told_as_a_failure_and_goes_on_to_the_server() -> None:
    work = Work()
    async with open_connection(served(work), http_scope()) as connection:
        await work.say("one")
        await wait_for_text(connection, "one")
        work.fail(LookupError(SECRET))
    told = read(connection)
    assert (told.names[-1], told.told[-1]["status"]) == ("error", 500)
    assert isinstance(connection.error, LookupError)
    assert connection.is_complete
    assert SECRET not in connection.body.decode()


@pytest.mark.parametrize("around", [served, bare_app])
async def test_a_client_that_leaves_cancels_the_call(around: Any) -> None:
    work = Work()
    async with open_connection(around(work), http_scope()) as connection:
        await work.say("one")
        await wait_for_text(connection, "one")
        connection.disconnect()
    assert (work.cancelled, connection.error) == (1, None)


@pytest.mark.parametrize("around", [served, bare_app])
async def test_a_client_that_leaves_while_the_server_waits_for_it_cancels_the_call(around: Any) -> None:
    work = Work()
    is_stuck = anyio.Event()

    class Stuck(Connection):
        async def send(self, message: dict[str, Any]) -> None:
            is_stuck.set()
            await anyio.sleep_forever()

    connection = Stuck()
    connection.feed({"type": "http.request", "body": b"", "more_body": False})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(around(work), http_scope(), connection.receive, connection.send)
        await is_stuck.wait()
        connection.disconnect()
    assert work.cancelled == 1


async def test_a_server_that_raises_since_the_client_has_left_cancels_the_call() -> None:
    work = Work()

    class Left(Connection):
        async def send(self, message: dict[str, Any]) -> None:
            raise OSError("gone")

    connection = Left()
    await bare_app(work)(http_scope(), connection.receive, connection.send)
    assert work.cancelled == 1


def is_last(message: dict[str, Any]) -> bool:
    return message["type"] == "http.response.body" and not message.get("more_body", False)


@pytest.mark.parametrize("around", [served, bare_app])
async def test_a_server_may_say_that_the_client_has_left_while_it_takes_the_end(around: Any) -> None:
    """Hypercorn does on Trio; it closes the connection when it has taken the end."""

    class Hasty(Connection):
        async def send(self, message: dict[str, Any]) -> None:
            if is_last(message):
                self.disconnect()
                await anyio.wait_all_tasks_blocked()
            await super().send(message)

    connection, work = Hasty(), Work()
    connection.feed({"type": "http.request", "body": b"", "more_body": False})
    work.finish()
    await around(work)(http_scope(), connection.receive, connection.send)
    assert (connection.is_complete, read(connection).names[-1]) == (True, "result")


@pytest.mark.virtual_time
@pytest.mark.parametrize("around", [served, bare_app])
async def test_a_server_that_never_takes_the_end_is_not_waited_for_long(around: Any) -> None:
    class Stuck(Connection):
        async def send(self, message: dict[str, Any]) -> None:
            if is_last(message):
                self.disconnect()
                await anyio.sleep_forever()
            await super().send(message)

    connection, work = Stuck(), Work()
    connection.feed({"type": "http.request", "body": b"", "more_body": False})
    work.finish()
    with anyio.fail_after(240):
        await around(work)(http_scope(), connection.receive, connection.send)


async def test_whoever_watches_can_cancel_the_call() -> None:
    tree, work = TaskTree(), Work()
    app = served(work, middleware={"tree": tree})
    async with open_connection(app, http_scope()) as connection:
        await work.say("one")
        reader = await wait_for_text(connection, "one")
        tree.cancel(str(reader.known.root))
    told = read(connection)
    assert (told.names[-1], told.told[-1]["status"], work.cancelled) == ("error", 503, 1)
    assert told.known.shown()["state"] == "cancelled"
    assert (connection.is_complete, connection.error) == (True, None)


async def test_the_end_of_the_service_is_told() -> None:
    work = Work()
    app = served(work, middleware={"grace_seconds": 0.0})
    async with open_lifespan(app) as lifespan, open_connection(app, http_scope()) as connection:
        await work.say("one")
        await wait_for_text(connection, "one")
        await lifespan.stop()
    told = read(connection)
    assert (told.names[-1], work.cancelled, connection.is_complete) == ("error", 1, True)
    assert told.told[-1]["type"].endswith(":shutting-down")


@pytest.mark.virtual_time
async def test_the_time_of_a_request_counts_and_its_end_is_told() -> None:
    work = Work()
    app = served(work, middleware={"request_timeout": 100.0}, heartbeat_seconds=None)
    answered = await get(app)
    told = read(answered)
    assert (told.names[-1], told.told[-1]["status"], work.cancelled) == ("error", 504, 1)
    assert answered.is_complete


@pytest.mark.virtual_time
async def test_comments_are_sent_while_nothing_happens(virtual_clock: MockClock) -> None:
    work = Work()
    async with open_connection(served(work, heartbeat_seconds=15.0), http_scope()) as connection:
        await wait_until(connection, lambda reader: "work" in str(reader.told))
        began = virtual_clock.current_time()
        await connection.wait_for_sent(len(connection.sent) + 2)
        assert virtual_clock.current_time() - began == pytest.approx(30.0)
        await work.say("one")
        await wait_for_text(connection, "one")
        await anyio.sleep(10)
        assert comments(connection) == 2
        work.finish()
    assert read(connection).names[-1] == "result"


@pytest.mark.virtual_time
async def test_without_heartbeats_nothing_is_sent_while_nothing_happens() -> None:
    work = Work()
    async with open_connection(served(work, heartbeat_seconds=None), http_scope()) as connection:
        await wait_until(connection, lambda reader: "work" in str(reader.told))
        await anyio.sleep(10_000)
        assert comments(connection) == 0
        work.finish()


@pytest.mark.virtual_time
async def test_the_response_begins_within_a_second_though_nothing_has() -> None:
    async def think() -> str:
        await anyio.sleep(10)
        return "thought"

    async with open_connection(served(think), http_scope()) as connection:
        await anyio.sleep(1.5)
        assert [message["type"] for message in connection.sent[:1]] == ["http.response.start"]
    assert read(connection).told[-1] == {"value": "thought"}


class Slow(Connection):
    """A client that takes the beginning of the response, and then nothing until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = anyio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        if self.sent:
            await self.reads.wait()
        await super().send(message)


async def test_a_slow_reader_holds_nothing_up_and_gets_everything_in_few_events() -> None:
    """What it has missed is one difference, however much it was."""
    work, connection = Work(), Slow()
    connection.feed({"type": "http.request", "body": b"", "more_body": False})
    words = [f"word {number} " for number in range(3_000)]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(served(work), http_scope(), connection.receive, connection.send)
        node = await work.begun()
        for word in words:
            node.write("text", word)
            node.set_usage(nh.Usage(output_tokens=len(word)))
            await anyio.lowlevel.checkpoint()
        work.finish()
        await anyio.wait_all_tasks_blocked()
        assert len(connection.sent) == 1
        connection.reads.set()
    told = read(connection)
    assert told.text() == "".join(words)
    assert told.names[-1] == "result"
    assert len(told.names) < 15


async def test_a_reader_that_takes_nothing_costs_no_more_than_two_views() -> None:
    """What it knows, and what is newest; nothing waits in between."""
    work, connection = Work(), Slow()
    connection.feed({"type": "http.request", "body": b"", "more_body": False})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(served(work), http_scope(), connection.receive, connection.send)
        node = await work.begun()
        for number in range(200):
            node.set_attributes({"number": number})
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
        gc.collect()
        views = [each for each in gc.get_objects() if type(each) is NodeView and each.name == "work"]
        assert 1 <= len(views) <= 4  # the tree and its watch have one each
        connection.reads.set()
        work.finish()
    assert read(connection).names[-1] == "result"


async def test_html_stays_text() -> None:
    text = "<script>alert('x')</script>\r\n\r\ndata: forged\n\nevent: result\u2028"
    work = Work()
    async with open_connection(served(work), http_scope()) as connection:
        await work.say(text)
        work.finish({"html": text})
    told = read(connection)
    assert told.text() == text
    assert told.names.count("result") == 1
    assert told.told[-1] == {"value": {"html": text}}
    assert connection.headers["x-content-type-options"] == "nosniff"


async def test_asking_for_the_headers_alone_carries_nothing_out() -> None:
    work = Work()
    answered = await get(served(work), method="HEAD")
    assert (answered.status, answered.body, work.calls) == (200, b"", 0)


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE"])
async def test_methods_that_ask_for_nothing_carry_nothing_out(method: str) -> None:
    work = Work()
    answered = await get(served(work), method=method)
    assert (answered.status, answered.body, work.calls) == (405, b"", 0)
    assert answered.headers["allow"] == "GET, HEAD, POST"


async def test_one_response_serves_many_requests() -> None:
    app = stream_response(lambda: stars("***"), profile="full")
    async with nh.run(CallbackExecutor(lambda call: pass_response(count=3))):
        results = [read(await get(app)).told[-1] for _ in range(2)]
    assert results == [{"value": 3}, {"value": 3}]


async def test_the_steps_of_a_client_that_leaves_end() -> None:
    steps = Steps()
    app = nh.asgi.NighthawkMiddleware(bare_app(lambda: stars("***")), model=steps.executor)
    async with open_connection(app, http_scope()) as connection:
        await steps.wait_for_begun(1)
        connection.disconnect()
    assert (steps.cancelled, steps.finished) == (1, 0)


async def test_only_http_requests_are_answered() -> None:
    answered = await get(bare_app(Work()), type="websocket")
    assert isinstance(answered.error, nh.NighthawkError)


@pytest.mark.parametrize(
    "options",
    [
        {"heartbeat_seconds": 0},
        {"heartbeat_seconds": -1},
        {"resume_seconds": float("nan")},
        {"min_interval_seconds": "soon"},
        {"max_result_bytes": 0},
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(nh.NighthawkError, match=next(iter(options))):
        stream_response(Work(), **options)


def test_a_call_that_was_made_already_is_refused() -> None:
    with pytest.raises(nh.NighthawkError, match="async callable without arguments"):
        stream_response("not a call")  # type: ignore[arg-type]
