"""The frameworks that services are written with, in process."""

import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastapi import FastAPI, Request
from litestar import (
    Litestar,
    Request as LitestarRequest,
    Response as LitestarResponse,
    get as litestar_get,
    post as litestar_post,
)
from quart import Quart, request as quart_request
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.requests import Request as StarletteRequest
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware, find_problem
from nighthawk_async.testing import CallbackExecutor
from tests.unit.asgi.applications import Steps, stars
from tests.unit.asgi.asgi_client import get, http_scope, open_connection, open_lifespan, post

pytestmark = pytest.mark.anyio

Make = Callable[..., NighthawkMiddleware]
SECRET = "the prompt of Ada"


async def fail() -> None:
    raise nh.errors.ModelStatusError(SECRET, status=429, is_transient=True, retry_after_seconds=7)


def make_starlette(executor: CallbackExecutor, **arguments: Any) -> NighthawkMiddleware:
    async def rate(request: StarletteRequest) -> JSONResponse:
        return JSONResponse(await stars((await request.body()).decode()))

    async def failing(request: StarletteRequest) -> JSONResponse:
        await fail()
        return JSONResponse(None)

    routes = [Route("/rate/{id}", rate, methods=["POST"]), Route("/failing", failing)]
    return NighthawkMiddleware(Starlette(routes=routes), model=executor, **arguments)


def make_fastapi(executor: CallbackExecutor, **arguments: Any) -> NighthawkMiddleware:
    app = FastAPI()

    @app.post("/rate/{id}")
    async def rate(id: str, request: Request) -> int:
        return await stars((await request.body()).decode())

    @app.get("/failing")
    async def failing() -> None:
        await fail()

    return NighthawkMiddleware(app, model=executor, **arguments)


def make_litestar(executor: CallbackExecutor, **arguments: Any) -> NighthawkMiddleware:
    @litestar_post("/rate/{id:str}", status_code=200)
    async def rate(request: LitestarRequest[Any, Any, Any]) -> int:
        return await stars((await request.body()).decode())

    @litestar_get("/failing")
    async def failing() -> None:
        await fail()

    def tell(request: Any, error: nh.NighthawkError) -> LitestarResponse[Any]:
        problem = find_problem(error)
        assert problem is not None
        return LitestarResponse(problem.as_json(), status_code=problem.status, headers=problem.headers)

    handlers = {nh.NighthawkError: tell}
    app = Litestar([rate, failing], exception_handlers=handlers, logging_config=None)
    return NighthawkMiddleware(app, model=executor, **arguments)  # type: ignore[arg-type]


def make_quart(executor: CallbackExecutor, **arguments: Any) -> NighthawkMiddleware:
    app = Quart(__name__)

    @app.post("/rate/<id>")
    async def rate(id: str) -> str:
        return str(await stars((await quart_request.get_data()).decode()))

    @app.get("/failing")
    async def failing() -> None:
        await fail()

    @app.errorhandler(nh.NighthawkError)
    async def tell(error: nh.NighthawkError) -> Any:
        problem = find_problem(error)
        assert problem is not None
        return problem.as_json(), problem.status, problem.headers

    return NighthawkMiddleware(app, model=executor, **arguments)  # type: ignore[arg-type]


@pytest.fixture(params=[make_starlette, make_fastapi, make_litestar, make_quart])
def make(request: pytest.FixtureRequest, anyio_backend: tuple[str, Any]) -> Make:
    if request.param is make_quart and anyio_backend[0] != "asyncio":
        pytest.skip("Quart knows asyncio alone")
    return request.param


async def test_a_route_calls_natural_functions(make: Make) -> None:
    steps = Steps()
    steps.release.set()
    middleware = make(steps.executor)
    async with open_lifespan(middleware) as lifespan:
        answered = await post(middleware, "/rate/7", b"***")
        assert middleware.run is not None
        assert middleware.run.usage_meter.steps == 1
    assert (answered.status, answered.body, answered.error) == (200, b"3", None)
    assert "x-request-id" in answered.headers
    assert lifespan.types == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_a_failure_is_told_without_its_words(make: Make) -> None:
    middleware = make(Steps().executor)
    async with open_lifespan(middleware):
        answered = await get(middleware, "/failing")
    told = json.loads(answered.body)
    assert (answered.status, told["status"], answered.headers["retry-after"]) == (503, 503, "7")
    assert answered.headers["content-type"].startswith("application/problem+json")
    assert SECRET not in str(answered.sent)


async def test_a_client_that_leaves_ends_the_step(make: Make) -> None:
    steps = Steps()
    middleware = make(steps.executor)
    body = {"type": "http.request", "body": b"***", "more_body": False}
    async with open_lifespan(middleware):
        async with open_connection(middleware, http_scope("/rate/7", method="POST"), body) as connection:
            await steps.wait_for_begun(1)
            connection.disconnect()
        assert (steps.cancelled, steps.finished, connection.sent) == (1, 0, [])


async def test_a_request_that_is_sent_again_gets_its_recorded_response(make: Make, tmp_path: Path) -> None:
    steps = Steps()
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        middleware = make(steps.executor, journal=store)
        body = {"type": "http.request", "body": b"***", "more_body": False}
        asked = http_scope("/rate/7", method="POST", headers={"idempotency-key": "one"})
        async with open_lifespan(middleware):
            async with open_connection(middleware, dict(asked), body) as first:
                await steps.wait_for_begun(1)
                first.disconnect()
                await anyio.wait_all_tasks_blocked()
                steps.release.set()
            async with open_connection(middleware, dict(asked), body) as again:
                pass
    assert (again.status, again.body, again.error) == (200, b"3", None)
    assert again.headers["idempotent-replayed"] == "true"
    assert (steps.begun, steps.cancelled) == (1, 0)


async def test_a_client_that_leaves_while_its_body_is_read_is_no_error(make: Make) -> None:
    steps = Steps()
    middleware = make(steps.executor)
    part = {"type": "http.request", "body": b"**", "more_body": True}
    async with open_lifespan(middleware):
        async with open_connection(middleware, http_scope("/rate/7", method="POST"), part) as connection:
            await connection.wait_until_asked(2)
            connection.disconnect()
        assert (connection.error, steps.begun) == (None, 0)


async def test_the_path_template_of_the_framework_is_known(make: Make) -> None:
    steps = Steps()
    steps.release.set()
    middleware, tree = make(steps.executor), nh.observe.TaskTree()
    with tree.recording():
        await post(middleware, "/rate/7", b"***")
    (node,) = (view for view in tree.snapshot().walk() if view.kind == "request")
    assert node.attributes.get("http.route") in ("/rate/{id}", "/rate/{id:str}", None)
    assert ("http.route" in node.attributes) is (make is not make_quart)


async def test_it_can_be_a_middleware_of_starlette_itself() -> None:
    async def failing(request: StarletteRequest) -> JSONResponse:
        await fail()
        return JSONResponse(None)

    async def rate(request: StarletteRequest) -> JSONResponse:
        return JSONResponse(await stars("***"))

    @asynccontextmanager
    async def lifespan(app: Any) -> Any:
        assert await stars("***") == 3
        yield

    steps = Steps()
    steps.release.set()
    app = Starlette(
        routes=[Route("/failing", failing), Route("/rate", rate)],
        middleware=[Middleware(NighthawkMiddleware, model=steps.executor)],
        lifespan=lifespan,
    )
    async with open_lifespan(app):
        assert (await get(app, "/rate")).body == b"3"
        assert (await get(app, "/failing")).status == 503


async def test_the_page_of_starlettes_debugger_is_not_shown_for_errors_of_the_library() -> None:
    async def failing(request: StarletteRequest) -> JSONResponse:
        await fail()
        return JSONResponse(None)

    app = Starlette(debug=True, routes=[Route("/failing", failing)])
    answered = await get(NighthawkMiddleware(app, model=Steps().executor), "/failing")
    assert (answered.status, SECRET in str(answered.sent)) == (503, False)


async def test_background_tasks_go_on_when_the_client_has_left() -> None:
    steps = Steps()
    rated: list[int] = []

    async def rate_later() -> None:
        rated.append(await stars("***"))

    async def route(request: StarletteRequest) -> PlainTextResponse:
        return PlainTextResponse("later", background=BackgroundTask(rate_later))

    middleware = NighthawkMiddleware(Starlette(routes=[Route("/", route)]), model=steps.executor)
    async with open_connection(middleware, http_scope()) as connection:
        await steps.wait_for_begun(1)
        connection.disconnect()
        await anyio.wait_all_tasks_blocked()
        steps.release.set()
    assert (rated, connection.body) == ([3], b"later")


@pytest.mark.parametrize("spec_version", ["2.1", "2.4"])
async def test_a_streaming_response_ends_when_the_client_leaves(spec_version: str) -> None:
    steps = Steps()

    async def parts() -> Any:
        yield "first"
        yield str(await stars("***"))

    async def route(request: StarletteRequest) -> StreamingResponse:
        return StreamingResponse(parts())

    middleware = NighthawkMiddleware(Starlette(routes=[Route("/", route)]), model=steps.executor)
    asgi_scope = http_scope(asgi={"version": "3.0", "spec_version": spec_version})
    async with open_connection(middleware, asgi_scope) as connection:
        await steps.wait_for_begun(1)
        connection.disconnect()
    assert (steps.cancelled, connection.body) == (1, b"first")


async def test_a_step_that_a_route_calls_in_a_thread_ends_when_the_client_leaves() -> None:
    steps = Steps()
    app = FastAPI()

    @nh.natural_function
    def count(review: str) -> int:
        number: int
        """natural
        Set <:number> to the number of stars that <review> gives.
        """
        return number

    @app.get("/")
    def route() -> int:
        return count("***")

    middleware = NighthawkMiddleware(app, model=steps.executor)
    async with open_connection(middleware, http_scope()) as connection:
        await steps.wait_for_begun(1)
        connection.disconnect()
    assert (steps.cancelled, connection.sent) == (1, [])
