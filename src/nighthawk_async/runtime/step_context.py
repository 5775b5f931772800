"""`StepContext`, importable here by specification 14.3; it is `kernel.context.StepContext`."""

from ..kernel.context import ChangedRoots, StepContext

__all__ = [
    "ChangedRoots",
    "StepContext",
]
