"""Lets tests that are marked `one_backend` take turns."""

from tests.backend_turns import pytest_collection_modifyitems

__all__ = ["pytest_collection_modifyitems"]
