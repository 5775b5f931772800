"""The tree's state, shared by threads: one change at a time, and views between two changes."""

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
    """Lets whoever publishes change the state, and whoever looks read it.

    The garbage collector may end something while its thread is at work here; that is told right afterwards.

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
        """Make a change, and wake whoever watches what it concerns."""
        with self._lock:
            if self._is_busy:
                self._postponed.append(partial(change, *args))
                return
            self._carry_out(change, *args)
            woken = self._take_woken()
        _wake(woken)

    def read(self, look: Callable[[*Given], Seen], *args: *Given) -> Seen:
        """Look at the state between two changes.

        Raises:
            ObserveError: A finalizer looks while its thread is at work here.
        """
        with self._lock:
            if self._is_busy:
                raise ObserveError("a finalizer that runs amid a change cannot look at the tree")
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
