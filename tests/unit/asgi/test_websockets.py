"""WebSockets pass, with the run in force and the same admission."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware
from tests.unit.asgi.applications import Steps, stars
from tests.unit.asgi.asgi_client import get, http_scope, open_connection, open_lifespan

pytestmark = pytest.mark.anyio

CONNECT = {"type": "websocket.connect"}


def socket_scope(**more: Any) -> dict[str, Any]:
    return http_scope("/talk", type="websocket", **more)


async def talk(scope: Any, receive: Any, send: Any) -> None:
    """Answers each review with its stars, until the client leaves."""
    assert scope["type"] == "websocket"
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": f"{await stars(message['text'])}"})
    await send({"type": "left", "code": message["code"], "id": nh.get_execution_ref().scope_id})


def review(text: str) -> dict[str, Any]:
    return {"type": "websocket.receive", "text": text}


async def test_a_conversation_calls_natural_functions() -> None:
    steps = Steps()
    steps.release.set()
    middleware = NighthawkMiddleware(talk, model=steps.executor)
    asgi_scope = socket_scope(headers={"x-request-id": "seventh"})
    async with open_connection(middleware, asgi_scope, CONNECT, review("*"), review("**")) as connection:
        await connection.wait_for_sent(3)
        connection.feed({"type": "websocket.disconnect", "code": 1005})
    assert connection.sent == [
        {"type": "websocket.accept"},
        {"type": "websocket.send", "text": "3"},
        {"type": "websocket.send", "text": "3"},
        {"type": "left", "code": 1005, "id": "seventh"},
    ]


async def test_a_refused_client_learns_that_it_may_try_again_later() -> None:
    steps = Steps()
    middleware = NighthawkMiddleware(
        steps.app, model=steps.executor, max_concurrent_requests=1, max_queued_requests=0
    )
    async with open_connection(middleware, http_scope()):
        await steps.wait_for_begun(1)
        async with open_connection(middleware, socket_scope(subprotocols=["v2", "v1"]), CONNECT) as refused:
            pass
        steps.release.set()
    assert refused.sent[0] == {"type": "websocket.accept", "subprotocol": "v2", "headers": []}
    assert (refused.sent[1]["type"], refused.sent[1]["code"]) == ("websocket.close", 1013)


async def test_a_waiting_client_that_leaves_gives_its_place_back() -> None:
    steps = Steps()
    middleware = NighthawkMiddleware(steps.app, model=steps.executor, max_concurrent_requests=1)
    async with open_connection(middleware, http_scope()):
        await steps.wait_for_begun(1)
        async with open_connection(middleware, socket_scope(), CONNECT) as leaving:
            await anyio.wait_all_tasks_blocked()
            assert middleware.requests_waiting == 1
            leaving.feed({"type": "websocket.disconnect", "code": 1006})
        assert (middleware.requests_waiting, leaving.sent) == (0, [])
        steps.release.set()


async def test_a_conversation_counts_as_a_request_in_progress() -> None:
    steps = Steps()
    middleware = NighthawkMiddleware(
        talk, model=steps.executor, max_concurrent_requests=1, max_queued_requests=0
    )
    async with open_connection(middleware, socket_scope(), CONNECT) as connection:
        await connection.wait_for_sent(1)
        assert (await get(middleware)).status == 503
        connection.feed({"type": "websocket.disconnect", "code": 1000})
    assert middleware.requests_in_progress == 0


async def test_an_application_that_lets_its_disconnect_out_ends_with_the_service() -> None:
    """As Starlette's do, of which nobody catches it."""

    async def endpoint(websocket: WebSocket) -> None:
        await websocket.accept()
        while True:
            await websocket.receive_text()

    routes = [WebSocketRoute("/talk", endpoint)]
    middleware = NighthawkMiddleware(Starlette(routes=routes), model=Steps().executor, grace_seconds=0)
    async with (
        open_lifespan(middleware) as lifespan,
        open_connection(middleware, socket_scope(), CONNECT) as connection,
    ):
        await connection.wait_for_sent(1)
        await lifespan.stop()
    assert connection.sent[-1] == {"type": "websocket.close", "code": 1001, "reason": ""}
    assert connection.error is None


async def test_an_application_that_lets_its_disconnect_out_ends_with_its_client() -> None:
    async def endpoint(websocket: WebSocket) -> None:
        await websocket.accept()
        while True:
            await websocket.receive_text()

    routes = [WebSocketRoute("/talk", endpoint)]
    middleware = NighthawkMiddleware(Starlette(routes=routes), model=Steps().executor)
    async with open_connection(middleware, socket_scope(), CONNECT) as connection:
        await connection.wait_for_sent(1)
        connection.feed({"type": "websocket.disconnect", "code": 1001})
    assert connection.error is None


class Refusing:
    """A server that takes nothing more, and says so as the older ones do."""

    def __init__(self, app: Any, error: Exception) -> None:
        self._app = app
        self._error = error
        self.has_left = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def refusing_send(message: Any) -> None:
            if self.has_left:
                raise self._error
            await send(message)

        await self._app(scope, receive, refusing_send)


@pytest.mark.parametrize("error", [RuntimeError("after the close"), BrokenPipeError("gone")])
async def test_an_application_that_sends_to_a_client_that_has_left_learns_of_it_and_may_let_it_out(
    error: Exception,
) -> None:
    raised: list[BaseException] = []
    steps = Steps()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await stars("***")
        try:
            await send({"type": "websocket.send", "text": "3"})
        except OSError as refused:
            raised.append(refused)
            raise

    server = Refusing(NighthawkMiddleware(app, model=steps.executor), error)
    async with open_connection(server, socket_scope(), CONNECT) as connection:
        await steps.wait_for_begun(1)
        connection.feed({"type": "websocket.disconnect", "code": 1001})
        await anyio.wait_all_tasks_blocked()
        server.has_left = True
        steps.release.set()
    assert (str(raised[0]), raised[0].__cause__) == ("the client has left", error)
    assert connection.error is None


async def test_an_error_of_the_server_while_the_client_is_there_stays_what_it_is() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        server.has_left = True
        await send({"type": "websocket.accept"})

    server = Refusing(NighthawkMiddleware(app, model=Steps().executor), RuntimeError("no such message"))
    async with open_connection(server, socket_scope(), CONNECT) as connection:
        pass
    assert str(connection.error) == "no such message"


async def test_a_conversation_that_is_asked_to_end_between_two_turns_has_not_failed() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "websocket"
        await receive()
        await send({"type": "websocket.accept"})
        with anyio.CancelScope(shield=True):
            while not nh.parallel.cancel_requested():
                await checkpoint()
            await stars("***")

    middleware = NighthawkMiddleware(app, model=Steps().executor, grace_seconds=0)
    async with (
        open_lifespan(middleware) as lifespan,
        open_connection(middleware, socket_scope(), CONNECT) as connection,
    ):
        await connection.wait_for_sent(1)
        await lifespan.stop()
    assert connection.sent[-1] == {"type": "websocket.close", "code": 1001, "reason": ""}
    assert connection.error is None


async def test_an_application_that_fails_when_it_is_ended_tells_the_client_and_the_server() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        raise ValueError("theirs")

    tree = nh.observe.TaskTree()
    middleware = NighthawkMiddleware(app, model=Steps().executor, tree=tree)
    async with open_connection(middleware, socket_scope(), CONNECT) as connection:
        await connection.wait_for_sent(1)
        await anyio.wait_all_tasks_blocked()
        tree.cancel(next(view.id for view in tree.snapshot().children if view.kind == "request"))
    assert connection.sent[-1] == {"type": "websocket.close", "code": 1001, "reason": ""}
    assert isinstance(connection.error, ValueError)


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_listening", [True, False])
async def test_a_conversation_ends_with_the_service(is_listening: bool) -> None:
    """An application that listens hears of it, and one that works is cancelled."""
    steps = Steps()
    middleware = NighthawkMiddleware(talk, model=steps.executor, grace_seconds=5)
    messages = [CONNECT] if is_listening else [CONNECT, review("*")]
    async with (
        open_lifespan(middleware) as lifespan,
        open_connection(middleware, socket_scope(), *messages) as connection,
    ):
        await anyio.wait_all_tasks_blocked()
        await lifespan.stop()
    if is_listening:
        assert connection.sent[1]["code"] == 1001
    else:
        assert steps.cancelled == 1
    assert connection.sent[-1] == {"type": "websocket.close", "code": 1001, "reason": ""}


async def test_an_error_goes_to_the_server() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise nh.ModelError("theirs")

    middleware = NighthawkMiddleware(app, model=Steps().executor)
    async with open_connection(middleware, socket_scope(), CONNECT) as connection:
        pass
    assert isinstance(connection.error, nh.ModelError)
    assert connection.sent == []


async def test_a_conversation_is_a_root_of_the_tree() -> None:
    tree = nh.observe.TaskTree()
    steps = Steps()
    middleware = NighthawkMiddleware(talk, model=steps.executor, tree=tree)
    async with open_connection(middleware, socket_scope(), CONNECT) as connection:
        await connection.wait_for_sent(1)
        (node,) = (view for view in tree.snapshot().children if view.kind == "request")
        assert (node.name, node.state) == ("WEBSOCKET /talk", "running")
        connection.feed(review("*"))
        await steps.wait_for_begun(1)
        tree.cancel(node.id)
    assert connection.sent[-1] == {"type": "websocket.close", "code": 1001, "reason": ""}
    assert tree.snapshot(node.id).state == "cancelled"


async def test_an_application_that_works_when_its_client_leaves_learns_of_it_afterwards() -> None:
    steps = Steps()
    middleware = NighthawkMiddleware(talk, model=steps.executor)
    async with open_connection(middleware, socket_scope(), CONNECT, review("*")) as connection:
        await steps.wait_for_begun(1)
        connection.feed({"type": "websocket.disconnect", "code": 1001})
        await anyio.wait_all_tasks_blocked()
        steps.release.set()
    assert (steps.cancelled, connection.sent[-1]["type"], connection.sent[-1]["code"]) == (0, "left", 1001)
