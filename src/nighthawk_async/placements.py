"""Placements: where calls run. This event loop, worker processes, a cluster.

`call_placed` makes one call on a placement as if it were awaited directly: its result is returned, its error
raised, and a cancellation of the caller is passed on. Combinators, pools and blocks of tasks do so where they
are given `on=`. This module knows no placement: `parallel` has the event loop, `distributed` the others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Protocol, runtime_checkable
from weakref import WeakSet

import anyio


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedCall:
    """A call that is to run on a placement.

    Args:
        function: The function, async or not.
        args: Its positional arguments.
        keywords: Its keyword arguments.
        owns_place: Whether it is all that happens at the place of the caller, as in an item of a combinator.
            In a run with a journal, other calls have places of their own in that of the caller.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict[str, Any])
    owns_place: bool = False


class PlacedJob(Protocol):
    """Handle of a call that was started on a placement. It belongs to the event loop of the placement."""

    def cancel(self) -> None:
        """Ask it to end. A placement ends a call that does not end by itself within its grace."""
        ...

    async def wait(self) -> Any:
        """Wait until it has ended, and return its result. A cancelled wait does not cancel the call.

        Raises:
            CallCancelledError: It was cancelled.
            PlacementError: The placement could not carry it out.
            BaseException: Any exception that it raised.
        """
        ...

    async def wait_ended(self) -> None:
        """Wait until it has ended, in whatever way."""
        ...


@runtime_checkable
class Placement(Protocol):
    """A place for calls to run, as `on=` takes it.

    Enter it with `async with`. Leaving the block waits for the calls in progress, or cancels them if an
    exception leaves it.
    """

    @property
    def capacity(self) -> int | None:
        """The number of calls that it can run at once; None for any number."""
        ...

    async def start(self, call: PlacedCall) -> PlacedJob:
        """Start a call, in the scope of the caller: its run, limits, deadline and task values.

        Args:
            call: The call.

        Raises:
            PlacementClosedError: The placement is not entered, or was left.
            PlacementError: The call cannot be carried out there. Nothing was started.
        """
        ...

    async def close(self) -> None:
        """Start no more calls, and cancel those in progress. Closing again has no effect."""
        ...


async def call_placed(placement: Placement, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Make a call on a placement, and wait for it as if it were awaited directly.

    Args:
        placement: The placement.
        function: The function, async or not.
        args: Its positional arguments.
        keywords: Its keyword arguments.

    Raises:
        PlacementError: The placement could not carry it out.
        Exception: Any exception raised by the function.
    """
    return await _make(placement, PlacedCall(function=function, args=args, keywords=keywords))


async def call_item(placement: Placement, function: Callable[..., Any], *args: Any) -> Any:
    """Make the call of an item or a task on a placement, which is all that happens at the caller's place.

    Args:
        placement: The placement.
        function: The function, async or not.
        args: Its arguments.

    Raises:
        PlacementError: The placement could not carry it out.
        Exception: Any exception raised by the function.
    """
    return await _make(placement, PlacedCall(function=function, args=args, owns_place=True))


async def _make(placement: Placement, call: PlacedCall) -> Any:
    job = await placement.start(call)
    try:
        return await job.wait()
    except anyio.get_cancelled_exc_class():
        job.cancel()
        with anyio.CancelScope(shield=True):
            await job.wait_ended()
        raise


_placed_functions: WeakSet[Callable[..., Any]] = WeakSet()


def note_placed_function(function: Callable[..., Any]) -> None:
    """Note a function whose calls run on a placement; workers find it below other decorators, too."""
    _placed_functions.add(function)


def find_placed_function(decorated: object) -> Callable[..., Any] | None:
    """Return the function whose calls run on a placement, in what decorators have made of it; None for none.

    Args:
        decorated: The function, or a wrapper with `__wrapped__`, or an object with `function`.
    """
    seen = set[int]()
    while decorated is not None and id(decorated) not in seen:
        seen.add(id(decorated))
        if isinstance(decorated, FunctionType) and decorated in _placed_functions:
            return decorated
        attributes: dict[str, object] = getattr(decorated, "__dict__", {})
        decorated = attributes.get("__wrapped__") or attributes.get("function")
    return None


def checked_placement(placement: object) -> Placement | None:
    """Check the argument `on`, and return it.

    Raises:
        TypeError: It is neither a placement nor None.
    """
    if placement is None or (isinstance(placement, Placement) and not isinstance(placement, type)):
        return placement
    raise TypeError(f"on= is a placement, such as nighthawk_async.distributed.Processes, not {placement!r}")
