"""The tests of the specification run under the profile that keeps to it."""

import pytest


@pytest.fixture(autouse=True)
def _specification_profile(specification_profile: None) -> None:
    """The setting of all configurations."""
