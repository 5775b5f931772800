"""`Here`: this event loop as a placement."""

from collections.abc import Callable
from contextlib import nullcontext
from contextvars import Context, copy_context
from functools import partial
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from ..placements import PlacedCall, PlacedJob
from .calling import call_any, checked_max_concurrent
from .errors import CallCancelledError, PlacementClosedError
from .task_current import change_place, enter_positions, share_positions
from .task_node import Positions


class Here:
    """This event loop as a placement: each call is a task of the block.

        async with parallel.Here(max_concurrent=8) as here:
            results = await parallel.map(classify, texts, on=here)

    The context variables of the caller flow into a call. Leaving the block waits for the calls in progress,
    or cancels them if an exception leaves it. Once left, it may be entered again.

    Args:
        max_concurrent: The number of calls that run at once; further ones wait. None for any number.

    Raises:
        InvalidLimitError: The limit is invalid.
    """

    def __init__(self, max_concurrent: int | None = None) -> None:
        self._capacity = checked_max_concurrent(max_concurrent)
        self._room: anyio.CapacityLimiter | None = None
        self._jobs: set[HereJob] = set()
        self._scopes: set[anyio.CancelScope] = set()  # of calls that are made in the tasks of their callers
        self._last_ended: anyio.Event | None = None
        self._group: TaskGroup | None = None
        self._is_closed = False

    @property
    def capacity(self) -> int | None:
        """The number of calls that run at once; None for any number."""
        return self._capacity

    async def start(self, call: PlacedCall) -> PlacedJob:
        """Start a call as a task of the block; see `Placement.start`.

        Raises:
            PlacementClosedError: The block is not entered, or was left.
        """
        group = self._entered()
        job = HereJob(call, copy_context())
        self._jobs.add(job)
        job.context.run(group.start_soon, self._run, job)
        return job

    async def call_item(self, function: Callable[..., Any], item: object) -> Any:
        """Make the call of an item in the task and the context of the caller; see `placements.call_item`.

        Args:
            function: The function, async or not.
            item: The item.

        Raises:
            PlacementClosedError: The block is not entered, or was left.
            CallCancelledError: The block was closed.
            Exception: Any exception raised by the function.
        """
        self._entered()
        change_place(is_placed=True)
        scope = anyio.CancelScope()
        self._scopes.add(scope)
        try:
            with scope:
                async with nullcontext() if self._room is None else self._room:
                    return await call_any(function, item)
        finally:
            self._scopes.discard(scope)
            if self._last_ended is not None and not self._scopes:
                self._last_ended.set()
        raise CallCancelledError("the call was cancelled")

    def _entered(self) -> TaskGroup:
        if self._group is None or self._is_closed:
            raise PlacementClosedError(
                f"{type(self).__name__} is not entered, or was left: put `async with` around the calls"
            )
        return self._group

    async def close(self) -> None:
        """Start no more calls, and cancel those in progress."""
        self._is_closed = True
        for job in self._jobs:
            job.cancel()
        for scope in self._scopes:
            scope.cancel()

    async def __aenter__(self) -> Self:
        if self._group is not None:
            raise PlacementClosedError(f"{type(self).__name__} is entered already; leave it before")
        self._is_closed = False
        self._room = None if self._capacity is None else anyio.CapacityLimiter(self._capacity)
        self._group = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._group is not None
        if exc is not None:
            await self.close()
        try:
            # Not with the error of the block: that propagates as it is, and not in a group.
            await self._group.__aexit__(None, None, None)
            await self._wait_for_callers()
        except BaseException:
            await self.close()
            with anyio.CancelScope(shield=True):
                await self._wait_for_callers()
            raise
        finally:
            self._group, self._is_closed = None, True

    async def _wait_for_callers(self) -> None:
        """Wait for the calls that are made in the tasks of their callers."""
        while self._scopes:
            self._last_ended = anyio.Event()
            await self._last_ended.wait()
        self._last_ended = None

    async def _run(self, job: "HereJob") -> None:
        try:
            if self._room is None:
                await job.run()
            else:
                async with self._room:
                    await job.run()
        finally:
            self._jobs.discard(job)
            job.end()


class HereJob:
    """One call on this event loop; a `PlacedJob`.

    Args:
        call: The call.
        context: The context variables of the caller.
    """

    def __init__(self, call: PlacedCall, context: Context) -> None:
        self.context = context
        self._call = call
        self._scope = anyio.CancelScope(deadline=anyio.current_effective_deadline())
        self._ended = anyio.Event()
        self._result: Any = None
        self._error: BaseException | None = None
        self._is_cancelled = True

    def cancel(self) -> None:
        """Ask it to end."""
        self._scope.cancel()

    async def wait(self) -> Any:
        """Wait until it has ended, and return its result; see `PlacedJob.wait`."""
        await self._ended.wait()
        if self._error is not None:
            raise self._error
        if self._is_cancelled:
            await checkpoint_if_cancelled()  # the deadline of the caller is that of the call
            raise CallCancelledError("the call was cancelled")
        return self._result

    async def wait_ended(self) -> None:
        """Wait until it has ended, in whatever way."""
        await self._ended.wait()

    async def run(self, place: str | None = None) -> None:
        """Make the call.

        Args:
            place: Its place; None for one in that of the caller.
        """
        call = self._call
        change_place(is_placed=True)
        if place is not None:
            enter_positions(Positions(place))
        elif call.owns_place:
            share_positions()
        with self._scope:
            try:
                self._result = await call_any(_bound(call), *call.args)
            except Exception as error:
                self._error = error
            self._is_cancelled = False

    def end(self) -> None:
        """Note its end."""
        self._ended.set()


def _bound(call: PlacedCall) -> Callable[..., Any]:
    return partial(call.function, **call.keywords) if call.keywords else call.function
