"""Usage of the user's own agents, which reach models on their own: reported, and charged.

Their requests cannot be measured before they are sent: a task or a turn is refused when a budget has nothing
left, and what they report is charged afterwards, so that one turn can exceed a budget.
"""

import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from msgspec import Struct

from ..observation import NodeWriter
from ..runtime.environment import find_environment
from ..runtime.policy import Position
from ..types.content import UserContent
from ..types.usage import Usage
from .agent_protocol import AgentTask

__all__ = ["foreign_task", "plain_task"]


class _BudgetedTurns(Struct, frozen=True, eq=False):
    """Begins turns that are charged."""

    plain: Callable[[], Awaitable[tuple[UserContent, ...]]]
    begin: Callable[[], Awaitable[None]]

    async def __call__(self) -> tuple[UserContent, ...]:
        messages = await self.plain()
        await self.begin()
        return messages


class _ChargedUsage(Struct, frozen=True, eq=False):
    """Counts usage and charges it."""

    plain: Callable[[str, Usage], None]
    charge: Callable[[str, Usage], Usage]

    def __call__(self, model_name: str, usage: Usage) -> None:
        counted = usage
        try:
            counted = self.charge(model_name, usage)
        finally:
            self.plain(model_name, counted)


class _ToldUsage:
    """Counts usage and tells whoever watches the step. The requests have no nodes that would tell it."""

    def __init__(self, plain: Callable[[str, Usage], None], node: NodeWriter) -> None:
        self.plain = plain
        self._node = node
        self._usage = Usage()
        self._lock = threading.Lock()

    def __call__(self, model_name: str, usage: Usage) -> None:
        self.plain(model_name, usage)
        with self._lock:
            self._usage += usage.credible()
            self._node.set_usage(self._usage)


def foreign_task(task: AgentTask, node: NodeWriter | None) -> AgentTask:
    """The task as an agent of the user's own gets it.

    Args:
        task: The task.
        node: The node of the step; None when nobody watches it.

    Raises:
        BudgetExceededError: A budget allows no turn, or has nothing left; the agent may never ask.
        ConfigurationError: Under a budget of cost, an agent used a model that nobody knows the price of.
    """
    if node is not None:
        task = replace(task, report_usage=_ToldUsage(task.report_usage, node))
    return _budgeted_task(task)


def _budgeted_task(task: AgentTask) -> AgentTask:
    """The task, its turns and usage charged to the budgets in force; the same one without budgets."""
    environment = find_environment()
    if environment is None or not environment.policies.has(Position.BUDGETS):
        return task
    from ..policies.budgets.policy import active_accounts  # here, because few programs have a budget
    from ..policies.budgets.request import charge_foreign_usage
    from ..policies.budgets.steps import begin_foreign_turn, check_foreign_turn

    accounts = active_accounts()
    if not accounts:
        return task
    check_foreign_turn(accounts)
    return replace(
        task,
        turn_boundary=_BudgetedTurns(task.turn_boundary, partial(begin_foreign_turn, accounts)),
        report_usage=_ChargedUsage(task.report_usage, partial(charge_foreign_usage, accounts)),
    )


def plain_task(task: AgentTask) -> AgentTask:
    """The task as it was: an agent of the user's own handed it on to one whose requests are told and charged.

    Args:
        task: The task.
    """
    if isinstance(task.turn_boundary, _BudgetedTurns):
        task = replace(task, turn_boundary=task.turn_boundary.plain)
    while isinstance(task.report_usage, _ChargedUsage | _ToldUsage):
        task = replace(task, report_usage=task.report_usage.plain)
    return task
