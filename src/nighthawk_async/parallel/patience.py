"""Bounded waits for what another task or thread is expected to do, in real time.

Time is counted in beats: moments of real time, each of which the event loop has answered. A loop that is
busy, or stopped in a debugger, lets no time pass. The clock of a test, which jumps, changes nothing.
"""

import os
import threading
import time
from collections.abc import Callable

from .event_loop import EventLoop, LoopEvent, is_loop_thread

BEAT_SECONDS = 0.05
"""The time between two beats: short for somebody who waits, long for a loop with work to do."""

_LINGER_SECONDS = 0.1
"""The time for which the thread waits for another watch before it ends."""


class Watch:
    """Calls a function at each beat until it returns False.

    Args:
        beat: The function; called on the event loop on which the watch was made, or on the thread of the
            beats where there was none or it has ended. It must not raise, and not wait.
    """

    __slots__ = ("_beat", "_is_asked", "_is_over", "_loop")

    def __init__(self, beat: Callable[[], bool]) -> None:
        self._beat = beat
        self._loop = EventLoop() if is_loop_thread() else None
        self._is_asked = False
        self._is_over = False
        _ticker.add(self)

    def end(self) -> None:
        """Beat no more; from any thread."""
        self._is_over = True

    def tick(self) -> bool:
        """Beat, unless the event loop has not answered the last beat; return whether the watch goes on."""
        if self._loop is not None and not self._is_over:
            ask = _do_nothing if self._is_asked else self._answer
            self._is_asked = True  # before the loop, on its own thread, answers
            try:
                self._loop.call_soon(ask)
            except RuntimeError:  # the loop has ended, maybe after it was asked
                self._loop = None
            else:
                return True
        if not self._is_over:
            self._answer()
        return not self._is_over

    def _answer(self) -> None:
        self._is_asked = False
        if not self._is_over and not self._beat():
            self._is_over = True


def _do_nothing() -> None:
    """Do nothing: only whether the loop still takes calls is of interest."""


class _Ticker:
    """The thread of the beats of a process, which runs while there are watches."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew in a forked process: it has no thread, and the lock may be held for ever."""
        self._changed = threading.Condition()
        self._watches: list[Watch] = []
        self._is_running = False

    def add(self, watch: Watch) -> None:
        with self._changed:
            self._watches.append(watch)
            self._changed.notify()
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="nighthawk-beats", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._watches and not self._changed.wait(_LINGER_SECONDS) and not self._watches:
                    self._is_running = False
                    return
                watches = tuple(self._watches)
            time.sleep(BEAT_SECONDS)
            ended = {watch for watch in watches if not watch.tick()}
            if ended:
                with self._changed:
                    self._watches = [watch for watch in self._watches if watch not in ended]


_ticker = _Ticker()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ticker.forget)


class PatientEvent:
    """An event that tasks and threads wait for as long as something moves, and a little longer.

    Args:
        seconds: The time without a move after which waiters give up.
        progress: Returns a value that changes with each move; None where only the time counts.
        is_over: Returns whether there is nothing to wait for any more; it is asked at each beat.
    """

    def __init__(
        self,
        seconds: float,
        progress: Callable[[], object] | None = None,
        is_over: Callable[[], bool] | None = None,
    ) -> None:
        self._is_over = is_over
        self._beats_left = self._beats = max(1, round(seconds / BEAT_SECONDS))
        self._progress = progress
        self._seen: object = None if progress is None else progress()
        self._lock = threading.Lock()
        self._waiters: list[LoopEvent | threading.Event] = []
        self._watch: Watch | None = None
        self.is_set = False

    def set(self) -> None:
        """Let all waiters go on; from any thread."""
        self.is_set = True
        self._wake()

    async def wait(self) -> bool:
        """Wait on an event loop; return whether the event was set in time."""
        waiter = LoopEvent()
        if self._begin(waiter):
            try:
                await waiter.wait()
            finally:
                self._end(waiter)
        return self.is_set

    def wait_in_thread(self) -> bool:
        """Wait, and block the thread meanwhile; return whether the event was set in time."""
        waiter = threading.Event()
        if self._begin(waiter):
            try:
                waiter.wait()
            finally:
                self._end(waiter)
        return self.is_set

    def _begin(self, waiter: LoopEvent | threading.Event) -> bool:
        with self._lock:
            if self.is_set or self._beats_left <= 0:
                return False
            self._waiters.append(waiter)
            if self._watch is None:
                self._watch = Watch(self._beat)
            return True

    def _end(self, waiter: LoopEvent | threading.Event) -> None:
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if not self._waiters and self._watch is not None:
                self._watch.end()
                self._watch = None

    def _beat(self) -> bool:
        if self._is_over is not None and self._is_over():
            self.set()
            return False
        seen = None if self._progress is None else self._progress()
        if seen != self._seen:
            self._seen, self._beats_left = seen, self._beats
        self._beats_left -= 1
        if self._beats_left > 0:
            return True
        self._wake()
        return False

    def _wake(self) -> None:
        with self._lock:
            waiters, self._waiters = self._waiters, []
            if self._watch is not None:
                self._watch.end()
                self._watch = None
        for waiter in waiters:
            waiter.set()
