"""Long tests begin first in a run of several processes: begun among the last, one is waited for alone.

`tests/durations.json` has the seconds of each test function that took long, the longest first. It is written
by `make test PYTHONS=3.13 ARGS="-n 3 --dist=worksteal --keep-durations"`: what a run measured replaces what
stood there, and what it did not run stays.
"""

import json
from collections import defaultdict
from itertools import chain, islice
from pathlib import Path

import pytest

__all__ = ["LONG", "DurationKeeper", "put_long_tests_first", "shares"]

FILE = Path(__file__).with_name("durations.json")
LONG = tuple(json.loads(FILE.read_text()))
"""Test functions, or files, the longest first. What is not there costs time alone."""

_RANKS = {name: rank for rank, name in enumerate(LONG)}

SHORTEST_SECONDS = 3.0
"""Functions whose cases together take less are not kept."""


class DurationKeeper:
    """A plugin of pytest that keeps how long the cases of each function took.

    Args:
        file: Where they are kept.
    """

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of a test, of its preparation or of its cleanup."""
        self._seconds[report.nodeid.partition("[")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the table."""
        known: dict[str, int] = json.loads(self._file.read_text()) if self._file.exists() else {}
        found = {name: round(seconds) for name, seconds in self._seconds.items()}
        kept = {name: seconds for name, seconds in (known | found).items() if seconds >= SHORTEST_SECONDS}
        rows = dict(sorted(kept.items(), key=lambda row: (-row[1], row[0])))
        self._file.write_text(json.dumps(rows, indent=1) + "\n")


def put_long_tests_first(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the share of each process begin with long tests; one process alone keeps its order.

    `--dist=worksteal` gives each process a share of consecutive tests, and one that is ready the last half of
    another's. The choice depends on names alone, so it is the same in every process.
    """
    process: dict[str, object] | None = getattr(config, "workerinput", None)
    if process is None:
        return
    count = int(str(process["workercount"]))
    ranked: list[list[pytest.Item]] = [[] for _ in range(len(LONG) + 1)]
    for item in items:
        ranked[_rank(item)].append(item)
    others = iter(ranked.pop())
    long = list(filter(None, ranked))  # those of a file stay together, which may share what fixtures make
    arranged: list[pytest.Item] = []
    for number, size in enumerate(shares(len(items), count)):
        own = list(chain.from_iterable(long[number::count]))
        arranged += [*own, *islice(others, max(0, size - len(own)))]
    items[:] = [*arranged, *others]


def shares(total: int, count: int) -> list[int]:
    """How many of all tests each process is given first."""
    return [(total + number) // count for number in range(count)]


def _rank(item: pytest.Item) -> int:
    function = item.nodeid.partition("[")[0]
    return _RANKS.get(function, _RANKS.get(function.partition("::")[0], len(LONG)))
