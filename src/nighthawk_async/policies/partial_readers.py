"""`partial_values`: the values of steps while their models' answers stream, to iterate over.

A slow reader blocks nothing, and no queue builds up: it gets the latest values and skips those between.
"""

import threading
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import ClassVar, Protocol, runtime_checkable

import anyio
from anyio.lowlevel import checkpoint

from ..errors import NighthawkError
from ..kernel.environment import Environment, get_environment, using_environment
from ..kernel.policy import Policies, Policy, Position
from ..kernel.step import Step
from ..parallel.event_loop import LoopEvent
from ..types.execution import PartialSink, PartialValues


@runtime_checkable
class ChoosingSink(Protocol):
    """A reader that is not for every step."""

    def wants(self, step: Step) -> bool:
        """Whether it gets the values of a step that begins."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ReaderPolicy(Policy):
    """Gives the values of steps to those who read them outside of the steps.

    Args:
        sinks: The readers, those of enclosing scopes first.
    """

    sinks: tuple[PartialSink, ...]

    position: ClassVar[Position] = Position.READERS

    def prepare(self, step: Step) -> None:
        """Have the readers get the values of the step; those that choose are asked."""
        for sink in self.sinks:
            if not isinstance(sink, ChoosingSink) or sink.wants(step):
                step.listen(sink)


def readers_of(policies: Policies) -> tuple[PartialSink, ...]:
    """Return those who read the values of steps with these policies."""
    policy = policies.find(ReaderPolicy)
    return () if policy is None else policy.sinks


def with_readers(environment: Environment, sinks: tuple[PartialSink, ...]) -> Environment:
    """Return an environment in which these, and no others, read the values of steps."""
    return replace(environment, policies=environment.policies.with_policy(ReaderPolicy(sinks)))


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

    @property
    def is_listening(self) -> bool:
        """Whether it wants values: always; see `PartialSink`."""
        return True

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
        sinks = (*readers_of(environment.policies), self)
        self._stack.enter_context(using_environment(with_readers(environment, sinks)))

    def _listen_to_step(self, environment: Environment) -> None:
        step = environment.step
        assert step is not None
        listeners = step.listen(self)
        self._stack.callback(listeners.remove, self)


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
