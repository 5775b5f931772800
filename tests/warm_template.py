"""The process that warm Pythons are forked from; `tests.warm_python` starts it and says more."""

import builtins
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import warnings
from typing import Any

__all__ = ["main"]

_IMPORTED = (
    *("nighthawk_async.asgi", "nighthawk_async.executors.agent", "nighthawk_async.functions"),
    *("nighthawk_async.models.http_model", "nighthawk_async.testing", "nighthawk_async.cli.application"),
    *("nighthawk_async.cli.run_command", "nighthawk_async.cli.live_tree_terminal"),
    *("anyio._backends._asyncio", "anyio._backends._trio", "httpx", "starlette.applications", "textual.app"),
    *("uvicorn.main", "hypercorn.asyncio", "hypercorn.trio", "rich.console", "typer"),
)
_MOST_BYTES = 1_000_000


def main() -> None:
    """Fork a process for each request; in each of them, become the program that it asks for."""
    server = socket.socket(fileno=int(sys.argv[1]))
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    server.send(b"ready")
    while True:
        request, descriptors, _, _ = socket.recv_fds(server, _MOST_BYTES, 3)
        if not request:
            os._exit(0)
        child = _fork_twice()
        if child == 0:
            break
        for descriptor in descriptors:
            os.close(descriptor)
        server.send(str(child).encode())
    server.detach()
    _become(json.loads(request), descriptors)


def _fork_twice() -> int:
    """Fork a process that is nobody's child here; gives its process id, and 0 in the process itself."""
    reader, writer = os.pipe()
    between = os.fork()
    if between:
        os.close(writer)
        child = int(os.read(reader, 20))
        os.close(reader)
        os.waitpid(between, 0)
        return child
    child = os.fork()
    if child:
        os.write(writer, str(child).encode())
        os._exit(0)
    return 0


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Run a program as Python would that starts anew; it ends with this process."""
    for standard, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard)
    os.closerange(3, max(descriptors) + 64)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["variables"])
    if request["in_own_session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(
        1, "w", 1 if os.isatty(1) else -1, encoding="utf-8", closefd=False
    )
    sys.stderr = sys.__stderr__ = os.fdopen(
        2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    for category in request["warnings"]:
        warnings.filterwarnings("error", category=getattr(builtins, category))
    module, script, arguments = request["module"], request["script"], request["arguments"]
    sys.modules["__main__"].__dict__.pop("main", None)
    if module is not None:
        sys.path[:1] = [os.getcwd(), *request["import_folders"]]
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    sys.path[:1] = [os.path.dirname(os.path.abspath(script)), *request["import_folders"]]
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")
