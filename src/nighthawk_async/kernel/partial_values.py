"""Delivery of the values of a step to listeners, while its model's answer streams.

A slow listener blocks nothing, and no queue builds up: it gets the latest values and skips those between.

`partial_values` iterates over the values of steps as they arrive.
"""

import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from ..actors import BareTaskGroup
from ..errors import NighthawkError
from ..parallel.event_loop import LoopEvent
from ..types.execution import RETURN_NAME, PartialSink, PartialValues
from .conclude import StepResult
from .environment import Environment, get_environment, using_environment
from .policy import Listener, notify_all
from .step import Step

Result = TypeVar("Result")


class PartialDelivery:
    """Delivers the values of one step; see `step.PartialListeners`.

    Listeners are called in a task of their own, one at a time.

    Args:
        environment: The environment of the step.
        step: The step.
        on_partial: The listener of the function; None for none.
    """

    __slots__ = (
        "_attempts",
        "_calls_at_present",
        "_environment",
        "_is_closed",
        "_latest",
        "_listeners",
        "_sinks",
        "_step",
        "_task_group",
        "_to_call_with",
    )

    def __init__(self, environment: Environment, step: Step, on_partial: Listener | None) -> None:
        listeners = environment.policies.listeners
        self._listeners = listeners if on_partial is None else (*listeners, on_partial)
        self._environment = environment
        self._step = step
        self._sinks: list[PartialSink] = [*environment.partial_sinks]
        self._attempts = 0
        self._latest: PartialValues | None = None
        self._task_group: TaskGroup | None = None
        self._to_call_with: PartialValues | None = None
        self._calls_at_present = False
        self._is_closed = False

    @property
    def are_wanted(self) -> bool:
        """Whether anyone is listening now."""
        node = self._step.actor.node
        return bool(self._sinks) or self._has_calls or (node is not None and node.is_watched)

    @property
    def _has_calls(self) -> bool:
        return any(listener.listens_to(PartialValues) for listener in self._listeners)

    def add_sink(self, sink: PartialSink) -> None:
        """Add a receiver, beginning with the latest values."""
        if self._latest is not None:
            sink.put(self._latest)
        if self._is_closed:
            sink.step_ended(self._step.execution.id)
        else:
            self._sinks.append(sink)

    def remove_sink(self, sink: PartialSink) -> None:
        """Remove a receiver."""
        if sink in self._sinks:
            self._sinks.remove(sink)

    def begin_attempt(self) -> int:
        """Begin another answer of the model; return its number."""
        self._attempts += 1
        return self._attempts

    def deliver(self, values: Mapping[str, object], attempt: int) -> None:
        """Deliver new values."""
        self._deliver(values, attempt, is_final=False)

    def end(self, result: StepResult) -> None:
        """Deliver the last values: the step is about to commit."""
        if not self.are_wanted:
            return
        values = dict(result.bindings)
        if result.kind == "return":
            values[RETURN_NAME] = result.return_value
        self._deliver(values, max(1, self._attempts), is_final=True)

    def close(self) -> None:
        """End delivery: the step has ended."""
        self._is_closed = True
        sinks, self._sinks = self._sinks, []
        for sink in sinks:
            sink.step_ended(self._step.execution.id)

    @asynccontextmanager
    async def notifying(self) -> AsyncGenerator[None, None]:
        """Call the listeners while the step is executed, up to `end`; leave after the last call.

        Raises:
            HookError: A listener failed. The execution is cancelled.
        """
        if not self._listeners:
            yield
            return
        async with BareTaskGroup() as self._task_group:
            yield

    def _deliver(self, values: Mapping[str, object], attempt: int, *, is_final: bool) -> None:
        partial = PartialValues(
            execution_ref=self._environment.execution_ref,
            values=MappingProxyType(dict(values)),
            attempt=attempt,
            is_final=is_final,
        )
        self._latest = partial
        for sink in tuple(self._sinks):
            sink.put(partial)
        node = self._step.actor.node
        if node is not None and node.is_watched and not is_final:  # the last ones are reported with its end
            node.set_outputs(partial.values)
        if self._task_group is not None and self._has_calls:
            self._to_call_with = partial
            if not self._calls_at_present:
                self._calls_at_present = True
                self._task_group.start_soon(self._call)

    async def _call(self) -> None:
        while (partial := self._to_call_with) is not None:
            self._to_call_with = None
            await notify_all(self._listeners, partial)
        self._calls_at_present = False


_MAX_STEPS = 1_000


class PartialValuesStream(AsyncIterator[PartialValues]):
    """Iterates over the values of steps as they arrive; made by `partial_values`.

    Enter it with `async with`, then iterate over it, one task at a time.
    A slow reader gets the latest values of each step, and skips those between. It always gets the last values
    of a step, unless those of 1,000 other steps are queued behind them.
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
            raise NighthawkError("A stream of partial values can be entered once; call partial_values again.")
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
            raise NighthawkError("Iterate over partial values inside `async with`.")
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
        """Accept the values of a step without waiting; see `PartialSink`."""
        with self._lock:
            self._waiting[partial.execution_ref.execution_id or ""] = partial
            if len(self._waiting) > _MAX_STEPS:
                self._waiting.popitem(last=False)
        self._wake()

    def step_ended(self, execution_id: str) -> None:
        """Accept that a step has ended and sends no more values; see `PartialSink`."""
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
