"""The active handler that asks people, and its observer. Floor 3."""

from msgspec import Struct

from ...types.execution import ExecutionRef
from ..environment import Environment, find_environment
from ..hooks.calls import emit_finished_sync, emit_sync
from .events import HumanEvent, HumanObserver
from .handler import HumanHandler

__all__ = ["find_execution", "find_human_handler", "find_human_observer"]


def find_human_handler() -> HumanHandler | None:
    """The handler in force; None without one, and outside every run."""
    environment = find_environment()
    return None if environment is None else environment.policies.human


def find_human_observer() -> HumanObserver | None:
    """Return the observer; None for none."""
    environment = find_environment()
    if environment is None or not environment.policies.hooks:
        return None
    return _HooksInForce(environment)


def find_execution() -> ExecutionRef | None:
    """Return the run, scope and step that ask; None outside a run."""
    environment = find_environment()
    return None if environment is None else environment.execution_ref


class _HooksInForce(Struct, frozen=True):
    environment: Environment

    def tell(self, event: HumanEvent) -> None:
        emit_sync(self.environment, event)

    def tell_end(self, event: HumanEvent, error: BaseException | None) -> None:
        emit_finished_sync(self.environment, event, error)
