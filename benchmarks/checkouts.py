"""`python -m benchmarks.checkouts FOLDER`: what a journal costs here, beside another checkout of the library.

    git worktree add ../before main
    python -m benchmarks.checkouts ../before
    python -m benchmarks.checkouts ../before --instructions

Both take the same steps in short alternating windows, each in a process of its own, so that what else the
machine does disturbs both alike. Shown is the processor time of a recorded step of three records and of one
that is resumed: the median here, the median there, and the median of the ratios of neighbouring windows. On a
busy machine, valgrind counts instructions instead, which are nearly the same each time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

__all__ = ["main"]

MOST = 1.10
"""The bound of the ratio of a recorded step."""

ROOT = Path(__file__).parents[1]


def _measure(checkout: Path, steps: int, backend: str) -> dict[str, float]:
    """The processor times of one window."""
    figures: dict[str, float] = json.loads(_run([sys.executable], checkout, str(steps), backend).stdout)
    return figures


def _count(checkout: Path, steps: int, backend: str, name: str) -> float:
    """The instructions of a step."""
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null"]
    answer = _run([*valgrind, sys.executable], checkout, str(steps), backend, name)
    return int(answer.stderr.split("Collected :")[1].split()[0]) / steps


def _run(python: list[str], checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*python, "-m", "benchmarks.subjects.recorded_steps", *arguments],
        env={**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONHASHSEED": "0"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )


def _bound(name: str) -> str:
    return f" (at most {MOST:.2f})" if name == "step" else ""


def main() -> None:
    """Measure both, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkouts")
    parser.add_argument("other", type=Path, help="the folder of the other checkout")
    parser.add_argument("--windows", type=int, default=15)
    parser.add_argument("--steps", type=int, default=200, help="steps of a window")
    parser.add_argument("--instructions", action="store_true", help="count instructions, of 40 steps")
    options = parser.parse_args()
    other = options.other.resolve()
    for backend in ("trio", "asyncio"):
        if options.instructions:
            for name in ("step", "resumed"):
                mine, its = (_count(checkout, 40, backend, name) for checkout in (ROOT, other))
                print(
                    f"{backend} {name}: {mine:,.0f} instructions here, {its:,.0f} there, {mine / its:.3f}"
                    f"{_bound(name)}"
                )
            continue
        here, there = [], []
        for _ in range(options.windows):
            here.append(_measure(ROOT, options.steps, backend))
            there.append(_measure(other, options.steps, backend))
        for name in here[0]:
            ratio = statistics.median(one[name] / two[name] for one, two in zip(here, there, strict=True))
            mine, its = (statistics.median(window[name] for window in each) for each in (here, there))
            print(
                f"{backend} {name}: {mine * 1e3:.3f} ms here, {its * 1e3:.3f} ms there, {ratio:.3f}"
                f"{_bound(name)}"
            )


if __name__ == "__main__":
    main()
