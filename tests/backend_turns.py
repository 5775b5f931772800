"""Tests that need one event loop take turns: half of a table runs on asyncio, the other half on Trio."""

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import pytest

__all__ = ["keep_one_backend"]


def keep_one_backend(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep each case of a test marked `one_backend` on one backend; the profile `explore` keeps both.

    With `--one-backend` every test is kept on one, except tests of faults: many are about cancellation, which
    differs between the asyncio of one Python and that of another. The choice depends on the name of the case
    alone, so it is the same in every run.
    """
    if config.getoption("--hypothesis-profile", None) == "explore":
        return
    most_take_turns: bool = config.getoption("--one-backend")
    left_out = {item for item in items if _takes_turns(item, most_take_turns) and _is_left_out(item)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _takes_turns(item: pytest.Item, most_take_turns: bool) -> bool:
    is_marked = item.get_closest_marker("one_backend") is not None
    return is_marked or (most_take_turns and not item.nodeid.startswith("tests/faults/"))


def _is_left_out(item: pytest.Item) -> bool:
    parameters: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    if "anyio_backend" not in parameters:
        return False
    backend = parameters["anyio_backend"][0]
    name, _, case = item.nodeid.partition("[")
    turn = crc32(f"{name}[{case.replace(backend, '', 1)}".encode())
    return ("asyncio", "trio")[turn % 2] != backend
