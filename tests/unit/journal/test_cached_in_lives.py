"""Response caches in durable runs: the journal answers first, and keeps that a response was cached."""

from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.resilience import MemoryStore, cached

from .durable_runs import AnsweringModel, opened, shout
from .test_budgets_of_lives import PricedModel

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


class LifeEndedError(Exception):
    """Ends a life."""


async def life(
    folder: Path,
    model: AnsweringModel,
    store: MemoryStore | None,
    *words: str,
    ends: bool = True,
    turns: int = 9,
) -> nh.Usage:
    """One life of a run that shouts the words one after the other."""
    usage = nh.Usage()
    with opened(folder) as journal:
        try:
            executor = nh.AgentStepExecutor.from_model(model)
            budget = nh.budget(turns=turns)
            async with nh.run(executor, journal=journal, run_id="run-1", budget=budget), cached(store=store):
                for word in words:
                    assert await shout(word) == word.upper()
                usage = nh.get_usage_meter().usage
                if not ends:
                    raise LifeEndedError
        except LifeEndedError:
            pass
    return usage


async def test_a_later_life_answers_from_the_journal_and_counts_as_the_first(tmp_path: Path) -> None:
    model, store = PricedModel(), MemoryStore()
    first = await life(tmp_path, model, store, "cup", "cup", "hat", ends=False)
    assert (first.requests, first.cached_requests) == (2, 1)
    entries = store.statistics()
    for later in (MemoryStore(), store):
        assert await life(tmp_path, model, later, "cup", "cup", "hat", ends=False) == first
    assert store.statistics() == entries
    assert len(model.prompts) == 2


async def test_a_budget_has_as_much_room_in_every_life(tmp_path: Path) -> None:
    model, store = PricedModel(), MemoryStore()
    words = ("cup", "cup", "cup", "cup")
    await life(tmp_path, model, store, *words, ends=False, turns=1)
    await life(tmp_path, model, MemoryStore(), *words, ends=False, turns=1)
    with pytest.raises(nh.BudgetExceededError):
        await life(tmp_path, model, store, *words, "hat", turns=1)


async def test_new_requests_of_a_later_life_are_cached(tmp_path: Path) -> None:
    model, store = PricedModel(), MemoryStore()
    await life(tmp_path, model, store, "cup", ends=False)
    usage = await life(tmp_path, model, store, "cup", "cup", "cup")
    assert (usage.requests, usage.cached_requests) == (1, 2)
