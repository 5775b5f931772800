"""The policies of a run, of what `run` was told. Floor 3. Loaded where it was told of one; see `policies`."""

from collections.abc import Sequence

from .attempts.resilience import StepBaseline, resilience_in_force
from .budgets.budget import Budget, with_budget_arguments, with_outer_budgets
from .environment import find_environment
from .hooks.registry import Hooks, combined_hooks
from .human.handler import HumanHandler, checked_human_handler
from .oversight.verification import Verify, checked_verifications
from .permissions.permissions import Permissions, added_permissions
from .policies import Policies
from .step_executor import StepExecutor

__all__ = [
    "Budget",
    "Hooks",
    "HumanHandler",
    "Permissions",
    "StepBaseline",
    "Verify",
    "policies_of_run",
]


def policies_of_run(
    step_executor: StepExecutor,
    *,
    hooks: Hooks | Sequence[Hooks],
    verify: Verify,
    human: HumanHandler | None,
    permissions: Permissions | None,
    budget: Budget | None,
    step_budget: Budget | None,
    resilience: StepBaseline | None,
) -> Policies:
    """The policies, with what must hold in every run inside another.

    The arguments are those of `run`.

    Raises:
        NighthawkError: One of them has a bad value.
        ConfigurationError: A model to fall back to cannot be had.
    """
    outer = find_environment()
    policies = Policies(
        hooks=combined_hooks((), hooks),
        verifications=checked_verifications(verify),
        human=checked_human_handler(human),
        permissions=added_permissions(() if outer is None else outer.policies.permissions, permissions),
        resilience=resilience_in_force(None, resilience, step_executor),
    )
    return with_budget_arguments(with_outer_budgets(policies), budget=budget, step_budget=step_budget)
