"""`circuit_breaker`: when it opens, who may find out whether things are better, and what says nothing."""

import threading
from contextlib import suppress
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

import nighthawk_async as nh
from nighthawk_async.errors import HumanError
from nighthawk_async.resilience import CircuitOpenError, InvalidPolicyError, circuit_breaker
from nighthawk_async.resilience.circuit_breaker import CircuitState
from nighthawk_async.testing import ScriptedExecutor, pass_response
from tests.unit.resilience.resilience_support import Script, recorded_events

anyio_test = pytest.mark.anyio


async def failing() -> None:
    raise OSError("down")


async def working() -> str:
    return "up"


async def open_circuit(breaker: Any, failures: int) -> None:
    for _ in range(failures):
        with pytest.raises(OSError, match="down"):
            await breaker(failing)()


@anyio_test
@pytest.mark.virtual_time
async def test_it_opens_after_failures_in_a_row_and_closes_after_a_probe_that_succeeds() -> None:
    breaker = circuit_breaker(fail_threshold=3, reset_timeout=30)
    assert breaker.state == "closed"
    await open_circuit(breaker, 3)
    assert breaker.state == "open"
    await anyio.sleep(10)
    with pytest.raises(
        CircuitOpenError, match=r"failing is open: it lets nothing through for 20 sec"
    ) as caught:
        await breaker(working)()
    assert caught.value.retry_in == pytest.approx(20)
    await anyio.sleep(20)
    assert breaker.state == "half_open"
    assert await breaker(working)() == "up"
    assert breaker.state == "closed"
    await open_circuit(breaker, 2)
    assert breaker.state == "closed"


@anyio_test
@pytest.mark.virtual_time
async def test_it_opens_again_when_the_probe_fails() -> None:
    breaker = circuit_breaker(fail_threshold=2, reset_timeout=30)
    await open_circuit(breaker, 2)
    await anyio.sleep(30)
    await open_circuit(breaker, 1)
    assert breaker.state == "open"
    await anyio.sleep(29)
    with pytest.raises(CircuitOpenError):
        await breaker(working)()
    await anyio.sleep(1)
    assert await breaker(working)() == "up"


@anyio_test
async def test_a_success_in_between_begins_the_count_anew() -> None:
    breaker = circuit_breaker(fail_threshold=2)
    for _ in range(3):
        await open_circuit(breaker, 1)
        await breaker(working)()
    assert breaker.state == "closed"


@anyio_test
@pytest.mark.virtual_time
async def test_one_probe_goes_at_a_time_and_the_others_are_refused_meanwhile() -> None:
    breaker = circuit_breaker(fail_threshold=1, reset_timeout=30)
    await open_circuit(breaker, 1)
    await anyio.sleep(30)
    probing = anyio.Event()
    refused: list[CircuitOpenError] = []

    @breaker
    async def probe() -> None:
        probing.set()
        await anyio.sleep(5)

    async def try_too() -> None:
        await probing.wait()
        try:
            await breaker(working)()
        except CircuitOpenError as error:
            refused.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(probe)
        for _ in range(5):
            tasks.start_soon(try_too)
        await probing.wait()
        assert breaker.statistics().retry_in is None
    assert [error.retry_in for error in refused] == [None] * 5
    assert "until its probe call ends" in str(refused[0])
    assert breaker.state == "closed"


@anyio_test
@pytest.mark.virtual_time
async def test_a_cancelled_probe_says_nothing_and_makes_way_for_another() -> None:
    breaker = circuit_breaker(fail_threshold=1, reset_timeout=30)
    await open_circuit(breaker, 1)
    await anyio.sleep(30)
    with anyio.move_on_after(1):
        await breaker(anyio.sleep_forever)()
    assert breaker.state == "half_open"
    assert await breaker(working)() == "up"
    assert breaker.state == "closed"


@anyio_test
async def test_a_cancellation_is_no_failure() -> None:
    breaker = circuit_breaker(fail_threshold=1)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await breaker(anyio.sleep_forever)()
    assert breaker.state == "closed"
    assert breaker.statistics().in_progress == 0


@anyio_test
@pytest.mark.virtual_time
async def test_a_call_that_began_before_the_circuit_opened_says_nothing_afterwards() -> None:
    breaker = circuit_breaker(fail_threshold=1, reset_timeout=30)

    async def late(seconds: float, error: Exception | None) -> None:
        await anyio.sleep(seconds)
        if error is not None:
            raise error

    async def call_late(seconds: float, error: Exception | None) -> None:
        with suppress(OSError):
            await breaker(late)(seconds, error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call_late, 5, None)
        tasks.start_soon(call_late, 40, OSError("from before"))
        await anyio.wait_all_tasks_blocked()
        await open_circuit(breaker, 1)
        await anyio.sleep(6)
        assert breaker.state == "open"
        await anyio.sleep(30)
        await breaker(working)()
        await anyio.sleep(10)
        assert breaker.state == "closed"


@pytest.mark.parametrize(
    ("on", "error", "is_failure"),
    [
        (None, ValueError(), True),
        (None, nh.ExecutionError("failed"), True),
        (None, HumanError(), False),
        (None, KeyboardInterrupt(), False),
        (OSError, ConnectionError(), True),
        (OSError, ValueError(), False),
        (OSError, ExceptionGroup("", [ValueError(), OSError()]), True),
        ((OSError, ValueError), ValueError(), True),
    ],
    ids=str,
)
def test_only_named_errors_are_failures(on: Any, error: BaseException, is_failure: bool) -> None:
    breaker = circuit_breaker(fail_threshold=1, on=on)
    with pytest.raises(type(error)):
        breaker(Script(error).call)()
    assert breaker.state == ("open" if is_failure else "closed")


def test_threads_use_the_clock_of_the_machine() -> None:
    breaker = circuit_breaker(fail_threshold=1, reset_timeout=0)
    with pytest.raises(OSError, match="down"):
        breaker(Script(OSError("down")).call)()
    assert breaker.state == "half_open"
    assert breaker(Script("up").call)() == "up"
    assert breaker.state == "closed"


def test_one_thread_probes_at_a_time() -> None:
    breaker = circuit_breaker(fail_threshold=1, reset_timeout=0)
    with pytest.raises(OSError, match="down"):
        breaker(Script(OSError("down")).call)()
    inside, go_on = threading.Event(), threading.Event()

    @breaker
    def probe() -> None:
        inside.set()
        go_on.wait(240)

    thread = threading.Thread(target=probe)
    thread.start()
    inside.wait(240)
    with pytest.raises(CircuitOpenError):
        breaker(Script("up").call)()
    go_on.set()
    thread.join()
    assert breaker.state == "closed"


def test_one_circuit_serves_several_event_loops_and_threads() -> None:
    breaker = circuit_breaker(fail_threshold=1, reset_timeout=1_000)

    async def fail() -> None:
        await open_circuit(breaker, 1)

    async def refuse() -> float | None:
        with pytest.raises(CircuitOpenError) as caught:
            await breaker(working)()
        return caught.value.retry_in

    anyio.run(fail, backend="trio", backend_options={"clock": MockClock()})
    with pytest.raises(CircuitOpenError):
        breaker(Script("up").call)()
    for backend in ("asyncio", "trio"):
        seconds = anyio.run(refuse, backend=backend)
        assert seconds is not None
        assert 900 < seconds <= 1_000


@anyio_test
async def test_it_wraps_natural_functions_and_goes_between_function_and_caller() -> None:
    @circuit_breaker(fail_threshold=1, name="numbers")
    @nh.natural_function
    async def number() -> int:
        """natural
        Set <:result> to a number.
        """
        result: int
        return result

    async with nh.run(ScriptedExecutor(default_response=pass_response(result="no number"))):
        with pytest.raises(nh.ExecutionError):
            await number()
        with pytest.raises(CircuitOpenError, match="the circuit numbers is open"):
            await number()


@anyio_test
async def test_it_tells_what_it_has_seen_and_can_be_reset() -> None:
    breaker = circuit_breaker(fail_threshold=2)
    assert breaker.name == "circuit_breaker"
    await breaker(working)()
    await open_circuit(breaker, 2)
    with pytest.raises(CircuitOpenError):
        await breaker(working)()
    seen = breaker.statistics()
    assert (seen.succeeded, seen.failed, seen.refused, seen.in_progress) == (1, 2, 1, 0)
    assert seen.state == "open"
    assert breaker.name == "working"
    breaker.reset()
    assert breaker.statistics().consecutive_failures == 0
    assert await breaker(working)() == "up"


@anyio_test
@pytest.mark.virtual_time
async def test_the_current_span_shows_the_changes() -> None:
    breaker = circuit_breaker(fail_threshold=1, reset_timeout=30, name="service")
    with recorded_events() as events:
        await open_circuit(breaker, 1)
        await anyio.sleep(30)
        await breaker(working)()
    assert events == [
        (f"nighthawk.circuit.{change}", {"nighthawk.circuit.name": "service"})
        for change in ("opened", "half_opened", "closed")
    ]


def test_it_decorates_directly() -> None:
    script = Script(OSError("down"))
    function = circuit_breaker(script.call, fail_threshold=1)
    with pytest.raises(OSError, match="down"):
        function()
    with pytest.raises(CircuitOpenError):
        function()
    assert script.calls == 1


@pytest.mark.parametrize(
    "arguments", [{"fail_threshold": 0}, {"reset_timeout": -1}, {"on": BaseException}, {"on": HumanError}]
)
def test_arguments_that_make_no_sense_are_refused_at_once(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidPolicyError, match=next(iter(arguments))):
        circuit_breaker(**arguments)


def test_the_end_of_the_waiting_time_is_not_missed_by_the_last_bit_of_a_float() -> None:
    for number in range(1_000):
        state = CircuitState(fail_threshold=1, reset_timeout=0.1)
        opened_at = number / 7
        passage = state.enter(opened_at)
        assert passage is not None
        state.leave(passage, is_failure=True, now=opened_at)
        assert state.status(opened_at + 0.1) == "half_open"
