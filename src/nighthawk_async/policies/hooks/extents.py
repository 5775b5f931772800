"""The events of entering and leaving a run or a scope."""

from collections.abc import Sequence
from types import TracebackType

from ...runtime.environment import get_environment
from ...runtime.events import FinishedEvent, HookEvent
from .calls import emit, emit_finished, emit_finished_sync, emit_sync, refuse_async_hooks
from .registry import Hooks

__all__ = ["HookedExtent"]


class HookedExtent:
    """Tells hooks of the beginning and the end of an extent; enter it once the environment is in force.

    With `with` there is no way to await, so it refuses async hooks. The end is told whenever the beginning
    was, also when one of the hooks refused it.

    Args:
        hooks: The active hooks, at least one.
        started: The event of the beginning.
        finished: The event of the end.
    """

    __slots__ = ("_finished", "_hooks", "_started")

    def __init__(
        self, hooks: Sequence[Hooks], started: type[HookEvent], finished: type[FinishedEvent]
    ) -> None:
        self._hooks = hooks
        self._started = started
        self._finished = finished

    def __enter__(self) -> None:
        refuse_async_hooks(self._hooks, self._started, self._finished)
        try:
            emit_sync(self._hooks, self._beginning())
        except BaseException as error:
            emit_finished_sync(self._hooks, self._end(error), error)
            raise

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        emit_finished_sync(self._hooks, self._end(exc), exc)

    async def __aenter__(self) -> None:
        try:
            await emit(self._hooks, self._beginning())
        except BaseException as error:
            await emit_finished(self._hooks, self._end(error))
            raise

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await emit_finished(self._hooks, self._end(exc))

    def _beginning(self) -> HookEvent:
        return self._started(execution_ref=get_environment().execution_ref)

    def _end(self, error: BaseException | None) -> FinishedEvent:
        environment = get_environment()
        usage = environment.usage_meter.usage
        return self._finished(execution_ref=environment.execution_ref, usage=usage, error=error)
