"""Notices an event loop that stays inside one step: code that blocks where it should await.

Trio tells its steps through an instrument, asyncio through `Handle._run`. A watchdog thread looks at running
steps at a fixed interval and takes the stack of one that lasts too long. It counts its own looks and not the
clock alone, so a machine that stalls the whole process blames nobody; code that holds the interpreter's lock
cannot be looked at, and is noticed by the processor time its step took. Garbage collection counts for no
step: it goes through everything that all tests before have left. Neither does the time for which a thread
could run and a busy machine lets others run, where the system says how long that is.
"""

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import trio

__all__ = ["EventLoopWatch", "TrioSteps", "seconds_in_run_queue", "watching_asyncio"]


_MARK_SECONDS = 0.02
"""How old the note of a thread's processor time may be: asking at each of thousands of steps takes longer."""


class _Step:
    """One step of an event loop; thousands of them are made in a test, so there is little to make."""

    __slots__ = ("began", "looks", "outer")

    def __init__(self, began: float, outer: "_Step | None") -> None:
        self.began = began
        self.outer = outer
        self.looks: _Looks | None = None


@dataclass(slots=True, eq=False)
class _Looks:
    """What the watchdog and the garbage collector note about a step that lasts."""

    native_id: int
    count: int = 0
    queued_before: float = 0.0
    stack: str = ""
    collecting_began: float = 0.0
    collecting_seconds: float = 0.0


def seconds_in_run_queue(native_id: int) -> float:
    """How long a thread of this process could run and was not running, in seconds; 0 where nothing tells.

    Args:
        native_id: The thread, as the system names it.
    """
    try:
        return int(Path(f"/proc/self/task/{native_id}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class EventLoopWatch:
    """Collects reports about steps that took too long, from every event loop in the process.

    Args:
        bound_seconds: How long a step may take, in seconds.
        interval_seconds: How often the watchdog looks, in seconds.
        queued: How long a thread has waited for a processor, in seconds.
    """

    def __init__(
        self,
        *,
        bound_seconds: float,
        interval_seconds: float = 0.1,
        queued: Callable[[int], float] = seconds_in_run_queue,
    ) -> None:
        self.bound_seconds = bound_seconds
        self._queued = queued
        self._interval_seconds = interval_seconds
        self.looks_needed = max(1, int(bound_seconds / interval_seconds))
        self._running_steps: dict[int, _Step] = {}
        self._marks: dict[int, tuple[float, float]] = {}  # by thread: a moment, and its processor time then
        self._reports: list[str] = []
        self._stop = threading.Event()
        self._watchdog = threading.Thread(
            target=self._look_again_and_again, name="event loop watch", daemon=True
        )

    def start(self) -> None:
        """Start the watchdog thread."""
        gc.callbacks.append(self._collecting)
        self._watchdog.start()

    def stop(self) -> None:
        """Stop the watchdog thread and wait for its end."""
        gc.callbacks.remove(self._collecting)
        self._stop.set()
        self._watchdog.join()

    def step_begins(self) -> None:
        """Note that the loop of this thread begins a step."""
        thread_id, now = threading.get_ident(), time.monotonic()
        self._running_steps[thread_id] = _Step(now, self._running_steps.get(thread_id))
        mark = self._marks.get(thread_id)
        if mark is None or now - mark[0] > _MARK_SECONDS:
            self._marks[thread_id] = now, time.thread_time()

    def step_ends(self) -> None:
        """Note that the loop of this thread ended the step it began last."""
        thread_id = threading.get_ident()
        step = self._running_steps.pop(thread_id)
        if step.outer is not None:
            self._running_steps[thread_id] = step.outer
        elapsed = time.monotonic() - step.began
        if elapsed >= self.bound_seconds:
            self._report(step, elapsed, thread_id)

    def _report(self, step: _Step, elapsed: float, thread_id: int) -> None:
        """Report a step that lasted, unless it was not the step that took the time."""
        looks = step.looks
        if looks is not None and looks.stack:
            self._reports.append(f"a step of the event loop took {elapsed:.1f} s; seen in it:\n{looks.stack}")
            return
        marked, processor_then = self._marks[thread_id]
        # Between the mark and the beginning of the step the thread was busy no longer than that lasted.
        busy = time.thread_time() - processor_then - max(0.0, step.began - marked)
        busy -= looks.collecting_seconds if looks is not None else 0.0
        if busy >= self.bound_seconds:
            self._reports.append(f"a step of the event loop kept its thread busy for {busy:.1f} s")

    def take_reports(self) -> list[str]:
        """Return the reports so far and forget them."""
        reports, self._reports = self._reports, []
        return reports

    def sees_a_blocked_step(self) -> bool:
        """Whether a step that still runs has already taken too long."""
        return any(step.looks and step.looks.stack for step in list(self._running_steps.values()))

    def _collecting(self, phase: str, info: dict[str, int]) -> None:
        if info.get("generation", 2) == 0:  # it looks at what is new, often and briefly
            return
        step = self._running_steps.get(threading.get_ident())
        if step is None:
            return
        looks = step.looks = step.looks or _Looks(threading.get_native_id())
        if phase == "start":
            looks.collecting_began = time.thread_time()
        elif looks.collecting_began:  # the watchdog has not begun notes of its own meanwhile
            looks.collecting_seconds += time.thread_time() - looks.collecting_began
            looks.collecting_began = 0.0

    def _look_again_and_again(self) -> None:
        while not self._stop.wait(self._interval_seconds):
            for thread_id, step in list(self._running_steps.items()):
                looks = step.looks = step.looks or _Looks(_native_id_of(thread_id))
                looks.count += 1
                if looks.count == 1:
                    looks.queued_before = self._queued(looks.native_id)
                if not looks.stack and self._is_overdue(step, looks):
                    looks.stack = _stack_of(sys._current_frames().get(thread_id))

    def _is_overdue(self, step: _Step, looks: _Looks) -> bool:
        elapsed = time.monotonic() - step.began
        if looks.count < self.looks_needed or elapsed < self.bound_seconds:
            return False
        return elapsed - (self._queued(looks.native_id) - looks.queued_before) >= self.bound_seconds


def _native_id_of(thread_id: int) -> int:
    """The id by which the system knows a thread; -1, which it does not know, where the thread has ended."""
    ids = (each.native_id for each in threading.enumerate() if each.ident == thread_id)
    return next(ids, None) or -1


def _stack_of(frame: FrameType | None) -> str:
    return "".join(traceback.format_stack(frame, limit=None)[-12:]) if frame is not None else ""


class TrioSteps(trio.abc.Instrument):
    """Tells a watch about the steps of a Trio run.

    Args:
        watch: The watch to tell.
    """

    def __init__(self, watch: EventLoopWatch) -> None:
        self._watch = watch

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task is about to run."""
        self._watch.step_begins()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task ran to its next await."""
        self._watch.step_ends()


@contextmanager
def watching_asyncio(watch: EventLoopWatch) -> Iterator[None]:
    """Tell a watch about the steps of every asyncio loop, in any thread, while the context lasts.

    Args:
        watch: The watch to tell.
    """
    run_handle = asyncio.Handle._run

    def run_watched_handle(handle: asyncio.Handle) -> None:
        watch.step_begins()
        try:
            run_handle(handle)
        finally:
            watch.step_ends()

    asyncio.Handle._run = run_watched_handle  # type: ignore[method-assign]
    try:
        yield
    finally:
        asyncio.Handle._run = run_handle  # type: ignore[method-assign]
