"""`python -m benchmarks.subjects.service SERVER MODEL_URL`: a service whose requests each carry out one step.

SERVER is `uvicorn` or `hypercorn-trio`. It prints its port when it listens, serves until SIGTERM, and prints
"left nothing" when nothing is left. The application is a bare one, so that no framework is measured.
"""

import os
import signal
import socket
import stat
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import anyio
import msgspec

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware
from nighthawk_async.observe import TaskTree

from ..server.limits import raise_file_limit
from .processes import PeakMemory

__all__ = ["main"]

Send = Callable[[Mapping[str, Any]], Awaitable[None]]

BACKLOG = 4_096
GRACE_SECONDS = 5


@nh.natural_function
async def assign(question: str) -> int:
    """Assign one variable."""
    result: int = 0
    """natural
    Compute <:result>, the answer to <question>.
    """
    return result


class Service:
    """The application, with a look into its process beside it.

    Args:
        model_url: Where the model is.
        server: What it is served by.
    """

    def __init__(self, model_url: str, server: str) -> None:
        settings = {"base_url": model_url, "api_key": "none", "max_retries": 0}
        configuration = nh.StepExecutorConfiguration(model="openai-chat:benchmark", model_settings=settings)
        self.tree = TaskTree(max_finished_trees=100_000, max_nodes=1_000_000)
        self.middleware = NighthawkMiddleware(
            _answer_step,
            model=nh.AgentStepExecutor.from_configuration(configuration=configuration),
            grace_seconds=GRACE_SECONDS,
            tree=self.tree,
        )
        self._is_trio = server.endswith("trio")
        self._memory = PeakMemory()

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:
        """Serve a connection."""
        if scope["type"] == "http" and scope["path"] == "/state":
            await _send_json(send, self._state())
        else:
            await self.middleware(scope, receive, send)

    def _state(self) -> dict[str, Any]:
        """What the process holds, and what each request has used."""
        run = self.middleware.run
        assert run is not None
        top = self.tree.snapshot()
        requests = [view for view in top.children if view.kind == "request"]
        return {
            "tasks": _count_tasks(is_trio=self._is_trio),
            "sockets": _count_sockets(),
            "in_progress": self.middleware.requests_in_progress,
            "going_on": sum(not view.is_ended for view in requests),
            "asked": run.usage_meter.usage.requests,
            "used": run.usage_meter.usage.input_tokens,
            "used_by": {
                view.attributes["nighthawk.request.id"]: view.subtree_usage.input_tokens for view in requests
            },
            "peak_memory": self._memory.taken() or 0,
        }


async def _answer_step(scope: Any, receive: Any, send: Send) -> None:
    if scope["type"] == "lifespan":
        while True:
            event = (await receive())["type"]
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return
    await _send_json(send, {"result": await assign("What is six times seven?")})


async def _send_json(send: Send, value: object) -> None:
    body = msgspec.json.encode(value)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _count_tasks(*, is_trio: bool) -> int:
    if not is_trio:
        return len(anyio.get_running_tasks())
    import trio

    return trio.lowlevel.current_statistics().tasks_living


def _count_sockets() -> int:
    count = 0
    for name in os.listdir("/dev/fd"):
        try:
            count += stat.S_ISSOCK(os.fstat(int(name)).st_mode)
        except OSError:  # the one that lists them
            continue
    return count


def _serve_with_uvicorn(service: Service, listener: socket.socket) -> None:
    import uvicorn

    signal.signal(signal.SIGTERM, lambda *_: None)  # it raises the signal again when it has ended
    config = uvicorn.Config(
        service,
        loop="asyncio",
        lifespan="on",
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[listener])


def _serve_with_hypercorn(service: Service, listener: socket.socket) -> None:
    from hypercorn.config import Config
    from hypercorn.trio import serve

    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.graceful_timeout = GRACE_SECONDS
    config.keep_alive_timeout = 60  # its own 5 seconds are too few to read the requests of a burst
    config.loglevel = "ERROR"
    anyio.run(partial(serve, service, config, shutdown_trigger=_wait_for_signal), backend="trio")


async def _wait_for_signal() -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            return


def main(server: str, model_url: str) -> None:
    """Serve.

    Args:
        server: What to serve with.
        model_url: Where the model is.
    """
    raise_file_limit()
    service = Service(model_url, server)
    sockets = _count_sockets()
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener:
        print(listener.getsockname()[1], flush=True)
        serve = _serve_with_uvicorn if server == "uvicorn" else _serve_with_hypercorn
        serve(service, listener)
    assert service.middleware.run is None
    assert _count_sockets() <= sockets, "sockets are left"
    print("left nothing", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
