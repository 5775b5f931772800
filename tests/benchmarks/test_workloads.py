import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from benchmarks.measure import CannotMeasureHereError
from benchmarks.metrics import METRICS
from benchmarks.rounds import Subject, SubjectFailedError, Workload, carry_out
from benchmarks.subjects.bursts import Failures, run_in_threads, run_plain_steps, run_steps
from benchmarks.subjects.harness import KINDS
from benchmarks.workloads import (
    BURST,
    BUSY_LOAD,
    EIGHT_TOOLS,
    HTTPX_LOOP,
    ONE_TOOL,
    OTHER_FLOORS,
    OVER_RESPONSES,
    OWN,
    SEQUENTIAL,
    SERVER_ALONE,
    SINGLE_CONNECTIONS,
    TOOL_START,
    WORKLOAD_BENCHMARKS,
)

ROUND_TRIPS = {"one-trip": 1, "two-trips": 2}
BRIEF_BURST = replace(BURST, first_byte_seconds=0.02)


@pytest.mark.parametrize("subject", [OWN[0], OWN[-1]], ids=lambda subject: subject.name)
def test_our_own_steps_take_the_round_trips_that_their_names_say(subject: Subject) -> None:
    trips = next(count for name, count in ROUND_TRIPS.items() if name in subject.name)
    figures = carry_out(replace(SEQUENTIAL, warm_up=1), subject, 3)
    assert set(figures) == set(SEQUENTIAL.metrics)
    assert (figures["round_trips"], figures["errors"]) == (trips, 0)
    assert figures["ready"] > 0


@pytest.mark.parametrize(
    "subject",
    [OVER_RESPONSES, HTTPX_LOOP, SINGLE_CONNECTIONS, *OTHER_FLOORS],
    ids=lambda subject: subject.name,
)
def test_a_burst_of_every_other_subject_takes_two_round_trips_and_no_errors(subject: Subject) -> None:
    figures = carry_out(BRIEF_BURST, subject, 5)
    assert (figures["round_trips"], figures["errors"]) == (2, 0)
    assert figures["over_ideal"] > 0.9


def test_tools_are_called_and_waited_for() -> None:
    figures = carry_out(replace(EIGHT_TOOLS, warm_up=0), OWN[-1], 1)
    assert (figures["errors"], figures["round_trips"]) == (0, 2)
    assert figures["wall"] >= 0.09


@pytest.mark.parametrize("subject", [OWN[-1], OVER_RESPONSES], ids=lambda subject: subject.name)
def test_the_start_of_a_tool_is_measured_from_the_sending_of_its_arguments(subject: Subject) -> None:
    figures = carry_out(replace(TOOL_START, after_calls_seconds=0.3, warm_up=0), subject, 1)
    assert figures["errors"] == 0
    assert 0 < figures["tool_start"] < 5


def test_the_server_is_measured_alone() -> None:
    figures = carry_out(SERVER_ALONE, BUSY_LOAD, 2)
    assert figures["errors"] == 0
    assert figures["rate"] > 0


def test_a_burst_that_is_not_over_in_time_counts_its_steps_as_errors(
    capfd: pytest.CaptureFixture[str],
) -> None:
    hanging = replace(BRIEF_BURST, first_byte_seconds=30.0, limit_seconds=0.5)
    assert carry_out(hanging, HTTPX_LOOP, 3)["errors"] == 3
    assert "burst, httpx-loop: 3 x not over after 0.5 s" in capfd.readouterr().err


def test_a_subject_whose_program_crashes_is_told(tmp_path: Path) -> None:
    with pytest.raises(SubjectFailedError, match="nobody ended with status 1"):
        carry_out(SEQUENTIAL, Subject(name="nobody", program="no_such_program"), 1)


def test_a_subject_that_is_not_to_be_had_starts_no_server() -> None:
    def interpreter() -> Path:
        raise CannotMeasureHereError("it is not to be had")

    with pytest.raises(CannotMeasureHereError, match="not to be had"):
        carry_out(SEQUENTIAL, replace(HTTPX_LOOP, interpreter=interpreter), 1)


def test_every_workload_names_metrics_of_the_table() -> None:
    for workload in (SEQUENTIAL, BURST, ONE_TOOL, EIGHT_TOOLS, TOOL_START, SERVER_ALONE):
        assert set(workload.metrics) <= set(METRICS)
        assert workload.kind in KINDS


def test_the_suites_hold_what_the_goals_are_about() -> None:
    suites = {benchmark.name: benchmark.smallest_suite for benchmark in WORKLOAD_BENCHMARKS}
    assert len(suites) == len(WORKLOAD_BENCHMARKS)
    assert suites["burst-1000-nighthawk-async-one-trip-trio"] == "default"
    assert suites["burst-10000-nighthawk-async-two-trips-trio"] == "full"
    assert [name for name, suite in suites.items() if suite == "quick"]


def test_steps_that_fail_are_counted_and_the_most_frequent_message_comes_first() -> None:
    failures = Failures()
    numbers = iter(range(5))

    def step() -> None:
        if next(numbers) != 3:
            raise ValueError("wrong")
        raise OSError("gone")

    run_plain_steps(step, 5, failures, limit_seconds=60)
    assert failures.count == 5
    assert failures.messages() == ["4 x ValueError: wrong", "1 x OSError: gone"]


@pytest.mark.anyio
@pytest.mark.parametrize("at_once", [True, False])
async def test_async_steps_that_are_not_over_in_time_are_counted(at_once: bool) -> None:
    failures = Failures()
    await run_steps(anyio.sleep_forever, 3, failures, at_once=at_once, limit_seconds=0.01)
    assert failures.messages() == ["3 x not over after 0.01 s"]


def test_plain_steps_at_once_each_have_a_thread() -> None:
    failures = Failures()
    barrier = threading.Barrier(4)

    def step() -> None:
        barrier.wait(240)

    run_in_threads(step, 4, failures, limit_seconds=60)
    assert failures.count == 0


def test_the_harness_needs_neither_an_http_client_nor_the_project() -> None:
    program = (
        "import sys; import benchmarks.subjects.harness; "
        "print(sorted({'httpx', 'nighthawk_async', 'msgspec'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_a_workload_leaves_out_what_could_not_be_measured() -> None:
    workload = Workload(name="x", what="x", kind="assign", metrics=("errors", "tool_start"))
    assert carry_out(workload, HTTPX_LOOP, 1) == {"errors": 0}
