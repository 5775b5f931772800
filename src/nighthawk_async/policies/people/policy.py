"""The active handler that asks people, as a policy, and its observer."""

from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct

from ...kernel.environment import find_environment
from ...kernel.policy import InnerScope, Policies, Policy, Position
from ...types.execution import ExecutionRef
from .events import HumanEvent, HumanObserver
from .request import HumanHandler, checked_human_handler


@dataclass(frozen=True, slots=True, eq=False)
class PeoplePolicy(Policy):
    """Holds the handler that asks people.

    Args:
        handler: The handler.
    """

    handler: HumanHandler

    position: ClassVar[Position] = Position.PEOPLE


def with_human(policies: Policies, human: HumanHandler | None, inner: InnerScope) -> Policies:
    """Add the `human` argument of `run` and `scope` to the policies.

    Args:
        policies: The policies before.
        human: The handler that asks people; None for none.
        inner: The run or scope.

    Raises:
        NighthawkError: The argument is not a handler.
    """
    handler = checked_human_handler(human)
    return policies.without(PeoplePolicy) if handler is None else policies.with_policy(PeoplePolicy(handler))


def find_human_handler() -> HumanHandler | None:
    """Return the active handler; None without one, and outside every run."""
    environment = find_environment()
    policy = None if environment is None else environment.policies.find(PeoplePolicy)
    return None if policy is None else policy.handler


def find_human_observer() -> HumanObserver | None:
    """Return the observer; None for none."""
    environment = find_environment()
    if environment is None or not environment.policies.observers:
        return None
    return _ActivePolicies(environment.policies)


def find_execution() -> ExecutionRef | None:
    """Return the run, scope and step that ask; None outside a run."""
    environment = find_environment()
    return None if environment is None else environment.execution_ref


class _ActivePolicies(Struct, frozen=True):
    policies: Policies

    def observe(self, event: HumanEvent) -> None:
        self.policies.report_at_once(event)

    def observe_end(self, event: HumanEvent, error: BaseException | None) -> None:
        self.policies.report_end(event, error)
