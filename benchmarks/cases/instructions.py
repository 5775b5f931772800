"""The instructions of a step by layers, counted by valgrind: the same on a busy machine as on an idle one.

Measured where valgrind is, on x86-64. With a scripted model the counts of two runs with the same Python and
packages differ by less than one in three hundred, so `--against` calls a step dearer that takes two in a
hundred more. Over HTTP a response arrives in more or fewer pieces, and counts differ by up to one in twenty.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ..measure import Benchmark, CannotMeasureHereError
from ..server.running import ROOT, running_server
from ..subjects.counted_steps import KINDS

__all__ = ["BENCHMARKS"]

_COLLECTED = re.compile(r"^(?:totals|summary): (\d+)", re.MULTILINE)


def count_instructions(backend: str, steps: int) -> Mapping[str, float]:
    """The instructions of a step of each kind."""
    if shutil.which("valgrind") is None or platform.machine() != "x86_64":
        raise CannotMeasureHereError("valgrind on x86-64 counts instructions, and it is not here")
    with tempfile.TemporaryDirectory() as folder, running_server() as server:
        written = Path(folder, "counts")
        callgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={written}"]
        program = [sys.executable, "-m", "benchmarks.subjects.counted_steps", server, backend, str(steps)]
        subprocess.run(
            [*callgrind, *program],
            env={**os.environ, "PYTHONHASHSEED": "0"},
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        return {
            f"{kind}_instructions": _total(Path(f"{written}.{number}")) / steps
            for number, kind in enumerate(KINDS, 1)
        }


def _total(counts: Path) -> int:
    found = _COLLECTED.search(counts.read_text())
    assert found is not None, "callgrind wrote no total"
    return int(found[1])


BENCHMARKS = tuple(
    Benchmark(
        name=f"instructions-{backend}",
        what=f"one step that sets a variable and ends, on {backend}",
        run=partial(count_instructions, backend),
        operations=10,
        quick_operations=2,
        rounds=1,
        smallest_suite="default",
        is_warmed_up=False,
        timeout=900.0,
    )
    for backend in ("trio", "asyncio")
)
