"""What the tests of the source have in common: they keep the syntax tree of every file."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _trees_are_no_garbage() -> Iterator[None]:
    """Trees of a whole library are millions of objects, which no collection looks at: not now, nor later."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()
