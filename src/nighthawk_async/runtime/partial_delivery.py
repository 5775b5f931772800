"""Delivery of the values of a step to listeners, while its model's answer streams.

Nobody holds the stream up, and nothing piles up: who is slow gets the latest values, and not those between.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from anyio.abc import TaskGroup

from ..actors import BareTaskGroup
from ..types.partial_values import RETURN_NAME, PartialSink, PartialValues
from .conclude import StepResult
from .environment import Environment
from .policies import tell_all
from .policy import Listener
from .step import Step

__all__ = ["PartialDelivery", "delivery_of"]

Result = TypeVar("Result")


class PartialDelivery:
    """Delivers the values of one step; see `step.PartialListeners`.

    Listeners are told in a task of their own, one at a time.

    Args:
        environment: What is in force in the step.
        step: The step.
        on_partial: Who is told for the function; None for nobody.
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
        """Whether anybody listens at present."""
        node = self._step.actor.node
        return bool(self._sinks) or self._has_calls or (node is not None and node.is_watched)

    @property
    def _has_calls(self) -> bool:
        return any(listener.listens_to(PartialValues) for listener in self._listeners)

    def add_sink(self, sink: PartialSink) -> None:
        """Deliver to somebody else too, beginning with the latest values."""
        if self._latest is not None:
            sink.put(self._latest)
        if self._is_closed:
            sink.step_ended(self._step.execution.id)
        else:
            self._sinks.append(sink)

    def remove_sink(self, sink: PartialSink) -> None:
        """Deliver to somebody no longer."""
        if sink in self._sinks:
            self._sinks.remove(sink)

    def begin_attempt(self) -> int:
        """Another answer of the model begins; gives its number."""
        self._attempts += 1
        return self._attempts

    def tell(self, values: Mapping[str, object], attempt: int) -> None:
        """There are more values."""
        self._deliver(values, attempt, is_final=False)

    def end(self, result: StepResult) -> None:
        """The step is about to commit; those are the last values."""
        if not self.are_wanted:
            return
        values = dict(result.bindings)
        if result.kind == "return":
            values[RETURN_NAME] = result.return_value
        self._deliver(values, max(1, self._attempts), is_final=True)

    def close(self) -> None:
        """The step has ended."""
        self._is_closed = True
        sinks, self._sinks = self._sinks, []
        for sink in sinks:
            sink.step_ended(self._step.execution.id)

    async def calling_while(self, carry_out: Callable[[], Awaitable[Result]]) -> Result:
        """Tell listeners while something is carried out; returns after the last call.

        Args:
            carry_out: Carries the step out, up to `end`.

        Raises:
            HookError: One of them failed. What is carried out is cancelled.
        """
        if not self._listeners:
            return await carry_out()
        async with BareTaskGroup() as self._task_group:
            return await carry_out()

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
        if node is not None and node.is_watched and not is_final:  # its end tells of the last ones
            node.set_outputs(partial.values)
        if self._task_group is not None and self._has_calls:
            self._to_call_with = partial
            if not self._calls_at_present:
                self._calls_at_present = True
                self._task_group.start_soon(self._call)

    async def _call(self) -> None:
        while (partial := self._to_call_with) is not None:
            self._to_call_with = None
            await tell_all(self._listeners, partial)
        self._calls_at_present = False


def delivery_of(environment: Environment, step: Step, on_partial: Listener | None) -> PartialDelivery | None:
    """The delivery of the values of a step; None when nobody can want them.

    Args:
        environment: What is active in the step.
        step: The step.
        on_partial: Who is told for the function; None for nobody.
    """
    is_wanted = on_partial is not None or step.actor.node is not None or environment.partial_sinks
    if not (is_wanted or environment.policies.listeners):
        return None
    return PartialDelivery(environment, step, on_partial)
