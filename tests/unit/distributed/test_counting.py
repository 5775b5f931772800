"""Budgets and usage of durable calls whose workers are lost: what is recorded counts once."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import nighthawk_async as nh
from nighthawk_async import observe, parallel
from nighthawk_async.journal import JournalStore
from tests import counted_functions as functions
from tests.counted_functions import TOKENS, USED, CountedModel, asked_in
from tests.in_memory_workers import InMemoryWorkers

pytestmark = pytest.mark.anyio

Function = Callable[[str], Awaitable[Any]]

PLENTY = {"tokens": 10**9, "turns": 10**6, "steps": 10**6, "tool_calls": 10**6}


class Counted(NamedTuple):
    """What one life has counted."""

    turns: int
    tokens: int
    steps: int
    tool_calls: int
    usage: nh.Usage
    metered_steps: int
    corrections: int
    was_lost: bool
    result: Any


async def live(
    folder: Path,
    store: JournalStore,
    function: Function,
    lost_after: int | None = None,
    *,
    limits: Any = PLENTY,
    has_workers: bool = True,
    ends: bool = True,
) -> Counted:
    """One life of the run of a folder, whose worker is lost after a number of messages."""
    workers = InMemoryWorkers(2)  # the other one makes the call if the first is lost
    workers.lost_after = lost_after
    executor = nh.AgentStepExecutor.from_model(CountedModel(str(folder)))
    total = None if limits is None else nh.budget(**limits, thresholds=())
    run = nh.run(executor, journal=store, run_id=folder.name, budget=total)
    result: Any = None
    with suppress(InterruptedError):
        async with workers, run:
            (result,) = await parallel.map(function, [str(folder)], on=workers if has_workers else None)
            if not ends:
                raise InterruptedError
    meter = run.usage_meter
    if total is not None:
        assert total.reserved == nh.policies.BudgetAmounts()
        assert total.usage == meter.usage
    spent = nh.policies.BudgetAmounts() if total is None else total.spent
    return Counted(
        turns=spent.turns or 0,
        tokens=spent.tokens or 0,
        steps=spent.steps or 0,
        tool_calls=spent.tool_calls or 0,
        usage=meter.usage,
        metered_steps=meter.steps,
        corrections=sum(meter.corrections.values()),
        was_lost=lost_after is not None and workers.received >= lost_after,
        result=result,
    )


async def lives_with_losses(
    store: JournalStore,
    tmp_path: Path,
    function: Function,
    *,
    step: int = 4,
    is_recorded: bool = False,
    **options: Any,
) -> list[tuple[Path, Counted]]:
    """Lives of a run each, in which the worker is lost after one message, or two, and so on to the end.

    Args:
        store: The store.
        tmp_path: The folder of their folders.
        function: The function that the worker calls.
        step: The number of messages from one life to the next.
        is_recorded: Whether an earlier life without workers has recorded everything.
        options: See `live`.
    """
    lives: list[tuple[Path, Counted]] = []
    was_lost = True
    while was_lost:
        lost_after = 3 + len(lives) * step  # after both workers are ready
        folder = tmp_path / f"run-{lost_after}"
        folder.mkdir()
        if is_recorded:
            await live(folder, store, function, has_workers=False, ends=False)
        life = await live(folder, store, function, lost_after, **options)
        lives.append((folder, life))
        was_lost = life.was_lost
    assert len(lives) > 10 / step
    return lives


async def test_each_request_is_charged_once_whenever_its_worker_is_lost(tmp_path: Path) -> None:
    limits = {**PLENTY, "turns": 3, "steps": 1, "tool_calls": 2}  # one turn more, for the one that is lost
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        lives = await lives_with_losses(store, tmp_path, functions.act_in_two_turns, step=1, limits=limits)
    for folder, life in lives:
        lost = unknown_requests(folder, life)
        assert life.usage.is_complete == (life.tokens == life.turns * TOKENS) == (not lost)
        assert (life.steps, life.tool_calls, life.metered_steps, life.corrections) == (1, 2, 1, 1)
    turns = [life.turns for _, life in lives]
    assert set(turns) == {2, 3}
    assert turns.count(3) <= 8, "a worker that is lost between two requests costs nothing"


def unknown_requests(folder: Path, life: Counted) -> int:
    """The number of requests whose usage is unknown; every other one that the model got was charged.

    A request that was allowed, and had not been charged when the worker was lost, may have been sent or not.
    It is charged its upper bound.
    """
    lost = life.usage.requests - (life.usage.input_tokens + life.usage.output_tokens) // TOKENS
    assert lost in (0, 1)
    assert life.turns == life.usage.requests
    assert asked_in(folder) in (life.turns, life.turns - lost)
    return lost


@pytest.mark.parametrize(
    "function", [functions.act_in_two_turns, functions.act_in_stage], ids=["step", "stage"]
)
async def test_what_an_earlier_life_recorded_is_charged_as_without_workers(
    tmp_path: Path, function: Function
) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        for folder, life in await lives_with_losses(store, tmp_path, function, is_recorded=True):
            requests = asked_in(folder)
            without_workers = await live(folder, store, function, has_workers=False)
            assert life == without_workers._replace(was_lost=life.was_lost)
            assert life.turns == life.usage.requests == requests == asked_in(folder)


async def test_a_stage_that_a_lost_worker_has_ended_is_charged_once(tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        lives = await lives_with_losses(store, tmp_path, functions.act_in_stage)
    for folder, life in lives:
        unknown_requests(folder, life)
        assert life.turns in (4, 5)
        assert (life.steps, life.tool_calls, life.metered_steps, life.corrections) == (2, 4, 2, 2)


async def test_a_failed_request_that_the_function_handled_is_charged_once(tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        lives = await lives_with_losses(store, tmp_path, functions.act_after_error)
    for folder, life in lives:
        assert asked_in(folder) <= life.turns == life.usage.requests <= asked_in(folder) + 1
        assert life.metered_steps == 2


async def test_budgets_inside_of_the_call_count_what_is_recorded(tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        lives = await lives_with_losses(store, tmp_path, functions.act_in_own_budget)
    for folder, life in lives:
        unknown_requests(folder, life)
        assert life.result == "own: 3 turns"
        assert life.turns in (3, 4)


async def test_usage_is_counted_once_without_a_budget(tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        lives = await lives_with_losses(store, tmp_path, functions.act_in_two_turns, limits=None)
    for folder, life in lives:
        assert life.usage == USED + USED  # of a request that was lost, nobody has said anything
        assert asked_in(folder) in (2, 3)
        assert (life.metered_steps, life.corrections) == (1, 1)


async def test_the_live_tree_shows_the_usage_of_each_request_once(tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        for lost_after in range(3, 1000, 2):
            folder = tmp_path / f"run-{lost_after}"
            folder.mkdir()
            with observe.recording() as tree:
                life = await live(folder, store, functions.act_in_two_turns, lost_after)
            tokens = tree.snapshot().subtree_usage.input_tokens
            unknown_requests(folder, life)
            assert life.usage.input_tokens <= tokens <= asked_in(folder) * USED.input_tokens
            if not life.was_lost:
                break
