"""Exports of `nighthawk_async.policies`. Each name is loaded on first use."""

from ..kernel.policy import ModelCall, Policy, StepCommit
from .budgets.budget import Budget
from .budgets.terms import BudgetAmounts, BudgetLimits
from .permissions.call import PermissionCall
from .permissions.permissions import Permissions
from .permissions.rules import PermissionRule
from .shared_objects.bound_objects import ConcurrentMutationWarning, MutationReport

__all__ = [
    "Budget",
    "BudgetAmounts",
    "BudgetLimits",
    "ConcurrentMutationWarning",
    "ModelCall",
    "MutationReport",
    "PermissionCall",
    "PermissionRule",
    "Permissions",
    "Policy",
    "StepCommit",
]
