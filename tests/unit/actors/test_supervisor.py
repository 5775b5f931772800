"""Supervisors of functions: restarts, strategies, giving up and stopping. Times are exact."""

import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import pytest

from nighthawk_async.actors import (
    Actor,
    ActorChild,
    Child,
    NameConflictError,
    Restart,
    RestartLimitError,
    RestartMode,
    Supervisor,
    SupervisorEndedError,
    SupervisorEventStream,
    SupervisorStrategy,
    current_child,
)
from nighthawk_async.actors.supervisor_child import ChildEnding, RestartLimit
from nighthawk_async.actors.supervisor_state import SupervisorState

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

STEADY = Restart(backoff_seconds=1, jitter_seconds=0)
AT_ONCE = Restart(backoff_seconds=0, jitter_seconds=0)


class Plan:
    """Children that fail, return or run on as planned, and a log of what they did and when."""

    def __init__(self) -> None:
        self.begin = anyio.current_time()
        self.log: list[str] = []
        self.runs: dict[str, int] = {}

    def note(self, text: str) -> None:
        """Add a line to the log, with the number of seconds since the beginning."""
        self.log.append(f"{anyio.current_time() - self.begin:g} {text}")

    def child(self, name: str, *endings: str | None, seconds: float = 1) -> Callable[[], Awaitable[None]]:
        """A function that ends after some seconds: with an error or, for None, without. Later it runs on."""

        async def run() -> None:
            run_number = self.runs[name] = self.runs.get(name, -1) + 1
            self.note(f"{name} starts")
            try:
                if run_number >= len(endings):
                    await anyio.sleep_forever()
                await anyio.sleep(seconds)
                ending = endings[run_number]
                if ending is not None:
                    raise ValueError(ending)
            finally:
                self.note(f"{name} ends")

        return run


def kinds(supervisor: Supervisor, child: str | None) -> list[str]:
    """What happened to a child."""
    return [event.kind for event in supervisor.events if event.child == child]


async def test_a_child_that_fails_is_restarted_after_a_growing_delay() -> None:
    plan = Plan()
    async with Supervisor() as supervisor:
        supervisor.start("a", plan.child("a", "1", "2", "3"), restart=STEADY)
        supervisor.start("b", plan.child("b"))
        await anyio.sleep(20)
        assert [(child.name, child.status, child.restart_count) for child in supervisor.children] == [
            ("a", "running", 3),
            ("b", "running", 0),
        ]
        assert str(supervisor.children[0].last_error) == "3"
    assert [line for line in plan.log if "a starts" in line] == [
        "0 a starts",
        "2 a starts",
        "5 a starts",
        "10 a starts",
    ]
    assert plan.log.count("0 b starts") == 1
    assert kinds(supervisor, "a") == ["started", *["failed", "waiting", "restarted"] * 3, "stopped"]
    assert kinds(supervisor, None) == ["stopping", "ended"]
    figures = supervisor.statistics()
    assert (figures.failures, figures.restarts, figures.stopped, figures.running) == (3, 3, 2, 0)


async def test_delays_have_a_maximum_and_shrink_when_the_window_has_passed() -> None:
    plan = Plan()
    restart = Restart(backoff_seconds=1, max_backoff_seconds=3, jitter_seconds=0)
    async with Supervisor(max_restarts=100, window_seconds=30) as supervisor:
        supervisor.start("a", plan.child("a", *"12345"), restart=restart)
        await anyio.sleep(20)
        assert [line for line in plan.log if "starts" in line] == [
            f"{time} a starts" for time in (0, 2, 5, 9, 13, 17)
        ]


async def test_the_jitter_depends_on_the_name_and_number_only() -> None:
    delays = [
        Restart(backoff_seconds=0, jitter_seconds=0.5).delay_seconds(
            name, recent_restarts=number, restart_number=number
        )
        for name in ("a", "b")
        for number in (1, 2)
    ]
    assert len(set(delays)) == 4
    assert all(0 <= delay <= 0.5 for delay in delays)
    assert delays[0] == Restart(backoff_seconds=0, jitter_seconds=0.5).delay_seconds(
        "a", recent_restarts=0, restart_number=1
    )


@pytest.mark.parametrize(
    ("mode", "ending", "is_restarted"),
    [
        ("never", "error", False),
        ("never", None, False),
        ("on_failure", "error", True),
        ("on_failure", None, False),
        ("always", "error", True),
        ("always", None, True),
    ],
)
async def test_the_mode_says_which_endings_are_followed_by_a_restart(
    mode: RestartMode, ending: str | None, is_restarted: bool
) -> None:
    plan = Plan()
    async with Supervisor() as supervisor:
        supervisor.start("a", plan.child("a", ending), restart=Restart(mode=mode))
        await anyio.sleep(10)
        (child,) = supervisor.children
        expected = "running" if is_restarted else "failed" if ending else "stopped"
        assert (child.status, child.restart_count) == (expected, int(is_restarted))


async def test_a_failure_that_is_not_raised_anywhere_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "nighthawk"):
        async with Supervisor(name="boss") as supervisor:
            supervisor.start("a", Plan().child("a", "oops"), restart=Restart(mode="never"))
            await supervisor.wait_ended()
    (record,) = caplog.records
    assert record.message == "supervisor boss: child a failed"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "oops"


async def test_a_supervisor_gives_up_when_a_child_fails_too_often() -> None:
    plan = Plan()
    supervisor = Supervisor(max_restarts=2, grace_seconds=2)

    async def run() -> None:
        async with supervisor:
            supervisor.start("first", plan.child("first"))
            supervisor.start("bad", plan.child("bad", *"123"), restart=AT_ONCE)
            supervisor.start("last", plan.child("last"))
            await anyio.sleep_forever()

    with pytest.raises(RestartLimitError, match=r"'bad' .* the 2 that .* within 60 seconds") as caught:
        await run()
    assert str(caught.value.__cause__) == "3"
    assert plan.log[-3:] == ["3 bad ends", "3 last ends", "3 first ends"]
    assert [child.status for child in supervisor.children] == ["stopped", "suppressed", "stopped"]
    assert supervisor.status == "failed"
    assert kinds(supervisor, "bad")[-3:] == ["failed", "suppressed", "escalated"]


async def test_restarts_of_all_children_count_together() -> None:
    plan = Plan()
    supervisor = Supervisor(max_restarts=3)

    async def run() -> None:
        async with supervisor:
            for number in range(4):
                supervisor.start(f"{number}", plan.child(f"{number}", "oops"), restart=STEADY)
            await anyio.sleep_forever()

    with pytest.raises(RestartLimitError) as caught:
        await run()
    assert supervisor.statistics().failures == 4
    assert caught.value.child in "0123"
    assert [event.kind for event in supervisor.events].count("waiting") == 3


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_a_restart_that_takes_others_along_counts_once(strategy: SupervisorStrategy) -> None:
    plan = Plan()
    async with Supervisor(strategy=strategy, max_restarts=2) as supervisor:
        supervisor.start("bad", plan.child("bad", *"12"), restart=STEADY)
        for name in "abc":
            supervisor.start(name, plan.child(name), restart=STEADY)
        await anyio.sleep(10)
        assert [child.restart_count for child in supervisor.children] == [2, 2, 2, 2]


async def test_each_child_has_a_delay_of_its_own() -> None:
    plan = Plan()
    async with Supervisor() as supervisor:
        supervisor.start("often", plan.child("often", *"12"), restart=STEADY)
        supervisor.start("once", plan.child("once", "1", seconds=10), restart=STEADY)
        await anyio.sleep(20)
    assert [line for line in plan.log if "starts" in line] == [
        "0 often starts",
        "0 once starts",
        "2 often starts",
        "5 often starts",
        "11 once starts",
    ]


async def test_with_an_open_circuit_other_children_run_on() -> None:
    plan = Plan()
    async with Supervisor(max_restarts=1, circuit_open_seconds=10) as supervisor:
        supervisor.start("a", plan.child("a", *"12"), restart=AT_ONCE)
        supervisor.start("b", plan.child("b", "1", seconds=3), restart=AT_ONCE)
        supervisor.start("c", plan.child("c"))
        await anyio.sleep(5)
        assert [child.status for child in supervisor.children] == ["circuit_open", "circuit_open", "running"]
        await anyio.sleep(10)
        assert [child.status for child in supervisor.children] == ["running"] * 3


async def test_restarts_beyond_the_window_do_not_count() -> None:
    plan = Plan()
    async with Supervisor(max_restarts=1, window_seconds=5) as supervisor:
        supervisor.start("a", plan.child("a", *"1234", seconds=6), restart=AT_ONCE)
        await anyio.sleep(60)
        assert supervisor.children[0].restart_count == 4


async def test_an_open_circuit_keeps_a_child_down_and_then_tries_again() -> None:
    plan = Plan()
    async with Supervisor(max_restarts=1, circuit_open_seconds=10) as supervisor:
        supervisor.start("a", plan.child("a", *"123"), restart=AT_ONCE)
        await anyio.sleep(5)
        (child,) = supervisor.children
        assert (child.status, child.restart_at) == ("circuit_open", plan.begin + 12)
        assert supervisor.statistics().circuit_open == 1
        await anyio.sleep(20)
        assert supervisor.children[0].status == "running"
    assert [line for line in plan.log if "starts" in line] == [f"{time} a starts" for time in (0, 1, 12, 23)]
    assert supervisor.statistics().circuit_openings == 2


async def test_a_supervisor_that_is_left_does_not_wait_for_a_delay() -> None:
    plan = Plan()
    async with Supervisor(max_restarts=0, circuit_open_seconds=1000) as supervisor:
        supervisor.start("a", plan.child("a", "1"))
        await anyio.sleep(5)
    assert anyio.current_time() == plan.begin + 5
    assert supervisor.children[0].status == "suppressed"
    assert kinds(supervisor, "a") == ["started", "failed", "circuit_opened", "suppressed"]


@pytest.mark.parametrize(
    ("strategy", "log"),
    [
        ("one_for_one", ["1 b ends", "2 b starts"]),
        ("rest_for_one", ["1 b ends", "1 d ends", "1 c ends", "2 b starts", "2 c starts", "2 d starts"]),
        (
            "one_for_all",
            [*(f"1 {name} ends" for name in "bdca"), *(f"2 {name} starts" for name in "abcd")],
        ),
    ],
)
async def test_the_strategy_says_who_is_restarted_along(strategy: SupervisorStrategy, log: list[str]) -> None:
    plan = Plan()
    children = [
        Child(name=name, function=plan.child(name, *("oops" if name == "b" else "")), restart=STEADY)
        for name in "acd"
    ]
    children.insert(1, Child(name="b", function=plan.child("b", "oops"), restart=STEADY))
    async with Supervisor(strategy=strategy, children=children):
        await anyio.sleep(5)
        assert plan.log == [*(f"0 {name} starts" for name in "abcd"), *log]


async def test_those_that_returned_are_restarted_along_and_those_that_were_stopped_are_not() -> None:
    plan = Plan()
    async with Supervisor(strategy="one_for_all") as supervisor:
        supervisor.start("finished", plan.child("finished", None))
        supervisor.start("stopped", plan.child("stopped"))
        supervisor.start("once", plan.child("once"), restart=Restart(mode="never"))
        supervisor.start("bad", plan.child("bad", "oops", seconds=3), restart=STEADY)
        await anyio.sleep(2)
        await supervisor.stop_child("stopped")
        await anyio.sleep(3)
        statuses = {child.name: child.status for child in supervisor.children}
    assert statuses == {"finished": "running", "stopped": "stopped", "once": "stopped", "bad": "running"}


async def test_escalation_ends_the_supervisor_with_the_error_itself() -> None:
    plan = Plan()
    supervisor = Supervisor(strategy="escalate")

    async def run() -> None:
        async with supervisor:
            supervisor.start("a", plan.child("a"))
            supervisor.start("b", plan.child("b", "oops"), restart=Restart(mode="always"))
            await anyio.sleep_forever()

    with pytest.raises(ValueError, match="oops"):
        await run()
    assert plan.log == ["0 a starts", "0 b starts", "1 b ends", "1 a ends"]
    assert supervisor.status == "failed"


async def test_children_that_hear_are_asked_to_stop_in_reverse_order() -> None:
    plan = Plan()

    async def polite(name: str, seconds: float) -> None:
        child = current_child()
        assert child.name == name
        assert not child.is_stop_requested
        await child.wait_stop_requested()
        assert child.is_stop_requested
        plan.note(f"{name} is asked")
        await anyio.sleep(seconds)
        plan.note(f"{name} returns")

    async with Supervisor(grace_seconds=10) as supervisor:
        supervisor.start("a", partial(polite, "a", 1))
        supervisor.start("b", plan.child("b"))
        supervisor.start("c", partial(polite, "c", 2))
        await anyio.sleep(1)
    assert plan.log == [
        "0 b starts",
        "1 c is asked",
        "3 c returns",
        "3 b ends",
        "3 a is asked",
        "4 a returns",
    ]


async def test_a_child_that_does_not_stop_in_time_is_cancelled_and_so_are_those_before_it() -> None:
    plan = Plan()

    async def stubborn(name: str) -> None:
        await current_child().wait_stop_requested()
        plan.note(f"{name} is asked")
        try:
            await anyio.sleep_forever()
        finally:
            plan.note(f"{name} is cancelled")

    async with Supervisor() as supervisor:
        supervisor.start("a", partial(stubborn, "a"))
        supervisor.start("b", partial(stubborn, "b"))
        await anyio.sleep(1)
        await supervisor.stop(grace_seconds=3)
        assert plan.log == ["1 b is asked", "4 b is cancelled", "4 a is asked", "4 a is cancelled"]
        assert supervisor.status == "stopped"
        with pytest.raises(SupervisorEndedError):
            supervisor.start("c", plan.child("c"))
        await supervisor.stop()


async def test_the_shorter_grace_counts() -> None:
    plan = Plan()

    async def stubborn() -> None:
        current_child()
        await anyio.sleep_forever()

    async with Supervisor(grace_seconds=1000) as supervisor, anyio.create_task_group() as task_group:
        supervisor.start("a", stubborn)
        await anyio.sleep(1)
        task_group.start_soon(supervisor.stop)
        await anyio.sleep(1)
        await supervisor.stop(2)
        assert anyio.current_time() == plan.begin + 4


async def test_stopping_one_child_leaves_the_others() -> None:
    plan = Plan()
    async with Supervisor(strategy="one_for_all") as supervisor:
        supervisor.start("a", plan.child("a"), restart=Restart(mode="always"))
        supervisor.start("b", plan.child("b"))
        await anyio.sleep(1)
        await supervisor.stop_child("a")
        assert [child.status for child in supervisor.children] == ["stopped", "running"]
        with pytest.raises(KeyError):
            await supervisor.stop_child("nobody")


async def test_a_child_that_waits_for_its_restart_can_be_stopped_and_forgotten() -> None:
    plan = Plan()
    async with Supervisor() as supervisor:
        supervisor.start("a", plan.child("a", "1"), restart=Restart(backoff_seconds=20))
        await anyio.sleep(5)
        with pytest.raises(NameConflictError, match="is running or will be started"):
            supervisor.forget_child("a")
        await supervisor.stop_child("a")
        assert supervisor.children[0].status == "suppressed"
        supervisor.forget_child("a")
        assert supervisor.children == ()
        with pytest.raises(KeyError):
            supervisor.forget_child("a")


async def test_a_name_is_free_again_when_its_child_has_ended_for_good() -> None:
    plan = Plan()
    async with Supervisor() as supervisor:
        supervisor.start("a", plan.child("a", None))
        with pytest.raises(NameConflictError, match="has a child 'a' already"):
            supervisor.start("a", plan.child("a"))
        await supervisor.wait_ended()
        supervisor.start("a", plan.child("again"))
        await anyio.sleep(1)
        assert plan.log[-1] == "1 again starts"


async def test_a_supervisor_waits_until_all_children_have_ended() -> None:
    plan = Plan()
    async with Supervisor() as supervisor:
        await supervisor.wait_ended()
        supervisor.start("a", plan.child("a", "1", None), restart=STEADY)
        supervisor.start("b", plan.child("b", None, seconds=2))
        await supervisor.wait_ended()
        assert anyio.current_time() == plan.begin + 3


async def test_an_error_in_the_block_cancels_the_children_and_comes_out_bare() -> None:
    plan = Plan()
    supervisor = Supervisor(children=[Child(name="a", function=plan.child("a"))])

    async def run() -> None:
        async with supervisor:
            await anyio.sleep(1)
            raise RuntimeError("block")

    with pytest.raises(RuntimeError, match="block"):
        await run()
    assert plan.log == ["0 a starts", "1 a ends"]
    assert (supervisor.status, supervisor.children[0].status) == ("stopped", "stopped")


async def test_a_cancelled_supervisor_leaves_nothing_running_and_counts_no_failure() -> None:
    plan = Plan()
    with anyio.move_on_after(2):
        async with Supervisor() as supervisor:
            supervisor.start("a", plan.child("a"), restart=Restart(mode="always"))
            supervisor.start("b", plan.child("b", "oops"), restart=Restart(backoff_seconds=100))
            await anyio.sleep_forever()
    assert plan.log[-1] == "2 a ends"
    assert [child.status for child in supervisor.children] == ["stopped", "suppressed"]
    assert supervisor.statistics().failures == 1


async def test_supervisors_supervise_each_other() -> None:
    plan = Plan()

    async def inner() -> None:
        bad = Child(name="bad", function=plan.child("bad", *"12"), restart=AT_ONCE)
        good = Child(name="good", function=plan.child("good"))
        await Supervisor(children=[good, bad], max_restarts=1).run()

    async with Supervisor() as outer:
        outer.start("inner", inner, restart=STEADY)
        await anyio.sleep(10)
        (child,) = outer.children
        assert (child.restart_count, type(child.last_error)) == (1, RestartLimitError)
        assert plan.log[-3:] == ["2 good ends", "3 good starts", "3 bad starts"]
    assert plan.log[-2:] == ["10 bad ends", "10 good ends"]


async def test_a_supervisor_that_is_run_ends_with_its_children() -> None:
    plan = Plan()
    await Supervisor(children=[Child(name="a", function=plan.child("a", None))]).run()
    assert anyio.current_time() == plan.begin + 1

    async def inner() -> None:
        await Supervisor(children=[Child(name="b", function=plan.child("b", None))]).run()

    async with Supervisor() as outer:
        outer.start("inner", inner)
        await outer.wait_ended()
    assert anyio.current_time() == plan.begin + 2


async def test_events_are_kept_up_to_a_bound_and_can_be_watched() -> None:
    plan = Plan()
    seen: list[str] = []

    async def watch(events: SupervisorEventStream) -> None:
        async for event in events:
            seen.append(f"{event.time - plan.begin:g} {event.kind} {event.child or ''}".rstrip())

    async with anyio.create_task_group() as task_group, Supervisor(max_events=3) as supervisor:
        task_group.start_soon(watch, supervisor.watch())
        supervisor.start("a", plan.child("a", "1"), restart=STEADY)
        await anyio.sleep(4)
    assert seen == [
        "0 started a",
        "1 failed a",
        "1 waiting a",
        "2 restarted a",
        "4 stopping",
        "4 stopped a",
        "4 ended",
    ]
    assert [event.kind for event in supervisor.events] == ["stopping", "stopped", "ended"]


async def test_a_slow_watcher_misses_the_oldest_events() -> None:
    plan = Plan()
    async with Supervisor(max_events=2) as supervisor:
        events = supervisor.watch()
        supervisor.start("a", plan.child("a", *"123"), restart=STEADY)
        await anyio.sleep(1.5)
    assert [event.kind async for event in events] == ["suppressed", "ended"]


async def test_children_have_the_context_of_whoever_started_them_each_time() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")
    seen: list[str] = []

    async def read() -> None:
        seen.append(variable.get())
        variable.set("child")
        raise ValueError

    async with Supervisor(max_restarts=1, circuit_open_seconds=100) as supervisor:
        variable.set("starter")
        supervisor.start("a", read)
        variable.set("later")
        await anyio.sleep(5)
    assert seen == ["starter", "starter"]


async def test_a_supervisor_runs_once_and_not_before_it_is_entered() -> None:
    supervisor = Supervisor()
    assert supervisor.status == "new"
    with pytest.raises(SupervisorEndedError):
        supervisor.start("a", anyio.sleep_forever)
    for call in (supervisor.stop, supervisor.wait_ended):
        with pytest.raises(SupervisorEndedError, match="is not entered"):
            await call()
    async with supervisor:
        assert supervisor.status == "running"
        with pytest.raises(SupervisorEndedError, match="once"):
            await supervisor.__aenter__()
    assert supervisor.status == "stopped"
    await supervisor.wait_ended()


async def test_a_supervisor_is_not_made_with_first_children_that_it_would_refuse() -> None:
    child = Child(name="a", function=anyio.sleep_forever)
    with pytest.raises(NameConflictError, match="two children have the name 'a'"):
        Supervisor(children=[child, ActorChild(name="a", make=Actor)])
    for make in (Child, ActorChild):
        arguments: dict[str, Any] = {"name": "b", "restart": None}
        arguments["function" if make is Child else "make"] = Actor
        with pytest.raises(TypeError, match="must be a Restart"):
            Supervisor(children=[child, make(**arguments)])
    not_callable: Any = "an actor"
    with pytest.raises(TypeError, match="an actor is made by"):
        Supervisor(children=[ActorChild(name="a", make=not_callable)])
    with pytest.raises(ValueError, match="capacity"):
        Supervisor(children=[ActorChild(name="a", make=Actor, capacity=0)])


async def test_first_children_have_the_context_of_whoever_enters_the_supervisor() -> None:
    local: ContextVar[str] = ContextVar("local", default="made")
    seen: list[str] = []

    async def look() -> None:
        seen.append(local.get())

    supervisor = Supervisor(children=[Child(name="a", function=look)])
    local.set("entered")
    await supervisor.run()
    assert seen == ["entered"]


async def test_the_current_child_is_known_in_children_only() -> None:
    with pytest.raises(Exception, match="not a function that a supervisor runs"):
        current_child()


@pytest.mark.parametrize(
    "arguments",
    [
        {"strategy": "none_for_all"},
        {"grace_seconds": -1},
        {"grace_seconds": float("nan")},
        {"grace_seconds": "5"},
        {"max_events": 0},
        {"max_events": 2.5},
        {"max_restarts": -1},
        {"max_restarts": 1.5},
        {"max_restarts": True},
        {"window_seconds": 0},
        {"window_seconds": float("nan")},
        {"window_seconds": "60"},
        {"circuit_open_seconds": -1},
        {"circuit_open_seconds": float("inf")},
        {"circuit_open_seconds": True},
    ],
)
async def test_bad_arguments_of_a_supervisor_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        Supervisor(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments",
    [
        {"mode": "sometimes"},
        {"backoff_seconds": -1},
        {"backoff_seconds": True},
        {"backoff_seconds": None},
        {"max_backoff_seconds": float("inf")},
        {"jitter_seconds": float("nan")},
        {"factor": 0.5},
        {"factor": float("inf")},
        {"factor": float("nan")},
        {"factor": True},
        {"factor": "2"},
    ],
)
async def test_bad_policies_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        Restart(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["on_failure", "always"])
async def test_a_child_that_ends_cancelled_has_not_failed(mode: RestartMode) -> None:
    limit = RestartLimit(max_restarts=0, window_seconds=1, circuit_open_seconds=None)
    state = SupervisorState("one_for_one", limit=limit, grace_seconds=1, record=lambda event: None)
    state.add("a", Restart(mode=mode), 0)
    state.advance(0)
    state.child_ended("a", ChildEnding(kind="cancelled"), 1)
    assert state.failure is None
    assert state.children[0].status == "stopped"
    assert [action.kind for action in state.advance(1)] == ["conclude"]


async def test_a_delay_beyond_all_numbers_is_the_longest_one() -> None:
    restart = Restart(jitter_seconds=0)
    assert restart.delay_seconds("a", recent_restarts=9_999, restart_number=10_000) == 30


async def test_no_delay_is_no_delay_after_any_number_of_restarts() -> None:
    assert AT_ONCE.delay_seconds("a", recent_restarts=9_999, restart_number=10_000) == 0


async def test_a_policy_that_is_none_is_refused_when_the_child_is_started() -> None:
    policy: Any = "always"
    async with Supervisor() as supervisor:
        with pytest.raises(TypeError, match="restart must be a Restart, not 'always'"):
            supervisor.start("child", anyio.sleep_forever, restart=policy)
        assert supervisor.children == ()
