"""Runs a program on every schedule up to a bound, on asyncio and on Trio, and the same ones every time.

A program is cancelled before the n-th step of its event loop, for every n until it is quicker than that: not
at its own checkpoints only, but between any two steps of any tasks, so also while a task that is about to be
cancelled was woken for something else already. Time is counted in turns of the loop: a second is one turn, so
time limits are reached after every number of turns too.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import anyio
import trio
from anyio.lowlevel import checkpoint
from trio.testing import MockClock

import nighthawk_async as nh

__all__ = ["BACKENDS", "ENDINGS", "ORDERS", "Ending", "Program", "Surprise", "explore", "ticks"]

Program: TypeAlias = Callable[[], Awaitable[object]]
"""What is run. It raises nothing when nobody ends it."""

Ending: TypeAlias = Literal["scope", "sibling", "time", "deadline"]
"""What ends a program: a cancel scope, a failing task beside it, `move_on_after`, `nh.deadline`."""

ENDINGS: tuple[Ending, ...] = ("scope", "sibling", "time", "deadline")
BACKENDS = ("asyncio", "trio")
ORDERS = (None, 2)
_MOST_STEPS = 2_000


class _FailedBesideError(Exception):
    """What the task beside a program raises."""


@dataclass(frozen=True, slots=True)
class Surprise:
    """What came out of a program and nobody raised.

    Args:
        ending: What ended the program.
        step: Before which step of the loop, or after how many turns.
        order: Which order of what was ready together.
        error: What came out.
    """

    ending: Ending
    step: int
    order: int | None
    error: str


@dataclass(slots=True)
class _Schedule:
    step: int
    order: int | None
    act: Callable[[], object] | None = None
    steps: int = 0
    is_reached: bool = False

    def before_step(self) -> None:
        if self.act is None:
            return
        self.steps += 1
        if self.steps == self.step:
            self.is_reached = True
            self.act()


class _Ready(deque[Any]):
    """What is ready to run, in the order in which it came or shuffled turn by turn."""

    def __init__(self, schedule: _Schedule, handles: deque[Any]) -> None:
        super().__init__(handles)
        self._schedule = schedule

    def popleft(self) -> Any:
        self._schedule.before_step()
        return super().popleft()


class _ScheduledLoop(asyncio.SelectorEventLoop):
    """An event loop that says before each of its steps that it comes, and whose turns last a second each."""

    def __init__(self, schedule: _Schedule) -> None:
        self._now = 0.0
        super().__init__()
        self._ready: deque[Any] = _Ready(schedule, self._ready)  # pyright: ignore
        self._random = None if schedule.order is None else random.Random(schedule.order)

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        self._now += 1
        if self._random is not None:
            self._shuffle(self._random)
        if not self._ready:
            self._now = max([self._now, *(timer.when() for timer in self._scheduled[:1])])
        super()._run_once()  # pyright: ignore

    def _shuffle(self, order: random.Random) -> None:
        """Shuffle what is ready but cancellations, which AnyIO delivers between any two steps of a task."""
        handles = list(self._ready)
        order.shuffle(handles)
        handles.sort(key=lambda handle: getattr(handle._callback, "__name__", "") != "_deliver_cancellation")
        self._ready.clear()
        self._ready.extend(handles)


class _ScheduledTrio(trio.abc.Instrument):
    """The same for Trio."""

    def __init__(self, schedule: _Schedule, clock: MockClock) -> None:
        self._schedule = schedule
        self._clock = clock

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._schedule.before_step()

    def before_io_wait(self, timeout: float) -> None:
        self._clock.jump(1)


@contextmanager
def _shuffled_trio(order: int | None) -> Generator[None, None, None]:
    """Let Trio, which shuffles what is ready together, do so in the same way every time."""
    shuffles: Any = trio._core._run  # pyright: ignore
    state, was_sorted = shuffles._r.getstate(), shuffles._ALLOW_DETERMINISTIC_SCHEDULING
    shuffles._r.seed(order or 0)
    shuffles._ALLOW_DETERMINISTIC_SCHEDULING = True
    try:
        yield
    finally:
        shuffles._r.setstate(state)
        shuffles._ALLOW_DETERMINISTIC_SCHEDULING = was_sorted


async def ticks(number: int) -> None:
    """Let the others run so many times."""
    for _ in range(number):
        await checkpoint()


def explore(
    program: Program,
    *,
    backend: str,
    endings: tuple[Ending, ...] = ENDINGS,
    orders: tuple[int | None, ...] = ORDERS,
) -> list[Surprise]:
    """Run a program on every schedule, and tell what came out of it that nobody raised.

    Args:
        program: Is run anew each time.
        backend: `asyncio` or `trio`.
        endings: What ends it.
        orders: In which orders things run that are ready together: None as they come, a number shuffled. Time
            limits are tried with the first alone.
    """
    return [
        surprise
        for ending in endings
        for order in (orders if ending in ("scope", "sibling") else orders[:1])
        for surprise in _explore(program, backend, ending, order)
    ]


def _explore(program: Program, backend: str, ending: Ending, order: int | None) -> Iterator[Surprise]:
    for step in range(1, _MOST_STEPS):
        schedule = _Schedule(step=step, order=order)
        try:
            _run(lambda schedule=schedule: _run_ending(program, ending, schedule), backend, schedule)
        except BaseException as error:  # also a cancellation that nobody caught
            yield Surprise(ending, step, order, _described(error))
        if not schedule.is_reached:
            return
    raise AssertionError(f"the program took {_MOST_STEPS} steps and had not ended")


def _run(main: Callable[[], Awaitable[None]], backend: str, schedule: _Schedule) -> None:
    if backend == "asyncio":
        anyio.run(main, backend_options={"loop_factory": lambda: _ScheduledLoop(schedule)})
    else:
        clock = MockClock(autojump_threshold=0)
        options = {"clock": clock, "instruments": [_ScheduledTrio(schedule, clock)]}
        with _shuffled_trio(schedule.order):
            anyio.run(main, backend="trio", backend_options=options)


async def _run_ending(program: Program, ending: Ending, schedule: _Schedule) -> None:
    match ending:
        case "scope":
            with anyio.CancelScope() as scope:
                schedule.act = scope.cancel
                await program()
        case "sibling":
            await _run_beside_failure(program, schedule)
        case "time":
            with anyio.move_on_after(schedule.step) as scope:
                await program()
            schedule.is_reached = scope.cancelled_caught
        case "deadline":
            try:
                async with nh.deadline(schedule.step):
                    await program()
            except nh.parallel.DeadlineExceededError:
                schedule.is_reached = True


async def _run_beside_failure(program: Program, schedule: _Schedule) -> None:
    is_time = anyio.Event()

    async def fail() -> None:
        await is_time.wait()
        raise _FailedBesideError

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail)
            schedule.act = is_time.set
            await program()
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        rest = group.split(_FailedBesideError)[1]
        if rest is not None:
            raise rest from None


def _described(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return f"group of {', '.join(_described(each) for each in error.exceptions)}"
    return f"{type(error).__name__}: {error}"
