"""Contract suites: what models, executors, policies, placements and stores promise, as pytest tests.

Derive a class from one of them and say how to make the object; pytest finds its tests, and AnyIO's plugin
runs them on asyncio and on Trio. Only this package needs pytest.
"""

from typing import TYPE_CHECKING

from ...lazy_exports import attach_exports

if TYPE_CHECKING:
    from .journal_stores import JournalStoreContract
    from .models import ModelContract
    from .placements import PlacementContract
    from .policies import PolicyContract
    from .promises import Contract
    from .step_executors import StepExecutorContract
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "journal_stores": ("JournalStoreContract",),
            "models": ("ModelContract",),
            "placements": ("PlacementContract",),
            "policies": ("PolicyContract",),
            "promises": ("Contract",),
            "step_executors": ("StepExecutorContract",),
        },
    )

__all__ = [
    "Contract",
    "JournalStoreContract",
    "ModelContract",
    "PlacementContract",
    "PolicyContract",
    "StepExecutorContract",
]
