"""The run lasts from before the application starts until after it has stopped."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware
from tests.unit.asgi.applications import Steps, answer, stars
from tests.unit.asgi.asgi_client import Lifespan, get, http_scope, open_connection, open_lifespan

pytestmark = pytest.mark.anyio

STARTED, STOPPED = "lifespan.startup.complete", "lifespan.shutdown.complete"


def living(events: list[str], *, returns: bool = True) -> Callable[..., Any]:
    """An application that takes part in its lifespan."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await answer(send)
            return
        while True:
            message = await receive()
            events.append(message["type"])
            if message["type"] == "lifespan.startup":
                events.append(f"stars: {await stars('***')}")
                await send({"type": STARTED})
            else:
                events.append(f"stars: {await stars('***')}")
                await send({"type": STOPPED})
                if returns:
                    return

    return app


def free_steps() -> Steps:
    steps = Steps()
    steps.release.set()
    return steps


@pytest.mark.parametrize("returns", [True, False])
async def test_the_application_starts_and_stops_within_the_run(returns: bool) -> None:
    events: list[str] = []
    middleware = NighthawkMiddleware(living(events, returns=returns), model=free_steps().executor)
    async with open_lifespan(middleware) as lifespan:
        run = middleware.run
        assert run is not None
        assert (await get(middleware)).status == 200
        assert middleware.run is run
    assert events == ["lifespan.startup", "stars: 3", "lifespan.shutdown", "stars: 3"]
    assert (lifespan.types, lifespan.error, middleware.run) == ([STARTED, STOPPED], None, None)


async def test_the_server_hears_of_the_end_when_the_run_has_been_left() -> None:
    middleware = NighthawkMiddleware(living([]), model=free_steps().executor)
    runs: list[object] = []

    class Watching(Lifespan):
        async def send(self, message: dict[str, Any]) -> None:
            runs.append(middleware.run)
            await super().send(message)

    lifespan = Watching()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(middleware, {"type": "lifespan"}, lifespan.receive, lifespan.send)
        await lifespan.start()
        lifespan.feed({"type": "lifespan.shutdown"})
    assert (runs[0] is not None, runs[1]) == (True, None)


async def raising(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    await answer(send, str(await stars("***")))


async def returning(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await answer(send, str(await stars("***")))


async def starting_only(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await answer(send, str(await stars("***")))
    else:
        await receive()
        await send({"type": STARTED})


async def listening_only(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await answer(send, str(await stars("***")))
    else:
        await receive()


async def ending_silently(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await answer(send, str(await stars("***")))
    else:
        await receive()
        await send({"type": STARTED})
        await receive()


@pytest.mark.parametrize("app", [raising, returning, starting_only, listening_only, ending_silently])
async def test_an_application_that_knows_no_lifespan_has_one(app: Any) -> None:
    middleware = NighthawkMiddleware(app, model=free_steps().executor)
    async with open_lifespan(middleware) as lifespan:
        first, run = await get(middleware), middleware.run
        assert run is not None
        assert (first.body, run.usage_meter.steps) == (b"3", 1)
    assert (lifespan.types, lifespan.error, middleware.run) == ([STARTED, STOPPED], None, None)


async def test_an_application_that_cannot_start_says_so() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    middleware = NighthawkMiddleware(app, model=Steps().executor)
    async with open_lifespan(middleware) as lifespan:
        await lifespan.ended.wait()
    assert lifespan.sent == [{"type": "lifespan.startup.failed", "message": "no database"}]
    assert middleware.run is None


async def test_an_application_that_raises_while_it_starts_raises_to_the_server() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        raise OSError("no database")

    middleware = NighthawkMiddleware(app, model=Steps().executor)
    lifespan = Lifespan()
    lifespan.feed({"type": "lifespan.startup"})
    with pytest.raises(OSError, match="no database"):
        await middleware({"type": "lifespan"}, lifespan.receive, lifespan.send)
    assert (middleware.run, lifespan.sent) == (None, [])


async def test_an_application_that_fails_in_its_lifespan_serves_where_the_server_goes_on() -> None:
    """As servers do by default: they take it for an application that knows no lifespan."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await answer(send, str(await stars(scope["path"])))

    middleware = NighthawkMiddleware(app, model=free_steps().executor)
    lifespan = Lifespan()
    lifespan.feed({"type": "lifespan.startup"})
    with pytest.raises(KeyError):
        await middleware({"type": "lifespan"}, lifespan.receive, lifespan.send)
    assert ((await get(middleware)).body, middleware.run) == (b"3", None)


async def test_an_application_serves_without_a_lifespan_after_one_with_it() -> None:
    """As tests use it: one has a lifespan, and the next has none."""
    middleware = NighthawkMiddleware(living([]), model=free_steps().executor)
    async with open_lifespan(middleware):
        inside = await get(middleware)
    assert (inside.status, (await get(middleware)).status, middleware.run) == (200, 200, None)


async def test_an_application_that_cannot_stop_says_so() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": STARTED})
        await receive()
        await send({"type": "lifespan.shutdown.failed", "message": "stuck"})

    async with open_lifespan(NighthawkMiddleware(app, model=Steps().executor)) as lifespan:
        pass
    assert lifespan.sent[1] == {"type": "lifespan.shutdown.failed", "message": "stuck"}


async def test_requests_in_progress_have_a_grace_when_the_service_ends() -> None:
    steps = Steps()
    middleware = NighthawkMiddleware(steps.app, model=steps.executor)
    async with open_lifespan(middleware) as lifespan, open_connection(middleware, http_scope()) as connection:
        await steps.wait_for_begun(1)
        lifespan.feed({"type": "lifespan.shutdown"})
        await anyio.wait_all_tasks_blocked()
        refused = await get(middleware)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert lifespan.types == [STARTED]
        steps.release.set()
        await lifespan.ended.wait()
    assert (connection.status, connection.body, steps.begun) == (200, b"3", 1)


@pytest.mark.virtual_time
@pytest.mark.parametrize("grace_seconds", [0, 30])
async def test_requests_are_cancelled_when_the_grace_is_over(grace_seconds: float) -> None:
    steps = Steps()
    middleware = NighthawkMiddleware(steps.app, model=steps.executor, grace_seconds=grace_seconds)
    async with open_lifespan(middleware) as lifespan, open_connection(middleware, http_scope()) as connection:
        await steps.wait_for_begun(1)
        began_at = anyio.current_time()
        await lifespan.stop()
        assert anyio.current_time() - began_at == pytest.approx(grace_seconds)
    assert (steps.cancelled, connection.status) == (1, 503)
    assert lifespan.types == [STARTED, STOPPED]


@pytest.mark.virtual_time
async def test_what_goes_on_after_a_response_ends_with_the_service() -> None:
    was_cancelled = False

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal was_cancelled
        assert scope["type"] == "http"
        await answer(send)
        try:
            await anyio.sleep_forever()
        finally:
            was_cancelled = True

    middleware = NighthawkMiddleware(app, model=Steps().executor, grace_seconds=5)
    async with open_lifespan(middleware) as lifespan, open_connection(middleware, http_scope()) as connection:
        await connection.wait_for_sent(2)
        await lifespan.stop()
    assert (was_cancelled, connection.status, connection.error) == (True, 200, None)


@pytest.mark.virtual_time
async def test_a_request_that_does_not_end_does_not_keep_the_service(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stop = anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        with anyio.CancelScope(shield=True):
            await stop.wait()

    middleware = NighthawkMiddleware(app, model=Steps().executor, grace_seconds=5)
    async with open_lifespan(middleware) as lifespan, open_connection(middleware, http_scope()):
        await anyio.wait_all_tasks_blocked()
        await lifespan.stop()
        stop.set()
    assert "1 requests are still running" in caplog.text


async def test_a_server_that_cancels_the_lifespan_cancels_what_is_in_progress() -> None:
    steps = Steps()
    middleware = NighthawkMiddleware(steps.app, model=steps.executor)
    lifespan = Lifespan()
    async with anyio.create_task_group() as requests, anyio.create_task_group() as server:
        server.start_soon(middleware, {"type": "lifespan"}, lifespan.receive, lifespan.send)
        await lifespan.start()
        requests.start_soon(get, middleware)
        await steps.wait_for_begun(1)
        server.cancel_scope.cancel()
    assert (steps.cancelled, middleware.run, middleware.requests_in_progress) == (1, None, 0)


async def test_an_application_can_live_twice() -> None:
    middleware = NighthawkMiddleware(living([]), model=free_steps().executor)
    runs: list[object] = []
    for _ in range(2):
        async with open_lifespan(middleware):
            runs.append(middleware.run)
            assert (await get(middleware)).status == 200
    assert runs[0] is not runs[1]


async def test_requests_find_what_the_application_has_named_when_it_started() -> None:
    found: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            mailbox = nh.actors.open_mailbox("news")
            await send({"type": STARTED})
            await receive()
            found.append(mailbox.receive_nowait() == "hello")
            await send({"type": STOPPED})
        else:
            nh.actors.find_mailbox("news").send_nowait("hello")
            await answer(send)

    async with open_lifespan(middleware := NighthawkMiddleware(app, model=Steps().executor)):
        assert (await get(middleware)).status == 200
    assert found == [True]
