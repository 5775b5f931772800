"""Tests that need one event loop take turns: half of a table runs on asyncio, the other half on Trio."""

from collections import defaultdict
from typing import Any
from zlib import crc32

import pytest

__all__ = ["pytest_collection_modifyitems"]

_IS_DONE = pytest.StashKey[bool]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test marked `one_backend`, keep each case on one backend; the profile `explore` keeps both.

    Folders import this into their `conftest.py`. Neighbours in a table differ in their backends, in each of
    its dimensions, and the choice is the same on every run.
    """
    if config.getoption("--hypothesis-profile", None) == "explore":
        return
    if config.stash.get(_IS_DONE, False):  # another folder has imported it too
        return
    config.stash[_IS_DONE] = True
    numbers: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    marked = [item for item in items if item.get_closest_marker("one_backend")]
    left_out = [item for item in marked if _is_left_out(item, numbers)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _is_left_out(item: pytest.Item, numbers: dict[tuple[str, str], dict[int, int]]) -> bool:
    """Whether a case is another backend's turn; values of a parameter are numbered as they come."""
    parameters: dict[str, Any] = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    backend = parameters.pop("anyio_backend", None)
    if backend is None:
        return False
    test = item.nodeid.partition("[")[0]
    turn = crc32(test.encode())
    for name, value in parameters.items():
        seen = numbers[test, name]
        turn += seen.setdefault(id(value), len(seen))
    return ("asyncio", "trio")[turn % 2] != backend[0]
