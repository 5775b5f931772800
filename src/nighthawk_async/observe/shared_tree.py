"""The tree's state, shared by threads: one change at a time, and reads only between changes."""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar, TypeVarTuple

from .errors import ObserveError
from .tree_state import TreeState
from .watched import Watcher

Given = TypeVarTuple("Given")
Seen = TypeVar("Seen")


class SharedTree:
    """Serializes the changes and the reads of the state.

    A finalizer that the garbage collector runs during a change may end a node; that is recorded right after
    it.

    Args:
        state: The state.
    """

    __slots__ = ("_is_busy", "_lock", "_postponed", "state")

    def __init__(self, state: TreeState) -> None:
        self.state = state
        self._lock = threading.RLock()
        self._is_busy = False
        self._postponed: deque[Callable[[], object]] = deque()

    def change(self, change: Callable[[*Given], object], *args: *Given) -> None:
        """Make a change, and wake the watchers that it concerns."""
        with self._lock:
            if self._is_busy:
                self._postponed.append(partial(change, *args))
                return
            self._carry_out(change, *args)
            woken = self._take_woken()
        _wake(woken)

    def read(self, look: Callable[[*Given], Seen], *args: *Given) -> Seen:
        """Read the state between two changes.

        Raises:
            ObserveError: A finalizer reads while its thread makes a change.
        """
        with self._lock:
            if self._is_busy:
                raise ObserveError("a finalizer that runs during a change cannot read the tree")
            seen = self._carry_out(look, *args)
            woken = self._take_woken()
        _wake(woken)
        return seen

    def _carry_out(self, call: Callable[[*Given], Seen], *args: *Given) -> Seen:
        self._is_busy = True
        try:
            return call(*args)
        finally:
            self._is_busy = False
            while self._postponed:
                self._carry_out(self._postponed.popleft())

    def _take_woken(self) -> tuple[Watcher, ...]:
        if not self.state.woken:
            return ()
        woken = tuple(self.state.woken)
        self.state.woken.clear()
        return woken


def _wake(watchers: tuple[Watcher, ...]) -> None:
    for watcher in watchers:
        watcher.wake()
