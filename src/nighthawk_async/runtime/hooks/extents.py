"""The events of entering and leaving a run or a scope. Floor 3."""

from types import TracebackType

from ..environment import Environment
from .calls import emit, emit_finished, emit_finished_sync, emit_sync, refuse_async_hooks
from .events import FinishedEvent, HookEvent, RunFinished, RunStarted, ScopeFinished, ScopeStarted

__all__ = ["ExtentEvents", "run_events", "scope_events"]


class ExtentEvents:
    """Tells hooks of the beginning and the end of an extent; enter it once the environment is in force.

    With `with` there is no way to await, so it refuses async hooks. The end is told whenever the beginning
    was, also when one of the hooks refused it.

    Args:
        environment: The environment of the extent.
        started: The event of the beginning.
        finished: The event of the end.
    """

    __slots__ = ("_environment", "_finished", "_started")

    def __init__(
        self, environment: Environment, started: type[HookEvent], finished: type[FinishedEvent]
    ) -> None:
        self._environment = environment
        self._started = started
        self._finished = finished

    def __enter__(self) -> None:
        if not self._environment.policies.hooks:
            return
        refuse_async_hooks(self._environment, self._started, self._finished)
        try:
            emit_sync(self._environment, self._beginning())
        except BaseException as error:
            emit_finished_sync(self._environment, self._end(error), error)
            raise

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._environment.policies.hooks:
            emit_finished_sync(self._environment, self._end(exc), exc)

    async def __aenter__(self) -> None:
        if not self._environment.policies.hooks:
            return
        try:
            await emit(self._environment, self._beginning())
        except BaseException as error:
            await emit_finished(self._environment, self._end(error))
            raise

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._environment.policies.hooks:
            await emit_finished(self._environment, self._end(exc))

    def _beginning(self) -> HookEvent:
        return self._started(execution_ref=self._environment.execution_ref)

    def _end(self, error: BaseException | None) -> FinishedEvent:
        usage = self._environment.usage_meter.usage
        return self._finished(execution_ref=self._environment.execution_ref, usage=usage, error=error)


def run_events(environment: Environment) -> ExtentEvents:
    """The events of a run."""
    return ExtentEvents(environment, RunStarted, RunFinished)


def scope_events(environment: Environment) -> ExtentEvents:
    """The events of a scope."""
    return ExtentEvents(environment, ScopeStarted, ScopeFinished)
