"""Policies of the library, and the types of a program's own policies. Floor 4.

`nighthawk_async.run` and `scope` take them as arguments.
"""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
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
