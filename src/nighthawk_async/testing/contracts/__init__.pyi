"""What `nighthawk_async.testing.contracts` exports. Each name is loaded when it is first used."""

from .journal_stores import JournalStoreContract
from .models import ModelContract
from .placements import PlacementContract
from .policies import PolicyContract
from .promises import Contract
from .step_executors import StepExecutorContract

__all__ = [
    "Contract",
    "JournalStoreContract",
    "ModelContract",
    "PlacementContract",
    "PolicyContract",
    "StepExecutorContract",
]
