"""A client that leaves ends what is done for it, and nothing else."""

from typing import Any

import anyio
import pytest
from starlette.responses import StreamingResponse

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware
from nighthawk_async.parallel import cancel_requested
from nighthawk_async.testing import CallbackExecutor, pass_response
from tests.unit.asgi.applications import Steps, answer, stars
from tests.unit.asgi.asgi_client import get, http_scope, open_connection, open_lifespan

pytestmark = pytest.mark.anyio


async def test_a_client_that_leaves_before_the_first_byte_ends_the_step() -> None:
    """The application never asks for a message, as a route that does not stream."""
    steps = Steps()
    middleware = NighthawkMiddleware(steps.app, model=steps.executor)
    async with open_connection(middleware, http_scope()) as connection:
        await steps.wait_for_begun(1)
        connection.disconnect()
    assert (steps.cancelled, steps.finished) == (1, 0)
    assert (connection.sent, connection.error) == ([], None)


async def test_a_client_that_leaves_during_the_stream_ends_it() -> None:
    steps = Steps()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await stars("***")
        await send({"type": "http.response.body", "body": b"last"})

    async with open_connection(NighthawkMiddleware(app, model=steps.executor), http_scope()) as connection:
        await steps.wait_for_begun(1)
        connection.disconnect()
    assert (steps.cancelled, connection.body) == (1, b"first")


async def test_the_usage_of_what_was_cancelled_counts() -> None:
    usage = nh.Usage(requests=1, input_tokens=7, output_tokens=2)
    is_used = anyio.Event()

    async def carry_out(call: Any) -> Any:
        nh.get_usage_meter().add("a:model", usage)
        is_used.set()
        await anyio.sleep_forever()
        return pass_response()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await stars("***")

    middleware = NighthawkMiddleware(app, model=CallbackExecutor(carry_out))
    async with open_lifespan(middleware):
        async with open_connection(middleware, http_scope()) as connection:
            await is_used.wait()
            connection.disconnect()
        assert middleware.run is not None
        assert middleware.run.usage_meter.usage == usage


async def test_a_client_that_leaves_after_the_response_ends_nothing() -> None:
    """Servers say so as soon as they have sent everything."""
    gate, done = anyio.Event(), anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, "done")
        await gate.wait()
        done.set()

    async with open_connection(NighthawkMiddleware(app, model=Steps().executor), http_scope()) as connection:
        await connection.wait_for_sent(2)
        connection.disconnect()
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert done.is_set()


async def test_a_server_that_says_so_while_it_sends_the_last_byte_ends_nothing() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, "done")
        await anyio.wait_all_tasks_blocked()
        finished.append(scope["path"])

    finished: list[str] = []
    sending = anyio.Event()

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            sending.set()
            await anyio.wait_all_tasks_blocked()

    async def receive() -> dict[str, Any]:
        await sending.wait()
        return {"type": "http.disconnect"}

    await NighthawkMiddleware(app, model=Steps().executor)(http_scope("/a"), receive, send)
    assert finished == ["/a"]


async def test_an_application_that_waits_for_the_end_of_the_client_ends_itself() -> None:
    """As frameworks do that run requests in tasks of their own, which no cancel scope around them reaches."""
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            seen.append(message["type"])
        await anyio.wait_all_tasks_blocked()
        seen.append(f"asked to end: {cancel_requested()}")
        seen.append((await receive())["type"])

    async with open_connection(NighthawkMiddleware(app, model=Steps().executor), http_scope()) as connection:
        await connection.wait_until_asked(2)
        await anyio.wait_all_tasks_blocked()
        connection.disconnect()
    assert seen == ["http.request", "asked to end: True", "http.disconnect"]


@pytest.mark.virtual_time
async def test_an_application_that_knows_and_does_not_end_is_cancelled() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        await anyio.sleep_forever()

    async with open_connection(NighthawkMiddleware(app, model=Steps().executor), http_scope()) as connection:
        await anyio.wait_all_tasks_blocked()
        connection.disconnect()
    assert connection.error is None


async def test_a_framework_can_ask_whether_the_client_has_left() -> None:
    """In a cancelled scope, which an answer that is there must not notice."""
    answers: list[str] = []
    gate = anyio.Event()

    async def poll(receive: Any) -> str:
        message: dict[str, Any] = {"type": "nothing"}
        with anyio.CancelScope() as scope:
            scope.cancel()
            message = await receive()
        return message["type"]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        answers.append(await poll(receive))
        await answer(send)
        await gate.wait()
        answers.append(await poll(receive))

    async with open_connection(NighthawkMiddleware(app, model=Steps().executor), http_scope()) as connection:
        await connection.wait_for_sent(2)
        connection.disconnect()
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert answers == ["nothing", "http.disconnect"]


@pytest.mark.parametrize("length", [None, "2"])
async def test_a_client_that_leaves_is_noticed_behind_a_body_that_nobody_reads(length: str | None) -> None:
    steps = Steps()
    headers = {} if length is None else {"content-length": length}
    last = {"type": "http.request", "body": b"", "more_body": False}
    parts = [{"type": "http.request", "body": b"ab", "more_body": length is not None}]
    parts += [] if length is None else [last]
    asgi_scope = http_scope(method="POST", headers=headers)
    middleware = NighthawkMiddleware(steps.app, model=steps.executor)
    async with open_connection(middleware, asgi_scope, *parts) as connection:
        await steps.wait_for_begun(1)
        connection.disconnect()
    assert steps.cancelled == 1


async def test_a_client_that_leaves_is_noticed_behind_a_body_in_parts_that_nobody_reads() -> None:
    """Hypercorn sends the end of a chunked body as a message of its own; a body may also be on its way."""
    steps = Steps()
    middleware = NighthawkMiddleware(steps.app, model=steps.executor)
    parts = [{"type": "http.request", "body": bytes(16_384), "more_body": True} for _ in range(3)]
    async with open_connection(middleware, http_scope(method="POST"), *parts) as connection:
        await steps.wait_for_begun(1)
        connection.disconnect()
    assert steps.cancelled == 1


async def test_a_body_that_is_sent_without_a_pause_ends_with_its_client() -> None:
    """A server whose `send` never waits, and an application that does nothing else."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while len(sent) < 1000:
            await send({"type": "http.response.body", "body": b"x", "more_body": True})

    sent: list[Any] = []
    has_begun = anyio.Event()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)
        has_begun.set()

    async def receive() -> dict[str, Any]:
        await has_begun.wait()
        return {"type": "http.disconnect"}

    await NighthawkMiddleware(app, model=Steps().executor)(http_scope(), receive, send)
    assert len(sent) < 20


class EagerServer:
    """Says that the client has left while it still takes the last of the response, as Hypercorn does."""

    def __init__(self, *, takes: bool = True) -> None:
        self.is_closed = False
        self._takes = takes
        self._left = anyio.Event()

    async def receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._left.set()
            if not self._takes:
                await anyio.sleep_forever()
            await anyio.wait_all_tasks_blocked()
            self.is_closed = True


async def test_a_framework_that_ends_when_its_client_leaves_lets_the_server_close_the_connection() -> None:
    async def parts() -> Any:
        yield "first"

    server = EagerServer()
    asgi_scope = http_scope(asgi={"version": "3.0", "spec_version": "2.1"})
    middleware = NighthawkMiddleware(StreamingResponse(parts()), model=Steps().executor)
    await middleware(asgi_scope, server.receive, server.send)
    assert server.is_closed


@pytest.mark.virtual_time
async def test_a_server_that_never_takes_the_last_byte_holds_no_request() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, "done")

    server = EagerServer(takes=False)
    middleware = NighthawkMiddleware(app, model=Steps().executor)
    await middleware(http_scope(), server.receive, server.send)
    assert middleware.requests_in_progress == 0


async def test_other_requests_go_on_when_a_client_leaves() -> None:
    steps = Steps()
    middleware = NighthawkMiddleware(steps.app, model=steps.executor)
    async with open_lifespan(middleware), open_connection(middleware, http_scope()) as patient:
        async with open_connection(middleware, http_scope()) as leaving:
            await steps.wait_for_begun(2)
            leaving.disconnect()
        steps.release.set()
    assert (patient.status, patient.body, leaving.sent) == (200, b"3", [])


async def test_a_server_that_takes_nothing_more_says_that_the_client_has_left() -> None:
    refused = BrokenPipeError("gone")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"too late", "more_body": False})

    async def server(scope: Any, receive: Any, send: Any) -> None:
        async def refusing_send(message: Any) -> None:
            raise refused

        await NighthawkMiddleware(app, model=Steps().executor)(scope, receive, refusing_send)

    assert (await get(server)).error is None


async def test_an_error_of_the_connection_to_something_else_is_raised() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise BrokenPipeError("of a database")

    answered = await get(NighthawkMiddleware(app, model=Steps().executor))
    assert isinstance(answered.error, BrokenPipeError)


async def test_an_error_for_which_there_is_nobody_left_is_not_raised() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise nh.ExecutionError("the client is gone")

    async with open_connection(NighthawkMiddleware(app, model=Steps().executor), http_scope()) as connection:
        await connection.wait_until_asked(1)
        connection.disconnect()
    assert (connection.sent, connection.error) == ([], None)


async def test_a_request_of_a_server_that_cancels_it_is_cancelled() -> None:
    steps = Steps()
    middleware = NighthawkMiddleware(steps.app, model=steps.executor, max_concurrent_requests=1)
    with anyio.CancelScope() as server:
        async with open_connection(middleware, http_scope()):
            await steps.wait_for_begun(1)
            server.cancel()
    assert (steps.cancelled, middleware.requests_in_progress, middleware.run) == (1, 0, None)
    steps.release.set()
    assert (await get(middleware)).status == 200
