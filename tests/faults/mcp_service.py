"""An MCP server in a process of its own, under a real server of ASGI.

    python mcp_service.py SERVER MODEL_URL GRACE_SECONDS

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

import nighthawk_async as nh


@nh.natural_function
async def rate(review: str) -> int:
    """Count the stars of a review."""
    count: int
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


async def rate_many(number: int) -> list[int]:
    """Count the stars of many reviews at once."""
    return await nh.parallel.map(rate, ["***"] * number)


async def state() -> dict[str, int]:
    """Say what is there, this call included."""
    run = app.run
    assert run is not None
    return {
        "in_progress": app.calls_in_progress,
        "waiting": app.calls_waiting,
        "steps": run.usage_meter.steps,
    }


def asyncio_tasks() -> int:
    """The number of tasks, without one for each event loop, of the package of event streams."""
    import asyncio

    return len([task for task in asyncio.all_tasks() if "_shutdown_watcher" not in repr(task.get_coro())])


def serve_with_uvicorn(listener: socket.socket) -> None:
    import uvicorn

    signal.signal(signal.SIGTERM, lambda *_: None)  # the server raises it again when it has ended
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=max(1, int(grace / 2)))
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

    await serve(app, config, shutdown_trigger=told)
    assert server.endswith("trio") or asyncio_tasks() == 1


server, model_url, grace = sys.argv[1], sys.argv[2], float(sys.argv[3])
logging.basicConfig(level=logging.CRITICAL)
settings = {"base_url": model_url, "api_key": "none"}
configuration = nh.StepExecutorConfiguration(model="openai-chat:any", model_settings=settings)
executor = nh.AgentStepExecutor.from_configuration(configuration=configuration)
app = nh.mcp.serve(
    [rate, rate_many, state],
    run=lambda: nh.run(executor),
    max_concurrent_requests=200,
    max_queued_requests=1_000,
    grace_seconds=grace / 2,
    token="sesame",
)


def main() -> None:
    """Serve until SIGTERM."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(listener.getsockname()[1], flush=True)
    if server == "uvicorn":
        serve_with_uvicorn(listener)
    else:
        serve_with_hypercorn(listener, server.partition("-")[2])
    assert (app.run, app.calls_in_progress, app.calls_waiting) == (None, 0, 0)
    print("left nothing", flush=True)


if __name__ == "__main__":
    main()
