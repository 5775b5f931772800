"""One cluster of Ray for all tests that need one."""

import os
import signal
import warnings
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.unit.journal.conftest import postgresql, postgresql_server

__all__ = ["postgresql", "postgresql_server"]

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # which would write a token into the home folder


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """The address of a cluster on this machine, with which the tests are connected."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed; the nox session `ray` has it")
    before = signal.getsignal(signal.SIGTERM)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray

        ray.init(address="local", include_dashboard=False, num_cpus=2, log_to_driver=False)
    signal.signal(signal.SIGTERM, before)
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()
