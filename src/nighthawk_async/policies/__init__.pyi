"""Exports of `nighthawk_async.policies`. Each name is loaded on first use."""

from ..kernel.commit import CommitProceed, StepCommit
from ..kernel.conclude import StepResult
from ..kernel.fold import Events, ModelCall, OpenRequest, StepEnd, StepProceed, ToolCallProceed, replayed
from ..kernel.function_calls import FunctionCall, FunctionProceed
from ..kernel.policy import Policy
from ..kernel.step import Step
from .budgets.budget import Budget
from .budgets.terms import BudgetAmounts, BudgetLimits
from .egress.egress import Egress
from .permissions.call import PermissionCall
from .permissions.permissions import Permissions
from .permissions.rules import PermissionRule
from .shared_objects.bound_objects import ConcurrentMutationWarning, MutationReport

__all__ = [
    "Budget",
    "BudgetAmounts",
    "BudgetLimits",
    "CommitProceed",
    "ConcurrentMutationWarning",
    "Egress",
    "Events",
    "FunctionCall",
    "FunctionProceed",
    "ModelCall",
    "MutationReport",
    "OpenRequest",
    "PermissionCall",
    "PermissionRule",
    "Permissions",
    "Policy",
    "Step",
    "StepCommit",
    "StepEnd",
    "StepProceed",
    "StepResult",
    "ToolCallProceed",
    "replayed",
]
