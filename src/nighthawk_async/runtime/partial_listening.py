"""`partial_values`: the values of steps as they come, to iterate over."""

import threading
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType

import anyio
from anyio.lowlevel import checkpoint

from ..errors import NighthawkError
from ..types.partial_values import PartialValues
from .environment import Environment, get_environment, using_environment
from .loop_event import LoopEvent
from .partial_delivery import PartialDelivery

__all__ = ["PartialValuesStream", "partial_values"]

_MAX_STEPS = 1_000


class PartialValuesStream(AsyncIterator[PartialValues]):
    """Gives the values of steps as they come; `partial_values` makes it.

    `async with` it, then iterate over it, one task at a time.
    A slow reader gets the latest values of each step, and not those between. The last values of a step come
    in any case, unless those of 1,000 other steps wait behind them.
    """

    __slots__ = ("_armed", "_environment", "_guard", "_is_entered", "_is_over", "_lock", "_stack", "_waiting")

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._stack = ExitStack()
        self._is_entered = False
        self._is_over = False
        self._waiting: OrderedDict[str, PartialValues] = OrderedDict()
        self._armed: LoopEvent | None = None
        self._lock = threading.Lock()  # steps of synchronous functions run on other loops
        self._guard = anyio.ResourceGuard("waiting for values")

    async def __aenter__(self) -> "PartialValuesStream":
        if self._is_entered:
            raise NighthawkError("The values of steps are listened to once; call partial_values again.")
        self._is_entered = True
        if self._environment.step is None:
            self._listen_below()
        else:
            self._listen_to_step(self._environment)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
        self._is_over = True
        self._wake()

    def __aiter__(self) -> "PartialValuesStream":
        return self

    async def __anext__(self) -> PartialValues:
        if not self._is_entered:
            raise NighthawkError("The values of steps are listened to inside `async with`.")
        with self._guard:
            await checkpoint()
            while True:
                with self._lock:
                    if self._waiting:
                        return self._waiting.popitem(last=False)[1]
                    if self._is_over:
                        raise StopAsyncIteration
                    event = self._armed = LoopEvent()
                await event.wait()

    def put(self, partial: PartialValues) -> None:
        """Take the values of a step, without waiting; see `partial_delivery.PartialSink`."""
        with self._lock:
            self._waiting[partial.execution_ref.execution_id or ""] = partial
            if len(self._waiting) > _MAX_STEPS:
                self._waiting.popitem(last=False)
        self._wake()

    def step_ended(self, execution_id: str) -> None:
        """Nothing comes of that step any more; see `partial_delivery.PartialSink`."""
        if self._environment.step is not None:
            self._is_over = True
            self._wake()

    def _wake(self) -> None:
        with self._lock:
            event, self._armed = self._armed, None
        if event is not None:
            event.set()

    def _listen_below(self) -> None:
        environment = get_environment()
        sinks = (*environment.partial_sinks, self)
        self._stack.enter_context(using_environment(replace(environment, partial_sinks=sinks)))

    def _listen_to_step(self, environment: Environment) -> None:
        step = environment.step
        assert step is not None
        delivery = step.partial_listeners
        if delivery is None:
            delivery = step.partial_listeners = PartialDelivery(environment, step, None)
        assert isinstance(delivery, PartialDelivery)
        delivery.add_sink(self)
        self._stack.callback(delivery.remove_sink, self)


def partial_values() -> PartialValuesStream:
    """The values of steps while their models' answers stream: an `async with` object to iterate over.

        async with anyio.create_task_group() as tasks, nh.partial_values() as partials:
            tasks.start_soon(show, partials)
            await summarize(text)

    In a hook, in a tool or in a function that a block calls: the values of the step in progress; iterating
    ends with the step. The step waits for its hooks, so a hook hands the object to a task. Elsewhere in a
    run: the values of all steps that begin in the `async with` statement, in the tasks that it starts too;
    iterating ends when the statement has been left and the last values were given.

    Raises:
        NighthawkError: No run is active.
    """
    return PartialValuesStream(get_environment())
