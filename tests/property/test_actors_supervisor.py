"""Whatever happens when, supervisors decide consistently, and actors handle no message twice."""

import anyio
import pytest
from hypothesis import given, strategies as st

from nighthawk_async.actors import Restart, SupervisorStrategy
from nighthawk_async.actors.supervisor_child import RestartLimit
from tests.property import actor_schedules, supervision_schedules, supervisor_schedules
from tests.property.supervision_schedules import (
    Close,
    End,
    Forget,
    Hurry,
    Obey,
    Pass,
    Replace,
    Stop,
    StopChild,
)

indexes = st.integers(0, 4)
policies = st.builds(
    Restart,
    mode=st.sampled_from(["never", "on_failure", "on_failure", "always"]),
    backoff_seconds=st.sampled_from([0.0, 1.0]),
    jitter_seconds=st.sampled_from([0.0, 0.5]),
)
limits = st.builds(
    RestartLimit,
    max_restarts=st.integers(0, 8),
    window_seconds=st.sampled_from([2.0, 20.0, float("inf")]),
    circuit_open_seconds=st.sampled_from([None, 3.0, 30.0]),
)
steps = st.one_of(
    st.builds(End, child=indexes, kind=st.sampled_from(["returned", "failed", "cancelled", "finished"])),
    st.builds(End, child=indexes, kind=st.just("failed")),
    st.builds(Obey, child=indexes, is_failing=st.booleans()),
    st.builds(StopChild, child=indexes),
    st.builds(Close, child=indexes, is_finished=st.booleans()),
    st.builds(Replace, child=indexes, must_begin=st.booleans()),
    st.builds(Forget, child=indexes),
    st.builds(Hurry),
    st.builds(Pass, seconds=st.sampled_from([0.5, 5.0, 50.0])),
    st.builds(Pass, seconds=st.sampled_from([0.5, 5.0, 50.0])),
    st.builds(Stop),
)


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one", "escalate"])
@given(
    limit=limits,
    policies=st.lists(policies, min_size=1, max_size=4),
    steps=st.lists(steps, min_size=4, max_size=30),
)
def test_a_supervisor_forgets_no_child_and_does_nothing_twice(
    strategy: SupervisorStrategy,
    limit: RestartLimit,
    policies: list[Restart],
    steps: list[supervision_schedules.Step],
) -> None:
    supervision_schedules.World(strategy, limit, policies).play(steps)


@given(
    names=st.lists(st.text(min_size=1), min_size=2, max_size=2, unique=True),
    number=st.integers(1, 1000),
    recent=st.integers(0, 2000),
)
def test_delays_are_bounded_and_the_same_every_time(names: list[str], number: int, recent: int) -> None:
    restart = Restart(backoff_seconds=0.5, max_backoff_seconds=8, factor=3, jitter_seconds=0.25)
    for name in names:
        delay = restart.delay_seconds(name, recent_restarts=recent, restart_number=number)
        assert min(0.5 * 3 ** min(recent, 3), 8) <= delay <= 8.25
        assert delay == restart.delay_seconds(name, recent_restarts=recent, restart_number=number)


counts = st.integers(0, 3)
actor_steps = st.one_of(
    st.builds(actor_schedules.Send, turns=counts, is_crashing=st.booleans(), is_telling=st.booleans()),
    st.builds(actor_schedules.Send, turns=counts, is_crashing=st.just(False), is_telling=st.just(False)),
    st.builds(actor_schedules.CancelAsker, asker=st.integers(0, 8)),
    st.builds(actor_schedules.Turns, count=counts),
    st.builds(actor_schedules.Turns, count=counts),
    st.builds(actor_schedules.End, how=st.sampled_from(["close", "stop_now", "stop_supervisor"])),
)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(
    steps=st.lists(actor_steps, min_size=4, max_size=30),
    capacity=st.integers(1, 4),
    max_restarts=st.integers(0, 4),
)
def test_an_actor_handles_no_message_twice_and_askers_know_what_became_of_theirs(
    backend: str, steps: list[actor_schedules.Step], capacity: int, max_restarts: int
) -> None:
    anyio.run(actor_schedules.World(max_restarts, capacity).play, steps, backend=backend)


children = st.integers(0, 2)
live_steps = st.one_of(
    st.builds(
        supervisor_schedules.Start,
        child=children,
        kind=st.sampled_from(["deaf", "polite", "actor"]),
        is_patient=st.booleans(),
        is_restarted=st.booleans(),
    ),
    st.builds(supervisor_schedules.End, child=children, is_failing=st.booleans()),
    st.builds(supervisor_schedules.End, child=children, is_failing=st.just(True)),
    st.builds(supervisor_schedules.StopChild, child=children),
    st.builds(supervisor_schedules.Forget, child=children),
    st.builds(supervisor_schedules.Turns, count=st.integers(0, 3)),
    st.builds(supervisor_schedules.Turns, count=st.integers(0, 3)),
    st.builds(supervisor_schedules.Stop),
)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(
    strategy=st.sampled_from(["one_for_one", "one_for_all", "rest_for_one", "escalate"]),
    steps=st.lists(live_steps, min_size=10, max_size=60),
    max_restarts=st.integers(0, 6),
    circuit_open_seconds=st.sampled_from([None, 0.0, 1000.0]),
)
def test_a_child_runs_once_at_a_time_whatever_is_started_stopped_and_forgotten_meanwhile(
    backend: str,
    strategy: SupervisorStrategy,
    steps: list[supervisor_schedules.Step],
    max_restarts: int,
    circuit_open_seconds: float | None,
) -> None:
    world = supervisor_schedules.World(strategy, max_restarts, circuit_open_seconds)
    anyio.run(world.play, steps, backend=backend)
