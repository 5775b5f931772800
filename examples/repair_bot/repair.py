"""The repair: rounds of a plan, workers and a review, with limits for all of them together."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread

import nighthawk_async as nh
from nighthawk_async import library, observe, parallel
from nighthawk_async.library import Sandbox

from .agents import RULES, CannotRepairError, plan, review, work
from .checkout import Checkout

WORKERS = 4
"""Workers at the same time."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a repair may take.

    Args:
        rounds: Plans that are made and carried out.
        depth: Agents that call each other: a worker that calls a worker that investigates is three.
        steps: Agents in all.
        tokens: Tokens that are sent and received.
        cost: US dollars; None for no limit.
        seconds: The time for everything but the tests.
        test_seconds: The time for the tests, each time.
    """

    rounds: int = 3
    depth: int = 3
    steps: int = 40
    tokens: int = 500_000
    cost: float | None = None
    seconds: float = 900
    test_seconds: float = 120


@dataclass(kw_only=True)
class Report:
    """The end of a repair.

    Args:
        before: The tests before it.
        after: The tests after the last round that was completed.
        failure: Why there is no repair; empty if there is one.
        causes: What was wrong, from each worker.
        diff: The repair, for `git apply`; without one, the last attempt.
        rounds: Rounds that were begun.
        spent: What it took, in words.
        tree: Everything that happened, as text.
    """

    before: library.ShellResult
    after: library.ShellResult
    failure: str = ""
    causes: list[str] = field(default_factory=list[str])
    diff: str = ""
    rounds: int = 0
    spent: str = ""
    tree: str = ""


KEPT = ("test_*.py", "*/test_*.py", "tests/*", "*/tests/*", "conftest.py", "*/conftest.py")
"""Patterns of files that have to stay as they are."""


async def repair(
    repository: Path,
    model: nh.models.Model | str,
    *,
    tests: str,
    kept: Sequence[str] = KEPT,
    limits: Limits | None = None,
    sandbox: Sandbox = "required",
) -> Report:
    """Make the tests of a repository pass, in a copy.

    Args:
        repository: Its folder, which is only read.
        model: The model of all agents.
        tests: The command that runs the tests.
        kept: Patterns of files that have to stay as they are.
        limits: What the repair may take.
        sandbox: Whether shells are confined; see `library.Workspace`.

    Raises:
        ShellError: The tests cannot be started: with `sandbox="required"`, Bubblewrap has to work.
    """
    limits = limits or Limits()
    budget = nh.budget(
        steps=limits.steps,
        tokens=limits.tokens,
        cost=limits.cost,
        seconds=limits.seconds,
        max_output_tokens=16_000,
        name="repair",
    )
    with tempfile.TemporaryDirectory(prefix="repair-") as name, observe.recording() as tree:
        checkout = await anyio.to_thread.run_sync(Checkout, repository, Path(name), kept, sandbox)
        before = await checkout.run_tests(tests, limits.test_seconds)
        report = Report(before=before, after=before)
        if before.status != 0:
            try:
                async with nh.run(model, budget=budget, max_depth=limits.depth, permissions=RULES):
                    await _repair(checkout, tests, limits, report)
            except CannotRepairError as error:
                report.failure = f"planning failed: {error}"
            except (nh.BudgetExceededError, nh.errors.ExecutionError, nh.errors.ModelError) as error:
                report.failure = str(error)
        spent = budget.spent
        report.spent = (
            f"{spent.steps} steps, {spent.turns} requests, {spent.tokens:,} tokens, {spent.cost:.4f} dollars"
        )
        report.tree = observe.view_as_text(tree.snapshot())
    return report


async def _repair(checkout: Checkout, tests: str, limits: Limits, report: Report) -> None:
    """Plan, work and review, until a review accepts or there are no rounds left."""
    remarks: list[str] = []
    for report.rounds in range(1, limits.rounds + 1):
        tasks = await plan(checkout.frozen(), report.after.output[-4_000:], remarks)
        done = await parallel.settle(
            lambda task: work(checkout.workspace(), task), tasks, max_concurrent=WORKERS
        )
        report.causes += done.values()
        for error in done.errors():
            if isinstance(error, nh.BudgetExceededError):  # there is no room for another round either
                raise error
        change = await checkout.freeze()
        report.diff = change.diff
        report.after = await checkout.run_tests(tests, limits.test_seconds)
        remarks = [f"a worker failed: {error}" for error in done.errors()]
        remarks += [f"{path} has to be as it was" for path in change.tests]
        if report.after.status != 0:
            remarks.append(f"the tests still fail after: {'; '.join(task.goal for task in tasks)}")
        if not remarks:
            verdict = await review(checkout.frozen(), change.diff)
            if verdict.is_accepted:
                return
            remarks = [f"the reviewer says: {remark}" for remark in verdict.remarks]
    report.failure = f"not repaired after {limits.rounds} rounds: {'; '.join(remarks)}"
