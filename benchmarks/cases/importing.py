"""What `import nighthawk_async` costs a program at its start."""

import subprocess
import sys
import time

from ..measure import Benchmark

__all__ = ["BENCHMARKS"]


def import_the_package(operations: int) -> float:
    """Import the package in fresh interpreters; count what exceeds one that imports nothing."""
    return _run_interpreters("import nighthawk_async", operations) - _run_interpreters("pass", operations)


def _run_interpreters(program: str, operations: int) -> float:
    began = time.perf_counter()
    for _ in range(operations):
        subprocess.run([sys.executable, "-c", program], check=True)
    return time.perf_counter() - began


BENCHMARKS = (
    Benchmark(
        name="import",
        what="import nighthawk_async in a fresh interpreter",
        run=import_the_package,
        operations=5,
        quick_operations=1,
    ),
)
