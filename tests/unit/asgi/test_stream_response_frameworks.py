"""Event streams as the answers of the frameworks that services are written with."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from fastapi import BackgroundTasks, FastAPI, Response as FastApiResponse
from litestar import Litestar, Request as LitestarRequest, get as litestar_get
from litestar.types import ASGIApp
from quart import Quart
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nighthawk_async.asgi import NighthawkMiddleware, StreamResponse, stream_response
from tests.unit.asgi.applications import Steps, stars
from tests.unit.asgi.asgi_client import get, http_scope, open_connection, open_lifespan
from tests.unit.asgi.event_stream_scripts import Work, read, wait_for_text

pytestmark = pytest.mark.anyio

Make = Callable[[Any], Any]
OPTIONS: dict[str, Any] = {"profile": "full", "min_interval_seconds": 0.0, "resume_seconds": 60.0}


def make_starlette(call: Any) -> Any:
    async def endpoint(request: Request) -> Any:
        return stream_response(partial(call, request.query_params.get("review", "")), **OPTIONS)

    return Starlette(routes=[Route("/", endpoint)])


def make_starlette_route(call: Any) -> Any:
    return Starlette(routes=[Route("/", stream_response(partial(call, "***"), **OPTIONS))])


def make_fastapi(call: Any) -> Any:
    app = FastAPI()

    @app.get("/")
    async def endpoint(review: str = "") -> FastApiResponse:
        return stream_response(partial(call, review), **OPTIONS)  # type: ignore[return-value]

    return app


def make_litestar(call: Any) -> Any:
    @litestar_get("/")
    async def endpoint(request: LitestarRequest[Any, Any, Any]) -> ASGIApp:
        review = request.query_params.get("review", "")
        return stream_response(partial(call, review), **OPTIONS)  # type: ignore[return-value]

    return Litestar([endpoint], logging_config=None)


def make_quart(call: Any) -> Any:
    """Quart ends its endpoints with their clients, and sends no foreign responses: it is passed by."""
    app = Quart(__name__)
    quart = app.asgi_app
    stream = stream_response(partial(call, "***"), **OPTIONS)

    async def pass_by(scope: Any, receive: Any, send: Any) -> None:
        await (stream if scope["path"] == "/" else quart)(scope, receive, send)

    app.asgi_app = pass_by  # type: ignore[method-assign]
    return app


@pytest.fixture(params=[make_starlette, make_starlette_route, make_fastapi, make_litestar, make_quart])
def make(request: pytest.FixtureRequest, anyio_backend: tuple[str, Any]) -> Make:
    if request.param is make_quart and anyio_backend[0] != "asyncio":
        pytest.skip("Quart knows asyncio alone")
    return request.param


async def test_an_endpoint_answers_with_the_progress_of_its_call(make: Make) -> None:
    steps = Steps()
    steps.release.set()
    app = NighthawkMiddleware(make(stars), model=steps.executor)
    async with open_lifespan(app):
        answered = await get(app, query_string=b"review=***")
    told = read(answered)
    assert (answered.status, answered.is_complete, answered.error) == (200, True, None)
    assert answered.headers["content-type"].startswith("text/event-stream")
    assert "content-length" not in answered.headers
    assert (told.names[-1], told.told[-1]) == ("result", {"value": 3})


async def test_a_client_comes_back(make: Make) -> None:
    work = Work()

    async def call(review: str) -> Any:
        return await work()

    app = NighthawkMiddleware(make(call), model=Steps().executor)
    async with open_lifespan(app):
        async with open_connection(app, http_scope()) as connection:
            await work.say("one ")
            before = await wait_for_text(connection, "one ")
            connection.disconnect()
            work.finish()
        after = read(await get(app, headers={"last-event-id": before.ids[-1]}), before)
    assert (after.names[-1], work.calls, work.cancelled) == ("result", 1, 0)


async def test_what_the_endpoint_puts_off_is_done_afterwards() -> None:
    app, done = FastAPI(), []

    @app.get("/")
    async def endpoint(tasks: BackgroundTasks) -> FastApiResponse:
        tasks.add_task(done.append, "later")
        response: Any = stream_response(partial(stars, "***"))
        response.headers["x-of-the-endpoint"] = "yes"
        return response

    steps = Steps()
    steps.release.set()
    answered = await get(NighthawkMiddleware(app, model=steps.executor))
    assert (answered.headers["x-of-the-endpoint"], done) == ("yes", ["later"])


def test_where_starlette_is_loaded_it_is_one_of_its_responses() -> None:
    response: Any = stream_response(Work())
    assert isinstance(response, StreamResponse)
    assert isinstance(response, Response)
    response.background = BackgroundTask(print)
    assert type(response) is type(stream_response(Work()))
    assert type(response).__name__ == "StreamResponse"


def test_it_needs_no_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "starlette.responses")
    assert type(stream_response(Work())) is StreamResponse
