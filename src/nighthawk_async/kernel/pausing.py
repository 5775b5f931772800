"""Running the code of a model so that it never holds the event loop: its pauses, its time limit, its end.

The checks in the code (`code_checks`) ask `CHECKS`. The code runs in a greenlet of the event loop's thread.
So a check deep inside functions, comprehensions and callbacks of functions written in C can stop there, let
the event loop run, and go on: everything stays on one thread, and a pause is what an `await` of the code is.
Where the package greenlet cannot run, checks end code that has taken too long, and the loop gets no turns.

Code that was ended raises at each further check, so that no `except` or `finally` in it can go on.
"""

import contextvars
import math
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import suppress
from inspect import CO_COROUTINE
from itertools import chain, islice
from types import CodeType, CoroutineType, coroutine
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from anyio import NoEventLoopError, current_effective_deadline, current_time, sleep as anyio_sleep
from anyio.lowlevel import checkpoint

from ..errors import ToolBoundaryError
from .cells import DRIVERS, StepWork, begin, is_in_turn, pause
from .code_sizes import SizeChecks
from .greenlets import CAN_PAUSE, Greenlet, getcurrent

_HELD_SECONDS = 0.005
"""The processor time for which code may hold the event loop."""

_HELD_WALL_SECONDS = 0.1
"""The time for which it may hold the loop: longer, because on a busy machine it waits for a processor too."""

_LOOKED_SECONDS = 0.0005
"""The time between two looks at the clock above which each check is one."""

_MOST_CHECKS = 64
"""The number of checks between two looks at the clock, where checks follow each other fast."""

_WAITED_SECONDS = 0.05
"""The time between two looks above which code outside of the greenlet counts as having waited."""

_BUILTINS = "__builtins__"
_PAUSED = object()
_MISSING = object()

Value = TypeVar("Value")


Phase: TypeAlias = Literal["running", "ending", "ended"]


class LimitedContext(Protocol):
    """The part of the state of a step that is read here."""

    step_locals: dict[str, object]
    max_code_seconds: float | None
    phase: Phase


class CodeEnded(BaseException):
    """Ends the code of a model; no `except Exception` on the way stops it."""


class Checks(SizeChecks):
    """Stands in compiled code, where it is asked whether the code may go on.

    Attributes:
        left: The number of checks until the next look at the clock.
    """

    __slots__ = ("_asked", "_at_once", "_looked", "_turned", "left")

    def __init__(self) -> None:
        self._asked = self._turned = 0.0
        self.renew()

    def renew(self) -> None:
        """Have the next check look at the clock."""
        self.left, self._at_once, self._looked = 0, 1, time.perf_counter()

    def look(self) -> None:
        """Look at the clock: end code that has run for too long; let the loop run if it was held."""
        green: Any = getcurrent()
        if type(green) is CodeGreenlet:
            green.code.look(green)
        elif (state := _state_of_caller()) is not None:
            _look_outside(state)
        now = time.perf_counter()
        is_slow = now - self._looked > _LOOKED_SECONDS
        self._looked = now
        self.left = self._at_once = 1 if is_slow else min(2 * self._at_once, _MOST_CHECKS)

    async def turn(self) -> None:
        """Look at the clock in a loop of an async function, which lets the event loop run by itself."""
        now = time.perf_counter()
        if now - self._asked > _WAITED_SECONDS:
            self._turned = now
        self._asked = now
        if type(getcurrent()) is not CodeGreenlet and now - self._turned > _HELD_SECONDS:
            with suppress(NoEventLoopError):  # somebody awaits it by hand
                await (pause() if is_in_turn() else checkpoint())
            self._asked = self._turned = time.perf_counter()
        self.look()

    def tick(self) -> bool:
        """Check where only an expression can stand; the value is always true."""
        if self.left > 0:
            self.left -= 1
        else:
            self.look()
        return True

    def each(self, values: Iterable[Value]) -> Iterator[Value]:
        """Iterate over values with checks between them; most of the way is in C."""
        return chain.from_iterable(self._chunks(iter(values)))

    def _chunks(self, iterator: Iterator[Value]) -> Generator[Iterable[Value], None, None]:
        for first in iterator:
            self.tick()
            size = self.left
            yield chain((first,), islice(iterator, size))
            self.left = max(0, self.left - size)


CHECKS = Checks()


class CodeGreenlet(Greenlet):
    """The greenlet of a piece of a model's code."""

    def __init__(self, code: "RunningCode", function: Callable[[], object]) -> None:
        super().__init__(function)
        self.code = code


class RunningCode:
    """One piece of the code of a model while it runs.

    The code has a context of its own. It begins as a copy of that of the actor, takes what differs where the
    code goes on after a pause, and is handed back at the end.

    Args:
        state: The state of the step.
        builtins: The builtins that the code sees; None if it has begun elsewhere.
    """

    __slots__ = (
        "_before",
        "_builtins",
        "_context",
        "_deadline",
        "_ended",
        "_seconds",
        "_since",
        "_spent",
        "_state",
        "_worked",
    )

    def __init__(self, state: LimitedContext, builtins: dict[str, object] | None = None) -> None:
        self._state = state
        self._builtins = builtins
        self._seconds = math.inf if state.max_code_seconds is None else state.max_code_seconds
        self._deadline = math.inf if CAN_PAUSE else current_effective_deadline()
        self._spent = 0.0
        self._since, self._worked = time.perf_counter(), time.thread_time()
        self._ended: BaseException | None = None
        self._before = contextvars.copy_context()
        self._context = self._before.copy()

    def begin(self, function: Callable[[], object]) -> object:
        """Run synchronous code in the actor's turn; see `cells.begin` for the value."""
        green = CodeGreenlet(self, function)
        try:
            reply = self._switch(green)
        except BaseException:
            self._close()
            raise
        if not green.dead:
            return begin(self._to_end(green, reply))
        self._close()
        return reply

    async def drive(self, code: Coroutine[Any, Any, object]) -> object:
        """Await a coroutine of the code, with pauses between those that it makes itself."""
        advance = _Advance(code)
        try:
            while True:
                green = CodeGreenlet(self, advance.next)
                trap = await self._to_reply(green, self._switch(green))
                if advance.is_over:
                    break
                await advance.pass_on(trap)
        except BaseException:
            self._close()
            raise
        self._close()
        return advance.value

    def look(self, green: Any) -> None:
        """Check in the greenlet of the code.

        Raises:
            CodeEnded: It was ended.
            BaseException: It is cancelled.
        """
        held = self._check()
        if held < _HELD_SECONDS or not CAN_PAUSE:
            return
        if held > _HELD_WALL_SECONDS or time.thread_time() - self._worked > _HELD_SECONDS:
            green.parent.switch(_PAUSED)

    def sleep(self, green: Any, seconds: float) -> None:
        """Sleep in the greenlet of the code; raises as `look`."""
        self._check()
        green.parent.switch(_Sleep(seconds))

    def _check(self) -> float:
        """Raise if the code must not go on; else return the seconds for which it has held the loop."""
        if self._ended is not None:
            raise CodeEnded
        held = time.perf_counter() - self._since
        if self._spent + held > self._seconds:
            self._ended = CodeEnded(_late(self._seconds))
        elif self._deadline < math.inf and current_time() > self._deadline:
            self._ended = CodeEnded("the time of the step is over")
        if self._ended is not None:
            raise self._ended
        return held

    async def _to_end(self, green: Any, reply: object) -> object:
        """Go on after the first pause, until the code ends."""
        try:
            reply = await self._to_reply(green, reply)
        except BaseException:
            self._close()
            raise
        self._close()
        return reply

    async def _to_reply(self, green: Any, reply: object) -> object:
        """Go on until the function of a greenlet returns."""
        while not green.dead:
            try:
                if is_in_turn():
                    await pause()
                    self._take_context()
                await (anyio_sleep(reply.seconds) if isinstance(reply, _Sleep) else checkpoint())
            except BaseException as error:
                self._ended = error
                reply = self._switch(green, error)
                continue
            if self._state.phase == "ending":
                self._ended = CodeEnded(_ENDING)
            reply = self._switch(green, self._ended)
        return reply

    def _switch(self, green: Any, error: BaseException | None = None) -> object:
        names = self._state.step_locals
        green.parent, green.gr_context = getcurrent(), self._context
        if self._builtins is not None:
            names[_BUILTINS] = self._builtins
        CHECKS.renew()
        self._since, self._worked = time.perf_counter(), time.thread_time()
        try:
            return green.switch() if error is None else green.throw(error)
        finally:
            self._spent += time.perf_counter() - self._since
            if self._builtins is not None:
                names.pop(_BUILTINS, None)

    def _take_context(self) -> None:
        """Take what differs in the context in which the code goes on."""
        for variable, value in contextvars.copy_context().items():
            own = self._context.get(variable, _MISSING)
            if own is not value and own is self._before.get(variable, _MISSING):
                self._context.run(variable.set, value)

    def _close(self) -> None:
        """Hand the context back, at the end of the code.

        Raises:
            ToolBoundaryError: The code was ended, whatever it made of that.
            BaseException: It was cancelled.
        """
        if self._ended is None:
            for variable, value in self._context.items():
                if self._before.get(variable, _MISSING) is not value:
                    variable.set(value)
            return
        ended, self._ended = self._ended, CodeEnded()  # no tracebacks from here on
        if isinstance(ended, CodeEnded):
            raise _ended_error(str(ended)).with_traceback(ended.__traceback__) from None
        raise ended


def _late(seconds: float) -> str:
    return f"it ran for more than {seconds:g} s (max_code_seconds)"


class _Stretch(threading.local):
    """The time for which code of models has run in a thread without waiting, outside of its greenlet."""

    looked = began = 0.0


_stretch = _Stretch()


def _look_outside(state: LimitedContext) -> None:
    """Check in a thread or task that a step's code has started.

    A function that a step has left to the program runs without a limit.

    Raises:
        ToolBoundaryError: It has run for too long without waiting.
    """
    now = time.perf_counter()
    if now - _stretch.looked > _WAITED_SECONDS:
        _stretch.began = now
    _stretch.looked = now
    if state.phase == "ending":
        raise _ended_error(_ENDING)
    limit = state.max_code_seconds
    if state.phase == "running" and limit is not None and now - _stretch.began > limit:
        raise _ended_error(_late(limit))


def _state_of_caller() -> LimitedContext | None:
    """The state of the step whose model wrote the innermost code; its builtins know it."""
    frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if (state := _state_of(frame)) is not None:
            return state
        frame = frame.f_back
    return None


def _type_of(value: object) -> type[object]:
    return type(value)


def _state_of(frame: Any) -> LimitedContext | None:
    return getattr(frame.f_builtins, "context", None)


_ENDING = "the step was asked to end"


def _ended_error(why: str) -> ToolBoundaryError:
    guidance = "Do less at once, and look at conditions of loops."
    return ToolBoundaryError(kind="execution", message=f"the code was ended: {why}", guidance=guidance)


class _Sleep(NamedTuple):
    """The wish of code to sleep."""

    seconds: float


def sleep(seconds: float) -> None:
    """Sleep in the code of a model, and let the event loop run meanwhile where it can.

    Args:
        seconds: The number of seconds.
    """
    green: Any = getcurrent()
    if type(green) is not CodeGreenlet or not CAN_PAUSE or seconds <= 0:
        time.sleep(seconds)
    else:
        green.code.sleep(green, seconds)


class _Advance:
    """Takes a coroutine from one of its pauses to the next.

    Attributes:
        is_over: Whether it has ended.
        value: The value of the coroutine, when it has ended.
    """

    __slots__ = ("_code", "_error", "_sent", "is_over", "value")

    def __init__(self, code: Coroutine[Any, Any, object]) -> None:
        self._code = code
        self._sent: object = None
        self._error: BaseException | None = None
        self.is_over = False
        self.value: object = None

    def next(self) -> object:
        """Run it until it pauses; return what it gives to the event loop."""
        try:
            return self._code.send(self._sent) if self._error is None else self._code.throw(self._error)
        except StopIteration as end:
            self.is_over, self.value = True, end.value
            return None

    async def pass_on(self, trap: object) -> None:
        """Give that to the event loop, and keep its answer."""
        self._sent = self._error = None
        try:
            self._sent = await _passed(trap)
        except BaseException as error:
            self._error = error


@coroutine
def _passed(trap: object) -> Generator[object, object, object]:
    return (yield trap)


class DrivenCode(StepWork):
    """A coroutine of a model's code that pauses. Await it, or close it.

    Args:
        running: Runs it.
        code: The coroutine.
    """

    __slots__ = ("_code", "_driver", "_running")

    def __init__(self, running: RunningCode, code: Coroutine[Any, Any, object]) -> None:
        self._running = running
        self._code = code
        self._driver: Coroutine[Any, Any, object] | None = None

    def __await__(self) -> Generator[Any, Any, object]:
        return self._begun().__await__()

    def send(self, value: object) -> object:
        """Begin it; see `cells.begin`."""
        return self._begun().send(value)

    def close(self) -> None:
        """Close the coroutine."""
        if self._driver is not None:
            self._driver.close()
        self._code.close()

    def _begun(self) -> Coroutine[Any, Any, object]:
        if self._driver is None:
            self._driver = self._running.drive(self._code)
        return self._driver


def driven(awaitable: Any) -> Awaitable[object]:
    """Return an awaitable that pauses, if this is a new coroutine of a model's function."""
    frame: Any = getattr(awaitable, "cr_frame", None) if _type_of(awaitable) is CoroutineType else None
    state = None if frame is None else _state_of(frame)
    return awaitable if state is None else DrivenCode(RunningCode(state), awaitable)


def run_code(code: CodeType, state: LimitedContext, builtins: dict[str, object]) -> object:
    """Run code of a model with pauses.

    Args:
        code: The code.
        state: The state of the step.
        builtins: The builtins that the code sees.

    Returns:
        The value; a `PausedCode` if it has paused; a `DrivenCode` if it has an `await`.
    """
    names = state.step_locals
    running = RunningCode(state, builtins)
    if not code.co_flags & CO_COROUTINE:
        return running.begin(lambda: eval(code, names))
    names[_BUILTINS] = builtins
    try:
        return DrivenCode(running, eval(code, names))
    finally:
        names.pop(_BUILTINS, None)


DRIVERS.append(driven)
