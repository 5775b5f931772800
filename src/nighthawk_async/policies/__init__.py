"""Policies of the library, and the types of a program's own policies.

`nighthawk_async.run` and `scope` take them as arguments.
"""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
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
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "..kernel.commit": ("CommitProceed", "StepCommit"),
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
            "..kernel.function_calls": ("FunctionCall", "FunctionProceed"),
            "..kernel.policy": ("Policy",),
            "..kernel.step": ("Step",),
            "budgets.budget": ("Budget",),
            "budgets.terms": ("BudgetAmounts", "BudgetLimits"),
            "egress.egress": ("Egress",),
            "permissions.call": ("PermissionCall",),
            "permissions.permissions": ("Permissions",),
            "permissions.rules": ("PermissionRule",),
            "shared_objects.bound_objects": ("ConcurrentMutationWarning", "MutationReport"),
        },
    )

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
