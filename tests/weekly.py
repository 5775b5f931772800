"""What runs weekly rather than with every change: `make test-all` runs it, `make test` leaves it out.

A test marked `weekly` repeats, in another size or on more cases, what a smaller twin says of every change. Of
the tests in `ONE_IN`, which are their own twins, some of the cases run with every change, and all of them
weekly. With `--one-case` one case of each test function runs: what another Python can change, it changes
in each.
"""

from collections import defaultdict
from zlib import crc32

import pytest

__all__ = ["ONE_IN", "keep_cases_of_every_change", "keep_one_case"]

ONE_IN = {
    "tests/faults/coding_agents/": 3,
    "tests/faults/test_asgi_durable_requests.py": 3,
    "tests/faults/test_asgi_event_streams.py": 3,
    "tests/faults/test_asgi_servers.py": 3,
    "tests/faults/test_batch_kills.py": 2,
    "tests/faults/test_generated_kills.py": 3,
    "tests/faults/test_journal_kills.py": 3,
    "tests/faults/test_llama_cpp_protocols.py": 3,
    "tests/faults/test_mcp_npm_servers.py": 3,
}
"""Files, or tests, one in so many of whose cases runs with every change; each function keeps one at least.

The first one is chosen by the name of the function: of three servers, each has a third of the functions.

For tables whose rows are long and alike. Of a table of faults, each row says something of its own.
"""


def keep_cases_of_every_change(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is weekly, unless all tests are asked for or a case is named.

    The choice depends on names and their order alone, so it is the same in every process.
    """
    if config.getoption("--all-cases"):
        return
    named = [argument for argument in config.args if "::" in argument]
    kept = {item for item in items if any(_names(argument, item.nodeid) for argument in named)}
    for function, cases in _by_function(items).items():
        number = min(_one_in(function), len(cases))
        first = crc32(function.encode()) % number
        kept |= {item for item in cases[first::number] if item.get_closest_marker("weekly") is None}
    _keep(config, items, kept)


def keep_one_case(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one case of each function, if that is asked for: chosen by its name, so that loops take turns."""
    if not config.getoption("--one-case"):
        return
    functions = _by_function(items)
    kept = {cases[crc32(function.encode()) % len(cases)] for function, cases in functions.items()}
    _keep(config, items, kept)


def _by_function(items: list[pytest.Item]) -> dict[str, list[pytest.Item]]:
    functions: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    return functions


def _one_in(name: str) -> int:
    return next((number for prefix, number in ONE_IN.items() if name.startswith(prefix)), 1)


def _names(argument: str, name: str) -> bool:
    """Whether an argument of the command line names this test, or all cases of its function."""
    return name == argument or name.partition("[")[0] == argument


def _keep(config: pytest.Config, items: list[pytest.Item], kept: set[pytest.Item]) -> None:
    if left_out := [item for item in items if item not in kept]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item in kept]
