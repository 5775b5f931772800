"""Calls from synchronous code into the async implementation."""

import sys
import warnings
from collections.abc import Callable, Coroutine
from functools import partial
from types import FrameType
from typing import Any, TypeVar, TypeVarTuple, cast

from anyio import from_thread

from ..errors import NighthawkError
from ..natural.tree import CLOSURE_NAMES
from ..parallel import under_thread_deadlines
from ..parallel.event_loop import is_loop_thread, is_worker_thread
from ..parallel.task_current import on_foreign_loop
from .environment import get_environment
from .portals import portal_depth

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_PACKAGE = __name__.partition(".")[0]


def run_from_sync(function: Callable[[*Arguments], Coroutine[Any, Any, Result]], *args: *Arguments) -> Result:
    """Run an async function that executes steps, from synchronous code, and wait for it.

    In a worker thread of a running loop it enters that loop. Anywhere else it runs on a portal thread of the
    run. On the thread of a running loop that works too, and warns once per run, because it blocks the loop.

    Raises:
        NighthawkError: No run is active, or it has ended.
    """
    run_state = get_environment().run_state
    if is_loop_thread():
        if portal_depth() == 0 and run_state.warn_once("blocked loop"):
            warnings.warn(
                "A synchronous function was called on the thread of a running event loop and blocks it; make "
                "it `async def`, or call it with anyio.to_thread.run_sync.",
                RuntimeWarning,
                stacklevel=_stacklevel_of_call(),
            )
    elif is_worker_thread():
        return from_thread.run(_within_deadlines(function), *args)
    return run_state.portals.call(_within_deadlines(partial(_run_on_portal, function)), *args)


def _stacklevel_of_call() -> int:
    """Return the stack level, for a warning, of the call of the natural function or of `step_sync`."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    is_natural = frame is not None and CLOSURE_NAMES[0] in frame.f_code.co_freevars
    return level + 1 if is_natural else level


def _within_deadlines(
    function: Callable[[*Arguments], Coroutine[Any, Any, Result]],
) -> Callable[[*Arguments], Coroutine[Any, Any, Result]]:
    """Wrap the function in the time limits of the current thread."""
    return cast("Any", under_thread_deadlines(function))


async def _run_on_portal(
    function: Callable[[*Arguments], Coroutine[Any, Any, Result]], *args: *Arguments
) -> Result:
    with on_foreign_loop():
        return await function(*args)


def run_on_own_loop(
    function: Callable[[*Arguments], Coroutine[Any, Any, Result]], *args: *Arguments
) -> Result:
    """Run an async function on the loop of the current worker thread, and wait for it.

    Raises:
        NighthawkError: The current thread is not a worker thread of an event loop.
    """
    if is_loop_thread() or not is_worker_thread():
        raise NighthawkError(
            "A step in progress can be reached from a worker thread of its event loop only; "
            "on the loop itself, await the async method."
        )
    return from_thread.run(_within_deadlines(function), *args)
