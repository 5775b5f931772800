"""Reads the runs of a store for the terminal view, as if it were the dashboard of a service."""

import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import anyio

from ..journal import JournalStore
from ..journal.store_tree import POLL_SECONDS, StoreTree
from ..observe.errors import NodeNotFoundError
from ..observe.page.summaries import node_details, summarize_node
from ..observe.views import NodeView
from .top_client import DashboardError


class StoreClient:
    """Client of a store; see `TopClient`. It only reads.

    Args:
        store: The store.
    """

    def __init__(self, store: JournalStore) -> None:
        self._followed = StoreTree(store)
        self._version: int | None = None  # of what was reported last

    async def changes(self) -> AsyncGenerator[tuple[str, Mapping[str, Any]], None]:
        """The runs, then their changes; continues after the last ones.

        Raises:
            DashboardError: The store cannot be read.
        """
        while True:
            await self._followed.refresh()
            if self._followed.error is not None:
                raise DashboardError(self._followed.error)
            view = self._followed.tree.snapshot()
            if self._version is None:
                self._version = -1
                yield "reset", {"now": time.time(), "can_act": False}
            if view.version > self._version:
                seen, self._version = self._version, view.version
                yield "nodes", _changes_since(view, seen)
            await anyio.sleep(POLL_SECONDS)

    async def details(self, node_id: str) -> Mapping[str, Any]:
        """Everything there is to see of a node.

        Raises:
            DashboardError: There is no such node any more.
        """
        try:
            return node_details(self._followed.tree.snapshot(node_id))
        except NodeNotFoundError as error:
            raise DashboardError(str(error)) from error

    async def act(self, node_id: str, action: str, body: Mapping[str, str]) -> None:
        """Refuse: the runs belong to other processes.

        Raises:
            DashboardError: In any case.
        """
        raise DashboardError("the runs of a store cannot be changed from here")


def _changes_since(root: NodeView, version: int) -> dict[str, Any]:
    """The nodes that have changed since a version, parents first, and the children that each of them has."""
    nodes: list[Any] = []
    kept: dict[str, list[str]] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.version > version:
            nodes.append(summarize_node(node))
            kept[node.id] = [child.id for child in node.children]
            waiting.extend(reversed(node.children))
    return {"nodes": nodes, "kept": kept}
