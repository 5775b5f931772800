"""An application with a dashboard beside it: recorded, and with people to ask."""

from typing import Any

from ...errors import NighthawkError
from ...observe.tree import TaskTree
from ...policies.people.handler import HumanHandler
from ...policies.people.stand_in import standing_in
from ..protocol import Application, Receive, Send

__all__ = ["Beside"]


class Beside:
    """An application, and a dashboard under a path of its own.

    Args:
        app: The application.
        dashboard: The dashboard.
        tree: Records what the application does.
        human: Asks people for runs that were told of nobody.
        path: The path of the dashboard.

    Raises:
        NighthawkError: The path has no slash at its beginning, or one at its end.
    """

    def __init__(
        self, app: Application, dashboard: Application, *, tree: TaskTree, human: HumanHandler, path: str
    ) -> None:
        if not path.startswith("/") or path.endswith("/"):
            raise NighthawkError(f"the path of a dashboard begins with a slash and ends without: {path!r}")
        self._app = app
        self._dashboard = dashboard
        self._tree = tree
        self._human = human
        self._path = path

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve a connection, or go through the lifespan of the application.

        Args:
            scope: What ASGI calls a scope.
            receive: Gives the next event of the server.
            send: Takes the events for the server.
        """
        path, root = str(scope.get("path", "")), str(scope.get("root_path") or "").rstrip("/")
        below = path[len(root) :] if root and path.startswith(f"{root}/") else path
        if scope["type"] == "http" and (below == self._path or below.startswith(f"{self._path}/")):
            own = {**scope, "path": root + below, "root_path": root + self._path}
            await self._dashboard(own, receive, send)
            return
        with self._tree.recording(), standing_in(self._human):
            await self._app(scope, receive, send)
