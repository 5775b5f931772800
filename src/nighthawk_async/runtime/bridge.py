"""From synchronous code into the one async implementation. Floor 3."""

import warnings
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

from anyio import NoEventLoopError, from_thread

from .environment import get_environment
from .portals import is_loop_thread, portal_depth

__all__ = ["run_from_sync"]

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


def run_from_sync(
    function: Callable[[*Arguments], Coroutine[Any, Any, Result]], *args: *Arguments, stacklevel: int
) -> Result:
    """Run an async function of the runtime from synchronous code and wait for it.

    In a worker thread of a running loop it enters that loop. Anywhere else it runs on a portal thread of the
    run; on the thread of a running loop that works as well, and warns once per run, because the loop stands
    still.

    Args:
        function: The async function.
        *args: Its arguments.
        stacklevel: The frame the warning points at, counted from this function's, which is 1.

    Raises:
        NighthawkError: No run is active, or it has ended.
    """
    run_state = get_environment().run_state
    if is_loop_thread():
        if portal_depth() == 0 and run_state.warn_once("blocked loop"):
            warnings.warn(
                "A synchronous natural function was called on the thread of a running event loop and blocks "
                "it; make it `async def`, or call it with anyio.to_thread.run_sync.",
                RuntimeWarning,
                stacklevel=stacklevel,
            )
    elif _is_worker_thread():
        return from_thread.run(function, *args)
    return run_state.portals.call(function, *args)


def _is_worker_thread() -> bool:
    try:
        from_thread.check_cancelled()
    except NoEventLoopError:
        return False
    return True
