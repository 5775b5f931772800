"""Most tests take turns: half of them run on asyncio, the other half on Trio.

What depends on the event loop runs on both, and so does everything on another Python by the other turn.
"""

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import pytest

__all__ = ["keep_turns"]

_ON_BOTH = (
    "tests/faults/test_batch_cancellation.py",
    "tests/faults/test_cancellation.py",
    "tests/faults/test_hook_cancellation.py",
    "tests/faults/test_http_cancel_everywhere.py",
    "tests/faults/test_http_cancellation.py",
    "tests/faults/test_http_connections.py",
    "tests/faults/test_resource_cancellation.py",
    "tests/faults/test_schedules.py",
    "tests/faults/test_single_connection.py",
    "tests/faults/test_threads_and_cancellation.py",
    "tests/faults/test_user_code.py",
    "tests/specification/test_8_3_concurrency.py",
    "tests/specification/test_8_5_async_execution.py",
    "tests/specification/test_gather_safety.py",
    "tests/unit/actors/",
    "tests/unit/distributed/test_placements.py",
    "tests/unit/parallel/",
    "tests/unit/runtime/",
)
"""Tests of tasks, cancellation, threads and connections: the event loops differ there."""


def keep_turns(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep each case on one event loop, unless it is about event loops. The profile `explore` keeps both.

    With `--other-turn` cases run on the other one, and of those about event loops only faults run on both:
    cancellation differs between the asyncio of one Python and that of another. The choice depends on the name
    of the case alone, so it is the same in every run.
    """
    if config.getoption("--hypothesis-profile", None) == "explore":
        return
    turn = int(config.getoption("--other-turn"))
    on_both = tuple(each for each in _ON_BOTH if not turn or each.startswith("tests/faults/"))
    left_out = {item for item in items if not item.nodeid.startswith(on_both) and _is_left_out(item, turn)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _is_left_out(item: pytest.Item, turn: int) -> bool:
    parameters: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    if "anyio_backend" not in parameters or item.get_closest_marker("virtual_time") is not None:
        return False
    backend = parameters["anyio_backend"][0]
    name, _, case = item.nodeid.partition("[")
    digest = crc32(f"{name}[{case.replace(backend, '', 1)}".encode())
    return ("asyncio", "trio")[(digest + turn) % 2] != backend
