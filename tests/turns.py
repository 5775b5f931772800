"""Most tests take turns: of the cases that differ only in the event loop, one runs.

What depends on the event loop runs on both, and on another Python the others have another turn. A table may
let more of its parameters take turns, with the marker `turns`.
"""

from collections import defaultdict
from zlib import crc32

import pytest

__all__ = ["keep_turns"]

_ON_BOTH = (
    "tests/detectors/",
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
    "tests/unit/journal/test_orders.py",
    "tests/unit/parallel/",
    "tests/unit/kernel/",
    "tests/unit/observe/",
    "tests/unit/policies/",
    "tests/unit/telemetry/",
    "tests/unit/testing/contracts/test_models.py",
    "tests/unit/testing/contracts/test_placements.py",
    "tests/unit/values/",
)
"""Tests of tasks, cancellation, threads and connections: the event loops differ there."""


def keep_turns(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one of the cases that take turns. The profile `explore` keeps all.

    With `--other-turn` another one is kept, and of the tests of event loops only those of faults run on both:
    cancellation differs between the asyncio of one Python and that of another. The choice depends on
    names alone, so it is the same in every run.
    """
    if config.getoption("--hypothesis-profile", None) == "explore":
        return
    turn = int(config.getoption("--other-turn"))
    on_both = tuple(each for each in _ON_BOTH if not turn or each.startswith("tests/faults/"))
    groups: defaultdict[object, list[pytest.Item]] = defaultdict(list)
    turns: dict[str, set[str]] = {}
    for item in items:
        function = item.nodeid.partition("[")[0]
        if function not in turns:  # the same for all cases of a function, which are thousands
            turns[function] = _turns_of(item, on_both)
        groups[function, _without(item, turns[function])].append(item)
    kept = {group[(crc32(group[0].nodeid.encode()) + turn) % len(group)] for group in groups.values()}
    if left_out := [item for item in items if item not in kept]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item in kept]


def _turns_of(item: pytest.Item, on_both: tuple[str, ...]) -> set[str]:
    """The parameters of a function whose values take turns."""
    turns = {name for marker in item.iter_markers("turns") for name in marker.args}
    return turns if item.nodeid.startswith(on_both) else turns | {"anyio_backend", "backend"}


def _without(item: pytest.Item, turns: set[str]) -> object:
    """The parts of a case that it has in common with those of which one is to run."""
    values: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    return tuple((name, id(value)) for name, value in values.items() if name not in turns)
