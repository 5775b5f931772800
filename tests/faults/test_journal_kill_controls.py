"""Controls of the kills: with a part of the journal switched off, its promise is seen broken.

Each test does the same with the part and without it. What finds nothing with the part has to find something
without it, or it would prove nothing.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nighthawk_async.testing.killing import KillPoint, ProgramKiller
from tests.faults.durable.lives import LIFE_SECONDS, ROOT, Lives

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is forked from one that is warm"),
    pytest.mark.parametrize("backend", ["asyncio", "trio"]),
]

MOST_RUNS = 40
"""Runs without a part; after so many that found nothing the control fails."""
SAME_RUNS = 3
"""Runs with the part, which find nothing."""

Make = Callable[[str, str], Iterator[Lives]]


@pytest.fixture
def make_lives(tmp_path: Path, killer: ProgramKiller, backend: str) -> Make:
    """Returns the lives of many runs of one shape, with a part of the journal switched off or not."""

    def make(shape: str, without: str) -> Iterator[Lives]:
        for number in range(MOST_RUNS if without else SAME_RUNS):
            folder = tmp_path / f"{shape}-{without or 'whole'}-{number}"
            yield Lives(killer, folder, backend, [shape], without=without)

    return make


def kinds_found(make: Make, shape: str, without: str, kill_at: KillPoint, **accidents: Any) -> set[str]:
    """The kinds of findings in runs that are killed at one moment, until there are any."""
    for lives in make(shape, without):
        lives.live(kill_at, **accidents)
        if findings := lives.findings(lives.live(**accidents)):
            return set(findings)
    return set()


def test_without_recorded_responses_they_are_asked_for_again(make_lives: Make) -> None:
    kill_at = KillPoint(record=12, when="after")
    assert kinds_found(make_lives, "map", "", kill_at) == set()
    assert "asked again" in kinds_found(make_lives, "map", "responses", kill_at)


def test_without_recorded_intents_calls_are_made_again(make_lives: Make) -> None:
    kill_at = KillPoint(mark="booked")
    assert kinds_found(make_lives, "map", "", kill_at) == set()
    assert "repeated" in kinds_found(make_lives, "map", "intents", kill_at)


def test_an_effect_that_does_not_wait_for_its_intent_is_made_again(make_lives: Make) -> None:
    kill_at = KillPoint(record=2)  # the intent, with which the run begins
    assert kinds_found(make_lives, "doubt", "", kill_at, slow=True) == set()
    assert "repeated" in kinds_found(make_lives, "doubt", "waiting", kill_at, slow=True)


def test_with_ordinals_alone_tasks_started_by_hand_get_the_records_of_others(make_lives: Make) -> None:
    kill_at = KillPoint(record=10, when="after")
    assert kinds_found(make_lives, "hand", "", kill_at) == set()
    assert "wrong" in kinds_found(make_lives, "hand", "digests", kill_at)


@pytest.mark.parametrize("shape", ["race", "vote"])
def test_without_recorded_decisions_the_losers_are_begun_again(make_lives: Make, shape: str) -> None:
    kill_at = KillPoint(mark="booked", nth=100)  # never: the next life comes after the end
    assert kinds_found(make_lives, shape, "", kill_at) == set()
    # They ask again, or come to what the records do not have first.
    assert kinds_found(make_lives, shape, "decisions", kill_at) & {"asked again", "wrong"}


def test_without_recorded_decisions_a_stream_has_another_order(make_lives: Make) -> None:
    kill_at = KillPoint(mark="booked", nth=4)  # of the result of the shape
    assert kinds_found(make_lives, "stream", "", kill_at) == set()
    assert "wrong" in kinds_found(make_lives, "stream", "decisions", kill_at)


@pytest.fixture(scope="module")
def queue_killer() -> Iterator[ProgramKiller]:
    """A killer of a worker whose queue has a call that ends its process."""
    program = "tests.faults.durable.poisoned_queue:main"
    with ProgramKiller(program, {}, path=[ROOT, ROOT / "src"], timeout=LIFE_SECONDS) as opened:
        yield opened


@pytest.mark.parametrize("without", ["", "suspects"])
def test_where_losses_beside_others_count_healthy_calls_get_stuck(
    tmp_path: Path, queue_killer: ProgramKiller, backend: str, without: str
) -> None:
    arguments = {"address": f"sqlite:///{tmp_path}/queue.db", "backend": backend, "without": without}
    for _ in range(2):  # as many lives as a call may lose alone
        killed = queue_killer.live(kill_at=KillPoint(mark="poisoned"), with_poison=True, **arguments)
        assert killed.was_killed
    ends = queue_killer.live(**arguments).result
    assert ends == {name: "stuck" if without else name for name in ("poison", "ann", "bob")}
