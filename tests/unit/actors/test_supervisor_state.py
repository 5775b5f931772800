"""What a supervisor decides where two things happen at once."""

import pytest

from nighthawk_async.actors import Restart
from nighthawk_async.actors.supervisor_child import (
    ChildEnding,
    ChildPhase,
    ChildRecord,
    ChildTable,
    RestartLimit,
)
from nighthawk_async.actors.supervisor_state import SupervisorState, SupervisorStrategy

FAILED = ChildEnding(kind="failed", error=ValueError())
RETURNED = ChildEnding(kind="returned")


def running(strategy: SupervisorStrategy, **delays: float) -> SupervisorState:
    """A supervisor whose children run, each with the delay of its restart in seconds."""
    limit = RestartLimit(max_restarts=5, window_seconds=60, circuit_open_seconds=None)
    state = SupervisorState(strategy, limit=limit, grace_seconds=5, record=lambda event: None)
    for name, seconds in delays.items():
        state.add(name, Restart(backoff_seconds=seconds, jitter_seconds=0), 0)
    state.advance(0)
    return state


def actions(state: SupervisorState, now: float) -> list[str]:
    """What is to be done."""
    return [f"{action.kind} {action.child}" for action in state.advance(now)]


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
def test_a_child_that_is_being_stopped_is_not_restarted_along(strategy: SupervisorStrategy) -> None:
    state = running(strategy, a=1, b=1, c=1)
    state.stop_child("b", 0, 5)
    assert actions(state, 0) == ["ask b"]
    state.child_ended("a", FAILED, 1)
    assert actions(state, 1) == ["ask c"]
    state.child_ended("b", RETURNED, 1)
    state.child_ended("c", RETURNED, 1)
    assert actions(state, 1) == ["conclude b"]
    assert actions(state, 2) == ["start a", "start c"]


def test_those_that_wait_for_a_longer_delay_are_waited_for() -> None:
    state = running("rest_for_one", a=1, b=10, c=1)
    state.child_ended("b", FAILED, 0)
    assert actions(state, 0) == ["ask c"]
    state.child_ended("c", RETURNED, 0)
    state.child_ended("a", FAILED, 2)
    assert actions(state, 3) == []
    assert state.next_time() == 10
    assert actions(state, 10) == ["start a", "start b", "start c"]


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all"])
def test_stopping_many_children_looks_at_each_a_few_times(
    strategy: SupervisorStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 300
    state = running(strategy, **{f"child {number}": 1 for number in range(count)})
    looks = 0
    in_phase = ChildTable.in_phase

    def look(table: ChildTable, phase: ChildPhase) -> tuple[ChildRecord, ...]:
        nonlocal looks
        children = in_phase(table, phase)
        looks += len(children)
        return children

    monkeypatch.setattr(ChildTable, "in_phase", look)
    state.stop(0, 5)
    while actions := state.advance(0):
        for action in actions:
            if action.kind == "ask":
                state.child_ended(action.child, RETURNED, 0)
        state.next_time()
    assert state.is_ended
    assert looks <= 10 * count
