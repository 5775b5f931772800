"""A service in a process of its own, under a real server.

    python asgi_service.py SERVER MODEL_URL GRACE_SECONDS {has,fails-in}-lifespan [JOURNAL]

It prints its port when it listens, and "left nothing" when the server has ended and no task is left. The
server gives requests the grace first and the application afterwards, so both have half of it.
"""

import logging
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware, StreamResponse, stream_response

LARGE = 64 * 1024 * 1024


@nh.natural_function
async def rate(review: str) -> int:
    count: int
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


async def rate_route(request: Request) -> JSONResponse:
    """Does not stream, and never asks whether the client is there."""
    review = (await request.body()).decode()
    return JSONResponse({"count": await rate(review), "id": nh.get_execution_ref().scope_id})


async def unread_route(request: Request) -> JSONResponse:
    """Does not want the body."""
    return JSONResponse(await rate("***"))


async def stream_route(request: Request) -> StreamingResponse:
    """Says something at once, and then calls the natural function."""

    async def parts() -> Any:
        yield b"first\n"
        yield str(await rate("***")).encode()

    return StreamingResponse(parts())


async def live_route(request: Request) -> StreamResponse:
    """Tells how a call goes on; its client may come back for so many seconds."""
    seconds = float(request.query_params.get("resume", "0"))
    return stream_response(lambda: rate("***"), profile="full", resume_seconds=seconds)


async def busy_route(request: Request) -> StreamResponse:
    """Tells how many calls go on, one after the other, so that many are between two turns at any time."""
    return stream_response(
        rate_many, profile="full", resume_seconds=float(request.query_params.get("resume", "0"))
    )


async def busy_socket(websocket: WebSocket) -> None:
    """Answers every message, and lets out that its client has left."""
    await websocket.accept()
    while True:
        await websocket.receive_text()
        await websocket.send_text(str(await rate_many()))


async def many_route(request: Request) -> JSONResponse:
    return JSONResponse(await rate_many())


async def rate_many() -> int:
    return sum([await rate("***") for _ in range(20)])


async def large_route(request: Request) -> StreamingResponse:
    """More than any buffer holds."""

    async def parts() -> Any:
        part = b"x" * 65_536
        for _ in range(LARGE // len(part)):
            yield part

    return StreamingResponse(parts())


async def state_route(request: Request) -> JSONResponse:
    """What is there, this request included."""
    run = service.run
    assert run is not None
    return JSONResponse(
        {
            "run": run.execution_ref.run_id,
            "in_progress": service.requests_in_progress,
            "waiting": service.requests_waiting,
            "steps": run.usage_meter.steps,
            "requests": run.usage_meter.usage.requests,
            "tasks": len(anyio.get_running_tasks()) if sniffs_asyncio() else living_trio_tasks(),
        }
    )


def sniffs_asyncio() -> bool:
    return not server.endswith("trio")


def living_trio_tasks() -> int:
    import trio

    return trio.lowlevel.current_statistics().tasks_living


def listen() -> socket.socket:
    """A port that is open before the server runs."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen(256)
    return listener


def serve_with_uvicorn(listener: socket.socket) -> None:
    import uvicorn

    signal.signal(signal.SIGTERM, lambda *_: None)  # the server raises it again when it has ended
    config = uvicorn.Config(service, log_level="error", timeout_graceful_shutdown=max(1, int(grace / 2)))
    uvicorn.Server(config).run(sockets=[listener])


def serve_with_hypercorn(listener: socket.socket, backend: str) -> None:
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.graceful_timeout = grace / 2
    config.shutdown_timeout = grace + 20
    config.keep_alive_timeout = 240  # seconds: a busy machine reads a request late
    if backend == "trio":
        from hypercorn.trio import serve
    else:
        from hypercorn.asyncio import serve
    anyio.run(partial(serve_until_told, serve, config), backend=backend)


async def serve_until_told(serve: Callable[..., Any], config: Any) -> None:
    async def told() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM) as signals:
            async for _ in signals:
                return

    await serve(service, config, shutdown_trigger=told)
    tasks = len(anyio.get_running_tasks()) - 1 if sniffs_asyncio() else 0
    assert tasks == 0, anyio.get_running_tasks()


async def failing_in_lifespan(scope: Any, receive: Any, send: Any) -> None:
    """An application that knows of HTTP alone, and finds out when it has asked for a message."""
    if scope["type"] == "lifespan":
        await receive()
        raise KeyError("path")
    await application(scope, receive, send)


server, model_url, grace, lifespan = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
logging.basicConfig(level=logging.ERROR)
settings = {"base_url": model_url, "api_key": "none"}
configuration = nh.StepExecutorConfiguration(model="openai-chat:any", model_settings=settings)
application = Starlette(
    routes=[
        Route("/rate", rate_route, methods=["GET", "POST"]),
        Route("/unread", unread_route),
        Route("/stream", stream_route),
        Route("/live", live_route),
        Route("/busy", busy_route, methods=["GET", "POST"]),
        Route("/many", many_route, methods=["GET", "POST"]),
        WebSocketRoute("/talk", busy_socket),
        Route("/large", large_route),
        Route("/state", state_route),
    ]
)
service = NighthawkMiddleware(
    application if lifespan == "has-lifespan" else failing_in_lifespan,
    model=nh.AgentStepExecutor.from_configuration(configuration=configuration),
    max_concurrent_requests=20,
    grace_seconds=grace / 2,
    journal=nh.journal.open(sys.argv[5]) if len(sys.argv) > 5 else None,
)


def main() -> None:
    """Serve until SIGTERM."""
    listener = listen()
    print(listener.getsockname()[1], flush=True)
    if server == "uvicorn":
        serve_with_uvicorn(listener)
    else:
        serve_with_hypercorn(listener, server.partition("-")[2])
    assert service.run is None
    assert (service.requests_in_progress, service.requests_waiting) == (0, 0)
    print("left nothing", flush=True)


if __name__ == "__main__":
    main()
