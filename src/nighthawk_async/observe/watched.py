"""State shared by the watchers of one node, and the pace of new views.

Building a view blocks the event loop, for longer the more has changed. So the longer the last view of a node
took, the later the next one comes: views take a small share of the time, however much changes and however
many watchers there are.
"""

import time
from collections.abc import Callable
from typing import Protocol

from .views import NodeView

_UNNOTICED_SECONDS = 0.005
"""Building times below this need no pause."""

_REST = 9
"""The pause after a view, as a multiple of its building time: views take a tenth of the time."""


class Watcher(Protocol):
    """A watcher that waits for changes."""

    def wake(self) -> None:
        """Notify the watcher of a change. Called from any thread; must not wait."""
        ...


class Watched:
    """The watchers of a node, and the view that they share for a while when it took long to build.

    Attributes:
        watchers: All watchers.
        waiting: Those that wait for a change; the code that makes one takes them out.
    """

    __slots__ = ("_due", "_shown", "waiting", "watchers")

    def __init__(self) -> None:
        self.watchers: dict[Watcher, None] = {}
        self.waiting: dict[Watcher, None] = {}
        self._shown: NodeView | None = None
        self._due = 0.0

    def seconds_left(self, seen: int) -> float:
        """Return the seconds to wait for a view that is newer than a version."""
        return 0.0 if self._shared(seen) is not None else max(0.0, self._due - time.monotonic())

    def view(self, seen: int, make_view: Callable[[], NodeView]) -> NodeView:
        """Return a view that is newer than a version: the shared one, or a new one.

        Args:
            seen: The version.
            make_view: Builds a new one.
        """
        shared = self._shared(seen)
        if shared is not None:
            return shared
        began, began_work = time.monotonic(), time.thread_time()
        view = make_view()
        worked, ended = time.thread_time() - began_work, time.monotonic()
        is_noticed = worked > _UNNOTICED_SECONDS  # time that other threads took is no reason to pause
        self._shown = view if is_noticed else None
        self._due = ended + _REST * max(worked, ended - began) if is_noticed else 0.0
        return view

    def _shared(self, seen: int) -> NodeView | None:
        if self._shown is None or self._shown.version <= seen or time.monotonic() >= self._due:
            return None
        return self._shown
