"""Carrying out many steps, in a row or at once, and counting those that fail. It knows no workload."""

import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor, wait

import anyio

__all__ = ["Failures", "run_in_threads", "run_plain_steps", "run_steps"]

THREAD_STACK_BYTES = 512 * 1024


class Failures:
    """The errors of steps: how many, and what they said."""

    def __init__(self) -> None:
        self.count = 0
        self._messages: Counter[str] = Counter()

    def note(self, error: BaseException) -> None:
        """A step has failed."""
        self.count += 1
        self._messages[f"{type(error).__name__}: {error}"[:300]] += 1

    def absorb(self, other: "Failures") -> None:
        """Count those of another one too."""
        self.count += other.count
        self._messages += other._messages

    def note_unfinished(self, steps: int, seconds: float) -> None:
        """Steps were not over in time."""
        if steps:
            self.count += steps
            self._messages[f"not over after {seconds:g} s"] += steps

    def messages(self) -> list[str]:
        """The three most frequent messages, with how often each came."""
        return [f"{count} x {message}" for message, count in self._messages.most_common(3)]


async def run_steps(
    step: Callable[[], Awaitable[None]],
    steps: int,
    failures: Failures,
    *,
    at_once: bool,
    limit_seconds: float,
) -> None:
    """Carry out async steps; those that are not over in time count as failed.

    Args:
        step: One step; it raises when it fails.
        steps: How many.
        failures: Gets the errors.
        at_once: Whether all are in flight at once, or one after the other.
        limit_seconds: Seconds for all of them.
    """
    over = 0

    async def guarded() -> None:
        nonlocal over
        try:
            await step()
        except Exception as error:
            failures.note(error)
        over += 1

    with anyio.move_on_after(limit_seconds):
        if at_once:
            async with anyio.create_task_group() as group:
                for _ in range(steps):
                    group.start_soon(guarded)
        else:
            for _ in range(steps):
                await guarded()
    failures.note_unfinished(steps - over, limit_seconds)


def run_plain_steps(
    step: Callable[[], None], steps: int, failures: Failures, *, limit_seconds: float
) -> None:
    """Carry out plain steps one after the other; those that were not begun in time count as failed."""
    ends_at = time.monotonic() + limit_seconds
    for done in range(steps):
        if time.monotonic() > ends_at:
            failures.note_unfinished(steps - done, limit_seconds)
            return
        _guarded(step, failures)


def run_in_threads(step: Callable[[], None], steps: int, failures: Failures, *, limit_seconds: float) -> None:
    """Carry out plain steps at once, each in a thread of its own.

    Threads cannot be stopped: when steps are not over in time, they go on until the process is ended.
    """
    lock = threading.Lock()

    def guarded() -> None:
        own = Failures()
        _guarded(step, own)
        with lock:
            failures.absorb(own)

    usual_bytes = threading.stack_size(THREAD_STACK_BYTES)
    try:
        executor = ThreadPoolExecutor(max_workers=steps)
        futures = [executor.submit(guarded) for _ in range(steps)]
    finally:
        threading.stack_size(usual_bytes)
    _, unfinished = wait(futures, timeout=limit_seconds)
    executor.shutdown(wait=False, cancel_futures=True)
    with lock:
        failures.note_unfinished(len(unfinished), limit_seconds)


def _guarded(step: Callable[[], None], failures: Failures) -> None:
    try:
        step()
    except Exception as error:
        failures.note(error)
