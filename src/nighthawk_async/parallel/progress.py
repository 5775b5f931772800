"""Progress of calls in parallel.

This package knows nothing of models: usage is read through the hooks of tasks.
"""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import anyio

from .task_node import get_task_hooks


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a `map`, `settle`, `stream` or `race`.

    Args:
        total: The number of items; None while it is unknown.
        started: The number of calls that have begun.
        finished: The number of them that have ended by themselves, failed ones included.
        failed: The number of them that have failed.
        usage: The usage that the runtime has counted since the beginning; None when nothing counts it.
    """

    total: int | None
    started: int = 0
    finished: int = 0
    failed: int = 0
    usage: Any = None


@runtime_checkable
class ProgressBars(Protocol):
    """The part of `rich.progress.Progress` that is needed."""

    def add_task(self, description: str, *, total: float | None, **fields: Any) -> Any:
        """Show a new bar, and return its id."""
        ...

    def update(self, task_id: Any, *, total: float | None, completed: float, **fields: Any) -> None:
        """Update a bar."""
        ...


ProgressCallback: TypeAlias = Callable[[Progress], Awaitable[object] | object]

ProgressTarget: TypeAlias = bool | ProgressCallback | ProgressBars
"""True for one line, a callback, async or not, or a `rich.progress.Progress`, which gets one more bar.

The line shows calls that are done, have failed and are in flight, tokens, cost and the remaining time: on
standard error of a terminal, or in the notebook cell. Elsewhere it is written once, at the end. While one
line is shown, that of an inner or concurrent call is written once it has ended. False shows nothing.

The columns of a bar find `{task.fields[failed]}` and, inside a run, `{task.fields[usage].output_tokens}` for
instance, beside rich's own fields. Other tasks of the same bars have no such fields.
"""


class ProgressReporter:
    """Counts calls and reports each change, one at a time.

    Args:
        target: The receiver of reports; None for none.
        title: The title of a bar.
        total: The number of items; None when it is unknown.
    """

    def __init__(
        self, target: ProgressCallback | ProgressBars | None, *, title: str, total: int | None
    ) -> None:
        self._total = total
        self._started = self._finished = self._failed = 0
        self._read_usage = _usage_since_now() if target is not None else None
        self._report = _callback(target, title, self.now())
        self._lock = anyio.Lock()

    @property
    def is_on(self) -> bool:
        """Whether somebody receives reports."""
        return self._report is not None

    async def started(self) -> None:
        """Report that a call begins."""
        self._started += 1
        await self._report_progress()

    async def finished(self, *, is_failure: bool) -> None:
        """Report that a call has ended."""
        self._finished += 1
        self._failed += is_failure
        await self._report_progress()

    async def source_ended(self, total: int) -> None:
        """Report the final number of items."""
        if self._total != total:
            self._total = total
            await self._report_progress()

    async def _report_progress(self) -> None:
        if self._report is None:
            return
        result = self._report(self.now())
        if not isawaitable(result):
            return
        try:
            async with self._lock:
                await result
        finally:
            if isinstance(result, Coroutine):
                result.close()  # cancelled before it started; avoids a "never awaited" warning

    def now(self) -> Progress:
        """Return the progress so far."""
        return Progress(
            total=self._total,
            started=self._started,
            finished=self._finished,
            failed=self._failed,
            usage=None if self._read_usage is None else self._read_usage(),
        )


def check_progress_target(target: object) -> None:
    """Raise unless progress can be reported to the target.

    Raises:
        TypeError: It is neither None, a bool, a callable, nor an object with `add_task` and `update`.
    """
    if target is None or isinstance(target, bool) or callable(target):
        return
    if not isinstance(target, ProgressBars):
        raise TypeError(f"progress is True, a callable or a rich.progress.Progress, not {target!r}")


def _callback(
    target: ProgressCallback | ProgressBars | None, title: str, begin: Progress
) -> Callable[[Progress], object] | None:
    if not isinstance(target, ProgressBars):
        return target
    task_id = target.add_task(title, total=begin.total, failed=0, usage=begin.usage)

    def update_bar(progress: Progress) -> None:
        target.update(
            task_id,
            total=progress.total,
            completed=progress.finished,
            failed=progress.failed,
            usage=progress.usage,
        )

    return update_bar


def _usage_since_now() -> Callable[[], Any] | None:
    read = get_task_hooks().find_usage
    before = read()

    def difference() -> Any:
        """Return the usage in between, or the whole usage when that cannot be computed."""
        now = read()
        try:
            return now - before
        except TypeError:
            return now

    return None if before is None else difference
