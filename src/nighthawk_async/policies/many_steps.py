"""Python's garbage collector while thousands of steps are in flight: it looks less often.

A step in flight holds about 250 objects that the collector looks at. With thousands of steps, its default
threshold makes it look at all of them again and again, which takes up to half of the time of such a burst.
"""

import gc
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import ClassVar, Literal

from ..kernel.policy import Policy, Position

_THRESHOLD = 50_000
"""The number of new objects after which the collector looks at the young ones."""


class _Collector:
    """The collector of the process, which runs of several threads and event loops may share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._before: tuple[int, int, int] | None = None  # None where nothing was changed
        self._set: tuple[int, int, int] | None = None

    @contextmanager
    def looking_less_often(self) -> Generator[None, None, None]:
        """Raise the threshold during the `with` statement.

        The last run that leaves sets it back, unless the program has set another one meanwhile. What the
        program has set higher, or to 0 for never, stays.
        """
        with self._lock:
            self._runs += 1
            if self._runs == 1:
                self._begin()
        try:
            yield
        finally:
            with self._lock:
                self._runs -= 1
                if self._runs == 0:
                    self._end()

    def _begin(self) -> None:
        young, *older = before = gc.get_threshold()
        if 0 < young < _THRESHOLD:
            gc.set_threshold(_THRESHOLD, *older)
            self._before, self._set = before, gc.get_threshold()

    def _end(self) -> None:
        before, self._before = self._before, None
        if before is not None and gc.get_threshold() == self._set:
            gc.set_threshold(*before)


_COLLECTOR = _Collector()


class ManySteps(Policy):
    """Makes the garbage collector look less often while a run lasts."""

    __slots__ = ()

    position: ClassVar[Position] = Position.RUN

    def scope(self, kind: Literal["run", "scope"]) -> AbstractContextManager[None] | None:
        """Return what is entered while the run lasts."""
        return _COLLECTOR.looking_less_often() if kind == "run" else None
