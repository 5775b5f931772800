"""Tests that need one event loop take turns: half of a table runs on asyncio, the other half on Trio."""

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import pytest

__all__ = ["keep_one_backend"]


def keep_one_backend(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep each case of a test marked `one_backend` on one backend; the profile `explore` keeps both.

    With `--one-backend` that holds for every test but those of faults, many of which are about cancellation,
    in which each Python has its own asyncio. The choice goes by the case's name, so it is the same on every
    run, whatever else is run.
    """
    if config.getoption("--hypothesis-profile", None) == "explore":
        return
    takes_turns = _is_no_fault if config.getoption("--one-backend") else _is_marked
    left_out = {item for item in items if takes_turns(item) and _is_left_out(item)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _is_marked(item: pytest.Item) -> bool:
    return item.get_closest_marker("one_backend") is not None


def _is_no_fault(item: pytest.Item) -> bool:
    return _is_marked(item) or not item.nodeid.startswith("tests/faults/")


def _is_left_out(item: pytest.Item) -> bool:
    parameters: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    if "anyio_backend" not in parameters:
        return False
    backend = parameters["anyio_backend"][0]
    name, _, case = item.nodeid.partition("[")
    turn = crc32(f"{name}[{case.replace(backend, '', 1)}".encode())
    return ("asyncio", "trio")[turn % 2] != backend
