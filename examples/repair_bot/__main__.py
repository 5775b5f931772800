"""Repair a repository, and print what was wrong and the diff.

python -m examples.repair_bot --model openai-responses:gpt-5.4 --cost 1.00
"""

import argparse
import shlex
import sys
from pathlib import Path

import anyio

import nighthawk_async as nh

from .repair import Limits, Report, repair

BROKEN = Path(__file__).with_name("broken")
# The plugin of this library is not there for a confined shell when the library is installed from a checkout.
TESTS = f"{shlex.quote(sys.executable)} -m pytest -q -p no:cacheprovider -p no:nighthawk_async"


def read_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.repair_bot")
    parser.add_argument(
        "repository", nargs="?", type=Path, default=BROKEN, help="the folder; default: a shop"
    )
    parser.add_argument("--model", default="openai-responses:gpt-5.4", help="the model of all agents")
    parser.add_argument("--tests", default=TESTS, help="the command that runs the tests")
    parser.add_argument(
        "--sandbox", choices=["required", "auto", "off"], default="required", help="for shells; see Workspace"
    )
    parser.add_argument("--rounds", type=int, default=3, help="the most rounds")
    parser.add_argument("--depth", type=int, default=3, help="the most agents within each other")
    parser.add_argument("--tokens", type=int, default=500_000, help="the most tokens of all agents together")
    parser.add_argument("--cost", type=float, help="the most US dollars; default: no limit")
    parser.add_argument("--output", type=Path, help="a file for the diff")
    read = parser.parse_args(arguments)
    if not read.repository.is_dir():
        parser.error(f"there is no folder {read.repository}")
    return read


def show(report: Report) -> None:
    """Print a report."""
    print(report.tree)
    print(f"\nTests before: {_last_line(report.before.output)}")
    if not report.rounds:
        print("There is nothing to repair.")
        return
    print(f"Tests after:  {_last_line(report.after.output)}")
    print(f"Rounds: {report.rounds}; {report.spent}\n")
    if report.failure:
        print(f"Nothing was changed: {report.failure}")
        return
    print("What was wrong:", *(f"- {cause}" for cause in report.causes), "", report.diff, sep="\n")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


async def main(arguments: argparse.Namespace) -> int:
    """Repair, print, and return the exit status."""
    limits = Limits(
        rounds=arguments.rounds, depth=arguments.depth, tokens=arguments.tokens, cost=arguments.cost
    )
    try:
        report = await repair(
            arguments.repository,
            arguments.model,
            tests=arguments.tests,
            limits=limits,
            sandbox=arguments.sandbox,
        )
    except nh.errors.NighthawkError as error:  # such as a model without a key, or no Bubblewrap
        print(error, file=sys.stderr)
        return 2
    show(report)
    if report.failure:
        return 1
    if arguments.output is not None:
        await anyio.Path(arguments.output).write_text(report.diff, encoding="utf-8", errors="surrogateescape")
    return 0


if __name__ == "__main__":
    sys.exit(anyio.run(main, read_arguments()))
