"""Worker processes keep the promises of placements."""

import pytest

from nighthawk_async.distributed import Processes
from nighthawk_async.parallel import Placement
from nighthawk_async.testing.contracts import PlacementContract


@pytest.mark.usefixtures("warm_python")
class TestProcesses(PlacementContract):
    is_elsewhere = True
    cancellations = 8

    def make_placement(self) -> Placement:
        return Processes(1, max_concurrent_per_worker=3, max_placements=1)
