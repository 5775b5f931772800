"""Natural functions whose calls run on a placement."""

import inspect
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, cast

from anyio import from_thread

from ..errors import NighthawkError
from ..parallel import under_thread_deadlines
from ..parallel.event_loop import is_loop_thread, is_worker_thread
from ..placements import Placement, call_placed, is_in_placed_call, note_placed_function


def placed_function(function: FunctionType, placement: Placement) -> FunctionType:
    """Return a function whose calls run on a placement; inside a placed call, it runs where it is.

    Args:
        function: The function, async or not.
        placement: The placement.

    Raises:
        NighthawkError: It is a generator, whose values would have to cross one by one.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise NighthawkError(
            f"{function.__qualname__}() is a generator, which cannot have on=: its caller runs between its "
            "values. Return a list, or make the calls in it natural functions with on=."
        )
    make = _placed if inspect.iscoroutinefunction(function) else _placed_from_thread
    placed = cast("FunctionType", make(function, placement))
    note_placed_function(placed)
    return placed


def _placed(function: Callable[..., Any], placement: Placement) -> Callable[..., Any]:
    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        if is_in_placed_call():
            return await function(*args, **kwargs)
        return await call_placed(placement, call, *args, **kwargs)

    return call


def _placed_from_thread(function: Callable[..., Any], placement: Placement) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_in_placed_call():
            return function(*args, **kwargs)
        if is_loop_thread() or not is_worker_thread():
            raise NighthawkError(
                f"{function.__qualname__}() has on= and is not `async def`: call it in a worker thread of "
                "the placement's event loop, with anyio.to_thread.run_sync or parallel.map, or make it "
                "`async def`."
            )

        async def call_in_loop() -> Any:
            return await call_placed(placement, call, *args, **kwargs)

        return from_thread.run(cast("Any", under_thread_deadlines(call_in_loop)))

    return call
