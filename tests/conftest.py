"""What every test gets: both event loops, virtual time on request, and four detectors.

A test marked `anyio` runs on asyncio and on Trio, or on one of them by turns (`tests.turns`).
Marked `virtual_time` as well, it runs on Trio alone, with a clock that jumps to the next deadline whenever
every task waits. Trio's own tests are marked `trio`.

Each test fails when a step of its event loop lasts longer than two seconds, or when it leaves a thread, a
child process or a socket behind; the markers `may_block_event_loop` and `may_leave_behind` say, with a
reason, that a test does so on purpose. No test can reach another machine, and one that tries fails.
"""

import faulthandler
import gc
import math
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, settings
from trio.testing import MockClock

from nighthawk_async.configuration import StepExecutorConfiguration
from tests.bytecode import compile_share
from tests.detectors.event_loop import EventLoopWatch, TrioSteps, watching_asyncio
from tests.detectors.leftovers import describe_leftovers, take_stock, wait_for_leftovers
from tests.detectors.network import Attempts, confined_to_loopback
from tests.long_first import DurationKeeper, put_long_tests_first
from tests.quick_looks import looking_quickly
from tests.turns import keep_turns
from tests.unsteady import take_recorder
from tests.warm_python import open_template
from tests.weekly import keep_cases_of_every_change, keep_one_case

WATCH = EventLoopWatch(bound_seconds=2.0)
PATIENCE_SECONDS = 60.0
LAST_SECONDS = 120.0
"""The seconds after its timeout in which a test must have ended; then its process is ended."""
_SESSION = ExitStack()
_OUTCOME = pytest.StashKey[bool]()
_ATTEMPTS = pytest.StashKey[Attempts]()
_STDERR = pytest.StashKey[int]()

# Whoever starts a job in the background lets it ignore Ctrl-C, which tests send to themselves and to scripts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same inputs on every run, so few of them, and no verdict on how fast a machine is.
# `--hypothesis-profile=explore` looks further.
settings.register_profile(
    "house", deadline=None, derandomize=True, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", settings.get_profile("house"), derandomize=False, max_examples=2_000)
settings.load_profile("house")


def _trio_options(**options: Any) -> tuple[str, dict[str, Any]]:
    instruments = [TrioSteps(WATCH)]
    return "trio", {"restrict_keyboard_interrupt_to_checkpoints": True, "instruments": instruments, **options}


@pytest.fixture
def specification_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Configurations have `profile="specification"`, and all provided tools, unless they say otherwise."""
    make = StepExecutorConfiguration.__init__

    def make_with_profile(self: StepExecutorConfiguration, **settings: Any) -> None:
        tools = ("nh_eval", "nh_assign", "nh_exec")
        make(self, **{"profile": "specification", "provided_tools": tools, **settings})

    monkeypatch.setattr(StepExecutorConfiguration, "__init__", make_with_profile)


@pytest.fixture(
    scope="module",
    params=[pytest.param(("asyncio", {}), id="asyncio"), pytest.param(_trio_options(), id="trio")],
)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The backend a test marked `anyio` runs on, with its options."""
    return request.param


@pytest.fixture
def virtual_clock(anyio_backend: tuple[str, dict[str, Any]]) -> MockClock:
    """The clock of a test marked `virtual_time`."""
    clock = anyio_backend[1].get("clock")
    if clock is None:
        pytest.fail("only a test marked virtual_time has a virtual clock")
    return clock


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests marked `virtual_time` on Trio with a clock that jumps."""
    if "anyio_backend" in metafunc.fixturenames and metafunc.definition.get_closest_marker("virtual_time"):
        options = _trio_options(clock=MockClock(autojump_threshold=0))
        backend = pytest.mark.parametrize("anyio_backend", [pytest.param(options, id="virtual_time")])
        metafunc.definition.add_marker(backend)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that choose among the cases."""
    text = "run other cases of those that take turns than the first Python does"
    parser.addoption("--other-turn", action="store_true", help=text)
    parser.addoption("--one-case", action="store_true", help="run one case of each test function")
    text = "keep the seconds of long test functions in tests/durations.json"
    parser.addoption("--keep-durations", action="store_true", help=text)
    text = "run weekly tests too, and all cases of all tests"
    parser.addoption("--all-cases", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Start watching."""
    if config.getoption("--keep-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(DurationKeeper())
    recorder = take_recorder()
    if recorder is not None:
        config.pluginmanager.register(recorder)
    assert sys.__stderr__ is not None, "pytest writes to it"
    config.stash[_STDERR] = os.dup(sys.__stderr__.fileno())  # as it is now: tests capture what is written
    config.stash[_ATTEMPTS] = _SESSION.enter_context(confined_to_loopback())
    _SESSION.enter_context(watching_asyncio(WATCH))
    _SESSION.enter_context(looking_quickly())
    WATCH.start()
    _SESSION.callback(WATCH.stop)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop watching."""
    _SESSION.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Watch tests marked `trio` too, refuse markers without a reason, and choose among the cases."""
    keep_turns(config, items)
    keep_cases_of_every_change(config, items)
    keep_one_case(config, items)
    put_long_tests_first(config, items)
    for item in items:
        markers = list(item.iter_markers())
        if any(marker.name == "trio" for marker in markers):
            item.add_marker(pytest.mark.trio(run=_run_watched_trio))
        for marker in markers:
            is_excuse = marker.name in ("may_block_event_loop", "may_leave_behind")
            if is_excuse and not (marker.args or marker.kwargs.get("reason")):
                raise pytest.UsageError(f"{item.nodeid}: the marker {marker.name} needs a reason")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without the garbage collector, which would look at the same living tests again and again."""
    compile_share(session.config)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Spare the garbage collector what all tests have in common: frameworks, and the tests themselves.

    What is garbage by then stays, which costs less than looking for it in everything once more.
    """
    gc.freeze()


def _run_watched_trio(
    function: Callable[..., Any], *arguments: Any, instruments: Any = (), **options: Any
) -> Any:
    return trio.run(function, *arguments, instruments=[*instruments, TrioSteps(WATCH)], **options)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the process of a test that its timeout does not end, with the stacks of all threads.

    The timeout raises in the main thread, once: that may wait in C, or for a thread that never ends. The
    other tests go on in another process, and this one counts as failed.
    """
    marker = item.get_closest_marker("timeout")
    seconds = float(marker.args[0] if marker is not None else item.config.getini("timeout"))
    faulthandler.dump_traceback_later(seconds + LAST_SECONDS, exit=True, file=item.config.stash[_STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether the test itself passed: a failed one may hold on to things through its traceback."""
    report = yield
    item.stash[_OUTCOME] = item.stash.get(_OUTCOME, True) and report.passed
    return report


@pytest.fixture(scope="session")
def all_cases(pytestconfig: pytest.Config) -> bool:
    """Whether all cases are asked for: otherwise a test whose size can change takes about a fifth."""
    return bool(pytestconfig.getoption("--all-cases"))


@pytest.fixture(scope="session")
def warm_python() -> Iterator[None]:
    """What lets the processes that a test starts begin warm; see `tests.warm_python`."""
    with open_template():
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_word_of_a_busy_machine() -> None:
    """Whether code holds the event loop for a tenth of a second, as is logged, depends on others.

    Tests of just that set the time themselves.
    """
    from nighthawk_async.kernel import commands

    commands._SLOW_SECONDS = math.inf  # pyright: ignore[reportPrivateUsage]


@pytest.fixture(autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("may_leave_behind"):
        yield
        return
    before = take_stock()
    yield
    if not request.node.stash.get(_OUTCOME, False):
        return
    leftovers = wait_for_leftovers(before, patience_seconds=PATIENCE_SECONDS)
    if leftovers:
        pytest.fail(f"the test left behind:\n{describe_leftovers(leftovers)}", pytrace=False)


@pytest.fixture(autouse=True)
def _event_loop_not_blocked(request: pytest.FixtureRequest) -> Iterator[None]:
    WATCH.take_reports()
    yield
    reports = WATCH.take_reports()
    if reports and not request.node.get_closest_marker("may_block_event_loop"):
        pytest.fail("the test blocked its event loop:\n" + "\n".join(reports), pytrace=False)


@pytest.fixture(autouse=True)
def _on_this_machine(request: pytest.FixtureRequest) -> Iterator[None]:
    attempts = request.config.stash[_ATTEMPTS]
    attempts.take_reports()
    yield
    reports = attempts.take_reports()
    if reports:
        pytest.fail("\n".join(dict.fromkeys(reports)), pytrace=False)
