"""Bodies that never come: the client that waits for an answer gets one, and the server sees no error."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import fastapi
import litestar
import pytest
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware
from nighthawk_async.testing import CallbackExecutor, pass_response
from tests.unit.asgi.asgi_client import http_scope, open_connection, open_lifespan

pytestmark = pytest.mark.anyio
EXECUTOR = CallbackExecutor(lambda call: pass_response())
PART = {"type": "http.request", "body": b"{", "more_body": True}


def starlette() -> Any:
    async def read(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(len(await request.body())))

    return Starlette(routes=[Route("/", read, methods=["POST"])])


def starlette_with_middleware() -> Any:
    async def pass_on(request: Request, call_next: Any) -> Any:
        return await call_next(request)

    app = starlette()
    app.add_middleware(BaseHTTPMiddleware, dispatch=pass_on)
    return app


def starlette_stream() -> Any:
    async def read(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str([part async for part in request.stream()]))

    return Starlette(routes=[Route("/", read, methods=["POST"])])


def fastapi_body() -> Any:
    app = fastapi.FastAPI()

    @app.post("/")
    async def read(data: dict[str, int]) -> int:
        return len(data)

    return app


def litestar_body() -> Any:
    @litestar.post("/")
    async def read(request: litestar.Request[Any, Any, Any]) -> str:
        return str(len(await request.body()))

    return litestar.Litestar([read], logging_config=None)


def plain() -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass

    return app


APPS = [starlette, starlette_with_middleware, starlette_stream, fastapi_body, litestar_body, plain]


async def answered(app: Any, caplog: pytest.LogCaptureFixture, **headers: str) -> int | None:
    """The status for a client that sends a part of its body and waits."""
    given = {"content-type": "application/json", "content-length": "1000", **headers}
    with caplog.at_level(logging.WARNING):
        async with open_connection(app, http_scope(method="POST", headers=given), PART) as connection:
            await connection.ended.wait()
    assert connection.error is None
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    return connection.status


@pytest.mark.parametrize("make", APPS)
async def test_a_body_that_never_comes_takes_the_time_of_the_request(
    make: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    app = NighthawkMiddleware(make(), model=EXECUTOR, request_timeout=0.05)
    assert await answered(app, caplog) == 504


async def test_a_body_that_never_comes_with_an_idempotency_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        app = NighthawkMiddleware(starlette(), model=EXECUTOR, journal=store, request_timeout=0.05)
        assert await answered(app, caplog, **{"idempotency-key": "one"}) == 504
        assert store.runs() == []


@pytest.mark.parametrize("make", APPS)
async def test_a_service_that_ends_answers_those_that_wait_for_a_body(
    make: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    app = NighthawkMiddleware(make(), model=EXECUTOR, grace_seconds=0)
    statuses: list[int | None] = []

    async def ask() -> None:
        statuses.append(await answered(app, caplog))

    async with open_lifespan(app) as lifespan, anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        lifespan.feed({"type": "lifespan.shutdown"})
        await lifespan.ended.wait()
    assert statuses == [503]


@pytest.mark.parametrize("make", APPS)
async def test_a_client_that_leaves_in_its_body_gets_nothing_and_is_no_error(
    make: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    app = NighthawkMiddleware(make(), model=EXECUTOR, request_timeout=60)
    headers = {"content-type": "application/json", "content-length": "1000"}
    with caplog.at_level(logging.WARNING):
        async with open_connection(app, http_scope(method="POST", headers=headers), PART) as connection:
            await anyio.wait_all_tasks_blocked()
            connection.disconnect()
            await connection.ended.wait()
    assert connection.error is None
    assert caplog.records == []


async def test_a_server_that_cannot_send_the_answer_sees_no_error(caplog: pytest.LogCaptureFixture) -> None:
    app = NighthawkMiddleware(starlette(), model=EXECUTOR, request_timeout=0.05)

    async def refusing(scope: Any, receive: Any, send: Any) -> None:
        async def refuse(message: Any) -> None:
            raise anyio.BusyResourceError("sending")

        await app(scope, receive, refuse)

    assert await answered(refusing, caplog) is None
