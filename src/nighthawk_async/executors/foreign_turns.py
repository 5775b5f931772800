"""Budgets for agents of the user's own, which reach models by their own ways. Floor 4.

Their requests cannot be measured before they are sent: a turn is refused when a budget has nothing left, and
what they report is charged afterwards, so that one turn can exceed a budget.
"""

from dataclasses import replace

from ..runtime.budget_request import charge_foreign_usage
from ..runtime.budget_steps import begin_foreign_turn
from ..runtime.environment import Environment
from ..types.content import UserContent
from ..types.usage import Usage
from .agent_protocol import AgentTask

__all__ = ["budgeted_task"]


def budgeted_task(task: AgentTask, environment: Environment) -> AgentTask:
    """The task, with turns and usage that are charged to the budgets in force; the same one without budgets.

    Args:
        task: The task.
        environment: The environment of the step.
    """
    accounts = environment.policies.budgets
    if not accounts:
        return task

    async def turn_boundary() -> tuple[UserContent, ...]:
        messages = await task.turn_boundary()
        await begin_foreign_turn(environment)
        return messages

    def report_usage(model_name: str, usage: Usage) -> None:
        task.report_usage(model_name, usage)
        charge_foreign_usage(accounts, model_name, usage)

    return replace(task, turn_boundary=turn_boundary, report_usage=report_usage)
