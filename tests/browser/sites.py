"""A dashboard that a server serves on this machine, in a thread."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import uvicorn

from nighthawk_async.asgi import Dashboard
from nighthawk_async.observation import NodeWriter
from nighthawk_async.observe import TaskTree
from tests.browser.scenes import Control, writing_into

__all__ = ["TOKEN", "OpenPage", "OpenSite", "Serve", "Site", "served", "site_of"]

OpenPage: TypeAlias = Callable[..., Any]
OpenSite: TypeAlias = Callable[..., "Site"]
Serve: TypeAlias = Callable[[Any], str]

TOKEN = "a-token-of-enough-characters"


class Site:
    """A dashboard, what it shows, and where it is.

    Args:
        dashboard: The dashboard.
        tree: What it shows.
        top: The node above everything.
        address: Where it is served.
    """

    def __init__(self, dashboard: Dashboard, tree: TaskTree, top: NodeWriter, address: str) -> None:
        self.dashboard = dashboard
        self.tree = tree
        self.top = top
        self.address = address
        self.control = Control()


class _Server(uvicorn.Server):
    """Says when it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.has_started = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.has_started.set()


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The address of an application while it is served."""
    config = uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = _Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert server.has_started.wait(240)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def site_of(tree: TaskTree | None = None, **settings: Any) -> Iterator[Site]:
    """A dashboard and what it shows, while it is served."""
    tree = tree or TaskTree()
    dashboard = Dashboard(tree, **settings)
    with writing_into(tree) as top, served(dashboard) as address:
        yield Site(dashboard, tree, top, address)
