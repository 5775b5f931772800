"""Tests that need one event loop take turns: half of a table runs on asyncio, the other half on Trio."""

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import pytest

__all__ = ["keep_one_backend"]

_ABOVE_THE_LOOP = (
    "tests/benchmarks/",
    "tests/docs/",
    "tests/examples/",
    "tests/faults/coding_agents/",
    "tests/faults/test_asgi_",
    "tests/faults/test_batch_kills.py",
    "tests/faults/test_journal_contention.py",
    "tests/faults/test_journal_kill",
    "tests/faults/test_journal_store_faults.py",
    "tests/faults/test_llama_cpp_protocols.py",
    "tests/faults/test_local_real_server.py",
    "tests/faults/test_long_step_kills.py",
    "tests/faults/test_mcp_",
    "tests/faults/placed/",
    "tests/faults/test_parking_kills.py",
    "tests/faults/test_worker_kills.py",
    "tests/unit/cli/",
    "tests/unit/distributed/",
    "tests/unit/evals/",
    "tests/unit/library/",
    "tests/unit/local/",
    "tests/unit/mcp/",
    "tests/unit/testing/test_pytest_",
)
"""Tests that start other programs, and of rooms above the kernel, whose event loop is tested below them."""
_ON_BOTH = ("tests/unit/distributed/test_counting.py", "tests/unit/distributed/test_placements.py")
"""Among those, what is the same on both event loops for every placement."""


def keep_one_backend(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep each case of a test marked `one_backend`, or of what stands above the event loops, on one backend.

    The profile `explore` keeps both.

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
    is_marked |= item.nodeid.startswith(_ABOVE_THE_LOOP) and not item.nodeid.startswith(_ON_BOTH)
    return is_marked or (most_take_turns and not item.nodeid.startswith("tests/faults/"))


def _is_left_out(item: pytest.Item) -> bool:
    parameters: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    if "anyio_backend" not in parameters:
        return False
    backend = parameters["anyio_backend"][0]
    name, _, case = item.nodeid.partition("[")
    turn = crc32(f"{name}[{case.replace(backend, '', 1)}".encode())
    return ("asyncio", "trio")[turn % 2] != backend
