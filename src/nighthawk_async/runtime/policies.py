"""The policies for the steps of a scope, in one frozen value. Floor 3.

Each policy's own module holds its type and its decisions; here stands only what is in force. A run begins
with what must hold in every run inside; a scope changes what it is told to.

A policy is loaded where one of its kind is in force, and not before: together they are a quarter of the
library's own modules that a first step would load. So whoever asks a policy imports it there and then, once
it is known that there is one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .budgets.account import BudgetAccount, Payer

if TYPE_CHECKING:
    from ..types.partial_values import PartialSink
    from .attempts.resilience import StepResilience
    from .budgets.terms import BudgetTerms
    from .hooks.registry import Hooks
    from .human.handler import HumanHandler
    from .oversight.inspection import Oversight
    from .oversight.verification import Verification
    from .permissions.permissions import Permissions

__all__ = ["NO_POLICIES", "Policies"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Policies:
    """The policies in force.

    Args:
        oversight: What inspects tool calls and commits; None for nothing.
        hooks: What is called for events, those of outer scopes first.
        outer_hooks: The hooks of the runs around this one, which are told of their budgets.
        human: What asks people; None for nobody.
        permissions: What calls are permitted; all of them hold.
        budgets: The accounts that everything is charged to, outermost first.
        step_budgets: What each step may spend, by an account of its own.
        payers: The steps in progress that are charged to budgets, outermost first.
        verifications: The checks that say whether a step is done, those of outer scopes first.
        resilience: What gives each step another chance; None for nothing.
        partial_sinks: The receivers of values while answers stream.
        is_verifying: Whether the steps belong to such a check, so that they are not checked themselves.
    """

    oversight: Oversight | None = None
    hooks: tuple[Hooks, ...] = ()
    outer_hooks: tuple[Hooks, ...] = ()
    human: HumanHandler | None = None
    permissions: tuple[Permissions, ...] = ()
    budgets: tuple[BudgetAccount, ...] = ()
    step_budgets: tuple[BudgetTerms, ...] = ()
    payers: tuple[Payer, ...] = ()
    verifications: tuple[Verification, ...] = ()
    resilience: StepResilience | None = None
    partial_sinks: tuple[PartialSink, ...] = ()
    is_verifying: bool = False

    @property
    def govern_tool_calls(self) -> bool:
        """Whether any of them looks at tool calls."""
        return bool(self.hooks or self.permissions or self.budgets) or self.oversight is not None

    def with_budgets(self, *accounts: BudgetAccount) -> Policies:
        """The same with further budgets, those that are in force already left out."""
        new = tuple(account for account in accounts if account not in self.budgets)
        return replace(self, budgets=(*self.budgets, *new)) if new else self

    def of_step(self) -> Policies:
        """The same for one step, which has accounts of its own."""
        within = self.with_budgets(*map(BudgetAccount, self.step_budgets)) if self.step_budgets else self
        return replace(within, payers=(*within.payers, Payer())) if within.budgets else within


NO_POLICIES = Policies()
