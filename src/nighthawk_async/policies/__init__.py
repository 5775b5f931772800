"""Policies of the library, and the types of a program's own policies.

`nighthawk_async.run` and `scope` take them as arguments.
"""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from ..kernel.commit import CommitProceed, StepCommit
    from ..kernel.conclude import StepResult
    from ..kernel.fold import (
        Events as Events,
        ModelCall,
        OpenRequest,
        StepEnd,
        StepProceed,
        ToolCallProceed,
        replayed,
    )
    from ..kernel.function_calls import FunctionCall, FunctionProceed
    from ..kernel.policy import Policy
    from ..kernel.step import Step
    from .budgets.budget import Budget
    from .budgets.ledger import WindowState as WindowState
    from .budgets.terms import BudgetAmounts as BudgetAmounts, BudgetLimits
    from .egress.egress import Egress as Egress
    from .partial_readers import partial_values
    from .permissions.call import PermissionCall
    from .permissions.permissions import Permissions as Permissions
    from .permissions.rules import PermissionRule as PermissionRule, rule
    from .shared_objects.bound_objects import ConcurrentMutationWarning, MutationReport as MutationReport
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "..kernel.commit": (
                "CommitProceed",
                "StepCommit",
            ),
            "..kernel.conclude": ("StepResult",),
            "..kernel.fold": (
                "Events",
                "ModelCall",
                "OpenRequest",
                "StepEnd",
                "StepProceed",
                "ToolCallProceed",
                "replayed",
            ),
            "..kernel.function_calls": (
                "FunctionCall",
                "FunctionProceed",
            ),
            "..kernel.policy": ("Policy",),
            "..kernel.step": ("Step",),
            "budgets.budget": ("Budget",),
            "budgets.ledger": ("WindowState",),
            "budgets.terms": (
                "BudgetAmounts",
                "BudgetLimits",
            ),
            "egress.egress": ("Egress",),
            "permissions.call": ("PermissionCall",),
            "permissions.permissions": ("Permissions",),
            "permissions.rules": (
                "PermissionRule",
                "rule",
            ),
            "shared_objects.bound_objects": (
                "ConcurrentMutationWarning",
                "MutationReport",
            ),
            "partial_readers": ("partial_values",),
        },
    )

__all__ = [
    "Budget",
    "BudgetLimits",
    "CommitProceed",
    "ConcurrentMutationWarning",
    "FunctionCall",
    "FunctionProceed",
    "ModelCall",
    "OpenRequest",
    "PermissionCall",
    "Policy",
    "Step",
    "StepCommit",
    "StepEnd",
    "StepProceed",
    "StepResult",
    "ToolCallProceed",
    "partial_values",
    "replayed",
    "rule",
]
