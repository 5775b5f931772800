"""Long tests begin first in a run of several processes: begun among the last, one is waited for alone."""

from itertools import chain, islice

import pytest

__all__ = ["LONG", "put_long_tests_first", "shares"]

LONG = (
    "tests/unit/cli/test_demo_evaluation.py",
    "tests/faults/test_improve_on_real_model.py",
    "tests/faults/test_generated_kills.py",
    "tests/docs/test_examples.py",
    "tests/architecture/test_core.py",
    "tests/faults/test_long_step_kills.py",
    "tests/specification/test_permission_lazy_names.py",
    "tests/property/test_mutated_responses.py",
    "tests/unit/distributed/test_poison_calls.py",
    "tests/benchmarks/test_ratios.py",
    "tests/benchmarks/test_measure.py",
    "tests/unit/distributed/test_lent_budgets.py",
    "tests/unit/distributed/test_budgets_of_lost_workers.py",
    "tests/faults/test_fault_matrix.py::test_faults_that_keep_one_waiting_end_in_time_and_spoil_nothing",
)
"""Files, or tests, that take ten seconds and more, the longest first. What is not there costs time alone."""


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
    return next((rank for rank, name in enumerate(LONG) if item.nodeid.startswith(name)), len(LONG))
