"""The servers that the service runs under: Uvicorn, and Hypercorn on asyncio or on Trio."""

import signal
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import Literal, TypeAlias

import anyio
from starlette.types import ASGIApp

__all__ = ["Backend", "serve_with_hypercorn", "serve_with_uvicorn"]

Backend: TypeAlias = Literal["asyncio", "trio"]

GRACE_SECONDS = 10
"""For the connections that are open; afterwards the middleware gives requests a grace of its own."""

IDLE_SECONDS = 60
"""For a connection without a request under Hypercorn, which counts a request that it was too busy to read as
none. Its default of 5 is too short for a burst."""


def serve_with_uvicorn(service: ASGIApp, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, which is raised again at the end.

    Args:
        service: The service.
        listener: Where clients come in.
    """
    import uvicorn

    config = uvicorn.Config(
        service, lifespan="on", log_level="warning", timeout_graceful_shutdown=GRACE_SECONDS
    )
    uvicorn.Server(config).run(sockets=[listener])


def serve_with_hypercorn(service: ASGIApp, listener: socket.socket, backend: Backend) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        service: The service.
        listener: Where clients come in. The server takes and closes it.
        backend: The event loop.
    """
    from hypercorn.config import Config

    # Hypercorn's own type of an application fits none of Starlette's.
    serve: Callable[..., Awaitable[None]] = import_module(f"hypercorn.{backend}").serve
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.graceful_timeout = GRACE_SECONDS
    config.keep_alive_timeout = IDLE_SECONDS
    config.shutdown_timeout = 3 * GRACE_SECONDS
    config.loglevel = "WARNING"
    anyio.run(partial(serve, service, config, shutdown_trigger=_wait_for_signal), backend=backend)


async def _wait_for_signal() -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            return
