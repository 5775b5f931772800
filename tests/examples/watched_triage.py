"""The example service in a process of its own, with a look into that process.

    python -m tests.examples.watched_triage {uvicorn,hypercorn}

It prints its port when it listens, and "left nothing" when the server has ended and nothing is left.
"""

import os
import signal
import socket
import stat
import sys

import anyio
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from examples.triage_service.app import TriageService, create_app
from examples.triage_service.servers import serve_with_hypercorn, serve_with_uvicorn
from nighthawk_async.kernel import commands

PASSING = ("request", "task", "function", "step", "model_request", "tool_call")
"""What ends with what somebody has asked for."""


class WatchedService:
    """The service, and two paths beside it.

    `/state` tells what the process holds and has used, `/cancel-steps` cancels as people do on the dashboard.
    """

    def __init__(self, inside: TriageService, server: str) -> None:
        self.inside = inside
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/state":
            await JSONResponse(self._state())(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == "/cancel-steps":
            await JSONResponse(self._cancel_steps())(scope, receive, send)
        else:
            await self.inside(scope, receive, send)

    def _cancel_steps(self) -> int:
        steps = [
            view for view in self.inside.tree.snapshot().walk() if view.kind == "step" and not view.is_ended
        ]
        for step in steps:
            self.inside.tree.cancel(step.id, "enough")
        return len(steps)

    def _state(self) -> dict[str, object]:
        service = self.inside.service
        assert service.run is not None
        usage = service.run.usage_meter.usage
        top = self.inside.tree.snapshot()
        requests = [view for view in top.children if view.kind == "request"]
        return {
            "tasks": self._count_tasks(),
            "sockets": count_sockets(),
            "requests_in_progress": service.requests_in_progress,
            "requests_waiting": service.requests_waiting,
            "going_on": [view.kind for view in top.walk() if not view.is_ended and view.kind in PASSING],
            "used": [usage.requests, usage.input_tokens, usage.output_tokens],
            "recorded": [top.subtree_usage.requests, top.subtree_usage.input_tokens],
            "used_by": {
                view.attributes["nighthawk.request.id"]: view.subtree_usage.input_tokens for view in requests
            },
        }

    def _count_tasks(self) -> int:
        if self._server == "uvicorn":
            return len(anyio.get_running_tasks())
        import trio

        return trio.lowlevel.current_statistics().tasks_living


def count_sockets() -> int:
    """The sockets that this process has open."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += stat.S_ISSOCK(os.fstat(int(name)).st_mode)
        except OSError:  # the one that lists them
            continue
    return count


def main(server: str) -> None:
    """Serve until SIGTERM."""
    if os.environ.get("EVERY_CALL_IS_SLOW"):
        commands._SLOW_SECONDS = -1.0  # type: ignore[reportPrivateUsage]
    signal.signal(signal.SIGTERM, lambda *_: None)  # Uvicorn raises it again when it has ended
    sockets = count_sockets()
    service = create_app()
    watched = WatchedService(service, server)
    with socket.create_server(("127.0.0.1", 0), backlog=1_024) as listener:
        print(listener.getsockname()[1], flush=True)
        if server == "uvicorn":
            serve_with_uvicorn(watched, listener)
        else:
            serve_with_hypercorn(watched, listener, "trio")
    assert service.service.run is None
    assert (service.service.requests_in_progress, service.service.requests_waiting) == (0, 0)
    assert count_sockets() == sockets
    assert [view.name for view in service.tree.snapshot().walk() if not view.is_ended] == [""], "the top only"
    print("left nothing", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
