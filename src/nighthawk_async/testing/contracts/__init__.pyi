"""What `nighthawk_async.testing.contracts` exports. Each name is loaded when it is first used."""

from .models import ModelContract
from .placements import PlacementContract
from .promises import Contract

__all__ = ["Contract", "ModelContract", "PlacementContract"]
