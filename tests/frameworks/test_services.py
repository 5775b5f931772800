"""Services that open their run where their frameworks open everything else, on real servers."""

import socket
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from threading import Thread
from typing import Annotated, Any

import anyio
import flask
import httpx
import hypercorn.trio
import litestar
import pytest
import uvicorn
import werkzeug.serving
from fastapi import FastAPI
from hypercorn.config import Config
from litestar.params import PathParameter
from quart import Quart
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import nighthawk_async as nh
from tests.frameworks.programs import executor, stars, stars_sync


@asynccontextmanager
async def lifespan(app: Any) -> AsyncGenerator[None, None]:
    async with nh.run(executor, everywhere=True):
        yield


def make_fastapi() -> Any:
    app = FastAPI(lifespan=lifespan)

    @app.get("/{review}")
    async def rate(review: str) -> int:
        return await stars(review)

    @app.get("/thread/{review}")
    def rate_in_thread(review: str) -> int:
        return stars_sync(review)

    return app


def make_starlette() -> Any:
    async def rate(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(await stars(request.path_params["review"])))

    return Starlette(routes=[Route("/{review}", rate)], lifespan=lifespan)


def make_litestar() -> Any:
    @litestar.get("/{review:str}")
    async def rate(review: Annotated[str, PathParameter()]) -> int:
        return await stars(review)

    return litestar.Litestar([rate], lifespan=[lifespan], logging_config=None)


def make_quart() -> Any:
    app = Quart(__name__)
    opened: list[Any] = []

    @app.before_serving
    async def open_run() -> None:
        opened.append(await nh.start_run(executor, everywhere=True))

    @app.after_serving
    async def close_run() -> None:
        await opened.pop().aclose()

    @app.get("/<review>")
    async def rate(review: str) -> str:
        return str(await stars(review))

    return app


@asynccontextmanager
async def served_by_uvicorn(app: Any) -> AsyncGenerator[str, None]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            while not server.started:  # noqa: ASYNC110  (it has no event for it)
                await anyio.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            server.should_exit = True


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("make", [make_fastapi, make_starlette, make_litestar, make_quart])
async def test_requests_are_in_the_run_of_the_lifespan(make: Callable[[], Any]) -> None:
    async with served_by_uvicorn(make()) as url, httpx.AsyncClient(base_url=url) as client:
        assert (await client.get("/***")).text == "3"
        if make is make_fastapi:
            assert (await client.get("/thread/**")).text == "2"
    with pytest.raises(nh.NighthawkError, match="Enter one around the call"):
        await stars("*")


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_requests_on_trio_are_in_the_run_of_the_lifespan() -> None:
    config = Config()
    config.bind = ["127.0.0.1:0"]
    done = anyio.Event()
    async with anyio.create_task_group() as tasks:
        serve: Any = hypercorn.trio.serve
        (url,) = await tasks.start(_serving(serve, make_starlette(), config, done))
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/***")).text == "3"
        done.set()


def _serving(serve: Any, app: Any, config: Config, done: anyio.Event) -> Any:
    async def run(*, task_status: Any) -> None:
        await serve(app, config, shutdown_trigger=done.wait, task_status=task_status)

    return run


@contextmanager
def served_by_werkzeug(app: Any) -> Generator[str, None, None]:
    """Serve a WSGI application, each request in a thread of its own."""
    server = werkzeug.serving.make_server("127.0.0.1", 0, app, threaded=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def make_flask() -> Any:
    app = flask.Flask(__name__)

    @app.get("/<review>")
    def rate(review: str) -> str:
        return str(stars_sync(review))

    return app


def test_threads_of_a_wsgi_server_are_in_a_run_that_lives_in_a_thread() -> None:
    run = nh.start_run_sync(executor, everywhere=True)
    try:
        with served_by_werkzeug(make_flask()) as url, ThreadPoolExecutor(4) as pool:
            texts = pool.map(lambda _: httpx.get(f"{url}/***").text, range(8))
            assert list(texts) == ["3"] * 8
    finally:
        run.close()
    assert run.usage_meter.steps == 8
