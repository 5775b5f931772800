"""Contract suites: what models, executors, policies, placements and stores promise, as pytest tests.

Derive a class from one of them and say how to make the object; pytest finds its tests, and AnyIO's plugin
runs them on asyncio and on Trio. Only this package needs pytest.
"""

from ...lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
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
