"""`retrying`: after which errors, how often, after how long, and what the last error tells."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from random import Random
from typing import Any

import anyio
import anyio.to_thread
import pytest
import tenacity
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.errors import BudgetExceededError, HookError, HumanError, StepAbortedError
from nighthawk_async.resilience import (
    CircuitOpenError,
    ExponentialWait,
    InvalidPolicyError,
    RetryScheduled,
    retrying,
)
from nighthawk_async.testing import ScriptedExecutor, pass_response
from tests.unit.resilience.resilience_support import Script, recorded_events

anyio_test = pytest.mark.anyio


def failed(text: str = "failed") -> nh.ExecutionError:
    return nh.ExecutionError(text)


def overspent() -> BudgetExceededError:
    return BudgetExceededError(budget="b", resource="tokens", limit=1, spent=1, reserved=0, asked=1)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@anyio_test
async def test_a_function_is_called_again_until_it_succeeds() -> None:
    script = Script(failed(), failed(), "done")
    assert await retrying(script.call_async, wait=0)("value") == "done"
    assert script.calls == 3


def test_a_synchronous_function_is_called_again_until_it_succeeds() -> None:
    script = Script(failed(), failed(), "done")
    assert retrying(script.call, wait=0)("value") == "done"
    assert script.calls == 3


@anyio_test
async def test_it_decorates_with_and_without_arguments() -> None:
    script = Script(failed(), "done")

    @retrying(wait=0)
    async def with_arguments(value: int) -> object:
        return await script.call_async(value)

    @retrying
    async def without_arguments(value: int) -> object:
        return await script.call_async(value)

    assert await with_arguments(1) == "done"
    assert await without_arguments(1) == "done"


@anyio_test
async def test_a_step_that_fails_is_carried_out_again() -> None:
    @retrying(wait=0)
    @nh.natural_function
    async def number() -> int:
        """natural
        Set <:result> to a number.
        """
        result: int
        return result

    executor = ScriptedExecutor([pass_response(result="no number"), pass_response(result=3)])
    async with nh.run(executor):
        assert await number() == 3


def test_a_synchronous_natural_function_is_carried_out_again() -> None:
    @retrying(wait=0)
    @nh.natural_function
    def number() -> int:
        """natural
        Set <:result> to a number.
        """
        result: int
        return result

    executor = ScriptedExecutor([pass_response(result="no number"), pass_response(result=3)])
    with nh.run(executor):
        assert number() == 3


@pytest.mark.parametrize(
    ("error", "is_retried"),
    [
        (failed(), True),
        (nh.errors.StepLimitError("too many turns"), True),
        (nh.errors.ModelConnectionError("broken", is_transient=True), True),
        (nh.errors.ModelStatusError("busy", status=503, is_transient=True), True),
        (nh.errors.ModelStatusError("forbidden", status=403), False),
        (nh.errors.MissingCredentialError("no key"), False),
        (nh.NighthawkError("no run"), False),
        (nh.errors.RefusalError("no, says the model"), False),
        (ExceptionGroup("one refused", [failed(), nh.errors.RefusalError("no")]), False),
        (ValueError("a raise outcome"), False),
        (TimeoutError(), False),
        (overspent(), False),
        (StepAbortedError("stop"), False),
        (HookError("no", hook="h"), False),
        (HumanError("no"), False),
        (CircuitOpenError("c", retry_in=1), False),
        (ExceptionGroup("all of the kind", [failed(), ExceptionGroup("inside", [failed()])]), True),
        (ExceptionGroup("one of another kind", [failed(), ValueError()]), False),
        (caused(failed(), overspent()), False),
        (caused(failed(), ValueError()), True),
        (KeyboardInterrupt(), False),
        (SystemExit(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_by_default_it_tries_again_after_failed_steps_and_model_errors_that_pass(
    error: BaseException, is_retried: bool
) -> None:
    script = Script(error, "done")
    function = retrying(script.call, wait=0)
    if is_retried:
        assert function() == "done"
    else:
        with pytest.raises(type(error)) as caught:
            function()
        assert caught.value is error
        assert script.calls == 1
        assert not hasattr(error, "__notes__")


@pytest.mark.parametrize(
    ("on", "error", "is_retried"),
    [
        (ValueError, ValueError(), True),
        ((ValueError, OSError), ConnectionError(), True),
        (ValueError, failed(), False),
        (ValueError, ExceptionGroup("", [ValueError(), UnicodeError()]), True),
        (ExceptionGroup, ExceptionGroup("", [KeyError()]), True),
        (Exception, KeyError(), True),
        (Exception, nh.errors.RefusalError("no"), False),
        (nh.errors.ExecutionError, nh.errors.RefusalError("no"), False),
        ((KeyError, nh.errors.RefusalError), nh.errors.RefusalError("no"), True),
        (Exception, overspent(), False),
        (Exception, CancelledError(), False),
        (Exception, ExceptionGroup("", [KeyError(), HumanError()]), False),
        (Exception, caused(KeyError(), StepAbortedError("stop")), False),
        (nh.NighthawkError, HookError("no", hook="h"), False),
        (TimeoutError, nh.parallel.DeadlineExceededError(1), True),
        (CircuitOpenError, CircuitOpenError("c", retry_in=None), True),
    ],
)
def test_errors_may_be_named_but_never_final_ones(on: Any, error: Exception, is_retried: bool) -> None:
    function = retrying(Script(error, "done").call, on=on, wait=0)
    if is_retried:
        assert function() == "done"
    else:
        with pytest.raises(type(error)):
            function()


def test_the_condition_has_to_agree_too() -> None:
    seen: list[Exception] = []

    def is_busy(error: Exception) -> bool:
        seen.append(error)
        return "busy" in str(error)

    busy, other = failed("busy"), failed("other")
    function = retrying(Script(busy, other, "never").call, retry_if=is_busy, wait=0)
    with pytest.raises(nh.ExecutionError, match="other"):
        function()
    assert seen == [busy, other]
    unnamed = retrying(Script(ValueError("busy")).call, retry_if=is_busy, wait=0)
    with pytest.raises(ValueError, match="busy"):
        unnamed()


@anyio_test
@pytest.mark.parametrize("is_async", [True, False])
async def test_the_last_error_arrives_bare_and_tells_of_the_others(is_async: bool) -> None:
    last = failed("third")
    script = Script(failed("first"), failed("second\nline"), last)
    if is_async:
        with pytest.raises(nh.ExecutionError) as caught:
            await retrying(script.call_async, wait=0)()
    else:
        with pytest.raises(nh.ExecutionError) as caught:
            retrying(script.call, wait=0.0)()
    assert caught.value is last
    assert caught.value.__cause__ is caught.value.__context__ is None
    name = "Script.call_async" if is_async else "Script.call"
    assert caught.value.__notes__ == [
        f"3 attempts at {name}, with waits of 0, 0 seconds; errors before this one:\n"
        "  ExecutionError: first\n  ExecutionError: second line"
    ]


def test_an_error_of_another_kind_later_on_tells_of_the_others_too() -> None:
    with pytest.raises(ValueError, match="other") as caught:
        retrying(Script(failed("first"), ValueError("other")).call, wait=0)()
    assert "2 attempts" in caught.value.__notes__[0]


def test_many_and_long_errors_are_told_in_short() -> None:
    errors = [failed(f"number {number} " + "x" * 10_000) for number in range(9)]
    with pytest.raises(nh.ExecutionError) as caught:
        retrying(Script(*errors).call, attempts=9, wait=0)()
    (note,) = caught.value.__notes__
    assert len(note) < 1_500
    assert "(3 more)" in note
    assert "number 7" in note
    assert "number 2" not in note


def test_one_attempt_is_none_more() -> None:
    script = Script(failed())
    with pytest.raises(nh.ExecutionError):
        retrying(script.call, attempts=1)()
    assert script.calls == 1


@anyio_test
@pytest.mark.virtual_time
async def test_it_waits_on_the_clock_of_the_event_loop() -> None:
    begin = anyio.current_time()
    script = Script(failed(), failed(), "done")
    assert await retrying(script.call_async, wait=100)() == "done"
    assert anyio.current_time() - begin == pytest.approx(200)


@anyio_test
@pytest.mark.virtual_time
async def test_in_a_worker_thread_it_waits_on_the_clock_of_the_event_loop() -> None:
    begin = anyio.current_time()
    script = Script(failed(), "done")
    assert await anyio.to_thread.run_sync(retrying(script.call, wait=100)) == "done"
    assert anyio.current_time() - begin == pytest.approx(100)


def waits_of(wait: Any, errors: list[Exception]) -> list[float]:
    """The waits after some errors, none of them waited."""
    policy = retrying(wait=wait, attempts=100).policy
    return [policy.wait_after(error, number) or 0.0 for number, error in enumerate(errors, 1)]


def test_a_wait_may_be_a_number_a_function_or_one_of_tenacity() -> None:
    errors: list[Exception] = [failed("a"), failed("bb"), failed("ccc")]
    assert waits_of(2, errors) == [2, 2, 2]
    assert waits_of(lambda attempt, error: 10 * attempt + len(str(error)), errors) == [11, 22, 33]
    assert waits_of(tenacity.wait_incrementing(start=1, increment=5), errors) == [1, 6, 11]
    assert waits_of(tenacity.wait_fixed(1) + tenacity.wait_fixed(2), errors) == [3, 3, 3]
    assert waits_of(tenacity.wait_exception(lambda error: len(str(error))), errors) == [1, 2, 3]


def test_the_waits_double_and_are_shortened_by_chance() -> None:
    errors: list[Exception] = [failed()] * 8
    assert waits_of(ExponentialWait(jitter=0), errors) == [1, 2, 4, 8, 16, 32, 60, 60]
    assert waits_of(ExponentialWait(first=0.5, most=3, draw=lambda: 1), errors[:4]) == [0.25, 0.5, 1, 1.5]
    draw = Random(7).random
    seeded = waits_of(ExponentialWait(draw=Random(7).random), errors[:4])
    assert seeded == [longest * (1 - 0.5 * draw()) for longest in (1, 2, 4, 8)]
    for longest, wait in zip((1, 2, 4, 8), waits_of(None, errors[:4]), strict=True):
        assert longest / 2 <= wait <= longest
    assert ExponentialWait(jitter=0)(100_000, failed()) == 60


@pytest.mark.parametrize(
    "arguments", [{"first": -1}, {"most": float("inf")}, {"first": float("nan")}, {"jitter": 1.5}]
)
def test_waits_that_make_no_sense_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="waits are seconds"):
        ExponentialWait(**arguments)  # type: ignore[arg-type]


def test_a_wait_that_the_other_side_asks_for_is_the_least() -> None:
    def busy(seconds: float | None) -> nh.errors.ModelStatusError:
        return nh.errors.ModelStatusError("busy", status=429, is_transient=True, retry_after_seconds=seconds)

    asked: list[Exception] = [
        busy(7),
        busy(None),
        busy(0.5),
        ExceptionGroup("", [busy(3), busy(9), failed()]),
    ]
    assert waits_of(1, asked) == [7, 1, 1, 9]
    policy = retrying(on=CircuitOpenError, wait=1).policy
    assert policy.wait_after(CircuitOpenError("c", retry_in=20), 1) == 20
    assert policy.wait_after(CircuitOpenError("c", retry_in=None), 1) == 1


def test_nobody_waits_for_hours_because_a_provider_asks_to() -> None:
    tomorrow = nh.errors.ModelStatusError("quota", status=429, is_transient=True, retry_after_seconds=86_400)
    script = Script(tomorrow, "done")
    with pytest.raises(nh.errors.ModelStatusError):
        retrying(script.call)()
    assert retrying(max_retry_after=100_000, wait=0).policy.wait_after(tomorrow, 1) == 86_400


@anyio_test
@pytest.mark.virtual_time
async def test_a_cancellation_ends_the_wait() -> None:
    script = Script(failed())
    with anyio.move_on_after(5) as scope:
        await retrying(script.call_async, wait=100)()
    assert scope.cancelled_caught
    assert script.calls == 1
    assert anyio.current_time() == scope.deadline


@anyio_test
async def test_a_cancellation_of_the_function_is_no_failure() -> None:
    calls = 0

    @retrying(on=Exception, wait=0)
    async def sleep() -> None:
        nonlocal calls
        calls += 1
        await anyio.sleep_forever()

    with anyio.move_on_after(0) as scope:
        await sleep()
    assert scope.cancelled_caught
    assert calls == 1


@anyio_test
async def test_a_failure_during_a_cancellation_does_not_end_it() -> None:
    calls = 0

    @retrying(wait=0)
    async def fail_when_cancelled() -> None:
        nonlocal calls
        calls += 1
        try:
            await checkpoint()
        except anyio.get_cancelled_exc_class():
            raise failed() from None

    with anyio.CancelScope() as scope:
        scope.cancel()
        await fail_when_cancelled()
    assert scope.cancelled_caught
    assert calls == 1


@anyio_test
async def test_the_cancellation_of_whoever_waits_for_a_worker_thread_ends_the_wait_there() -> None:
    script = Script(failed())
    errors: list[BaseException] = []
    waiting = anyio.Event()

    def work() -> None:
        try:
            retrying(script.call, wait=1_000, on=Exception, on_retry=tell)()
        except BaseException as error:
            errors.append(error)
            raise

    def tell(retry: RetryScheduled) -> None:
        anyio.from_thread.run_sync(waiting.set)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, work)
        await waiting.wait()
        tasks.cancel_scope.cancel()
    assert script.calls == 1
    assert len(errors) == 1


@anyio_test
async def test_what_a_thread_gets_when_its_wait_on_the_loop_is_cancelled_is_not_tried_again() -> None:
    calls = 0
    waiting = anyio.Event()

    async def wait() -> None:
        waiting.set()
        await anyio.sleep_forever()

    @retrying(on=Exception, wait=0)
    def work() -> None:
        nonlocal calls
        calls += 1
        anyio.from_thread.run(wait)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, work)
        await waiting.wait()
        tasks.cancel_scope.cancel()
    assert calls == 1


def test_a_deadline_in_a_thread_ends_the_wait() -> None:
    script = Script(failed())
    with pytest.raises(nh.parallel.DeadlineExceededError), nh.deadline(0.02):
        retrying(script.call, wait=1_000)()
    assert script.calls == 1


@anyio_test
async def test_a_deadline_ends_the_wait_of_a_synchronous_function_that_blocks_its_loop() -> None:
    script = Script(failed())
    function = retrying(script.call, wait=1_000)
    with (
        pytest.warns(RuntimeWarning, match="blocks it"),
        pytest.raises(nh.parallel.DeadlineExceededError),
        nh.deadline(0.02),
    ):
        function()
    assert script.calls == 1


@anyio_test
async def test_concurrent_calls_of_one_function_have_attempts_of_their_own() -> None:
    calls: dict[int, int] = {}

    @retrying(attempts=4, wait=0)
    async def fail_thrice(key: int) -> int:
        calls[key] = calls.get(key, 0) + 1
        await checkpoint()
        if calls[key] < 4:
            raise failed()
        return key

    assert await nh.parallel.map(fail_thrice, range(20)) == list(range(20))
    assert set(calls.values()) == {4}


def test_concurrent_calls_in_threads_have_attempts_of_their_own() -> None:
    calls: dict[str, int] = {}
    results: list[str] = []

    @retrying(attempts=4, wait=0)
    def fail_thrice() -> str:
        name = threading.current_thread().name
        calls[name] = calls.get(name, 0) + 1
        time.sleep(0)
        if calls[name] < 4:
            raise failed()
        return name

    threads = [threading.Thread(target=lambda: results.append(fail_thrice())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(calls)
    assert set(calls.values()) == {4}


@anyio_test
async def test_somebody_may_be_told_before_each_wait() -> None:
    retries: list[RetryScheduled] = []

    async def tell_async(retry: RetryScheduled) -> None:
        await checkpoint()
        retries.append(retry)

    errors = [failed("first"), failed("second")]
    await retrying(Script(*errors, "done").call_async, wait=0, on_retry=tell_async)()
    retrying(Script(*errors, "done").call, wait=0, on_retry=retries.append)()
    assert [(each.attempt, each.error, each.wait_seconds) for each in retries] == [
        (1, errors[0], 0),
        (2, errors[1], 0),
    ] * 2
    assert [each.name for each in retries] == ["Script.call_async"] * 2 + ["Script.call"] * 2


def test_whoever_is_told_cannot_be_async_when_the_function_is_not() -> None:
    async def tell(retry: RetryScheduled) -> None: ...

    with pytest.raises(TypeError, match=r"on_retry is async, but Script\.call is not"):
        retrying(Script().call, on_retry=tell)
    with pytest.raises(TypeError, match="on_retry is async"):
        iter(retrying(on_retry=tell))


def test_the_current_span_shows_each_retry() -> None:
    with recorded_events() as events:
        retrying(Script(failed("secret"), "done").call, wait=0)()
    assert events == [
        (
            "nighthawk.retry.scheduled",
            {
                "nighthawk.retry.name": "Script.call",
                "nighthawk.retry.attempt": 1,
                "nighthawk.retry.wait_seconds": 0.0,
                "error.type": "ExecutionError",
            },
        )
    ]


# Attempts of a block.


@anyio_test
async def test_the_attempts_of_a_block_end_with_the_first_that_succeeds() -> None:
    script = Script(failed(), failed(), "done")
    numbers: list[int] = []
    async for attempt in retrying(wait=0):
        with attempt:
            numbers.append(attempt.number)
            result = await script.call_async()
    assert result == "done"
    assert numbers == [1, 2, 3]


def test_the_attempts_of_a_synchronous_block_end_with_the_first_that_succeeds() -> None:
    script = Script(failed(), "done")
    for attempt in retrying(wait=0):
        with attempt:
            result = script.call()
    assert result == "done"
    assert script.calls == 2


@anyio_test
async def test_a_block_may_return_or_break_in_the_middle_of_an_attempt() -> None:
    async def give() -> int:
        async for attempt in retrying(wait=0):
            with attempt:
                return attempt.number
        raise AssertionError("not reached")

    assert await give() == 1
    for attempt in retrying(wait=0):
        with attempt:
            break


async def try_block(script: Script) -> None:
    async for attempt in retrying(wait=0, attempts=2):
        with attempt:
            await script.call_async()


def try_block_here(script: Script) -> None:
    for attempt in retrying(wait=0, attempts=2):
        with attempt:
            script.call()


@anyio_test
async def test_the_last_error_of_a_block_arrives_bare_and_tells_of_the_others() -> None:
    last = failed("last")
    with pytest.raises(nh.ExecutionError) as caught:
        await try_block(Script(failed("first"), last))
    assert caught.value is last
    assert "2 attempts at a block" in caught.value.__notes__[0]
    assert "first" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="other") as other:
        try_block_here(Script(failed("first"), ValueError("other")))
    assert "2 attempts at a block" in other.value.__notes__[0]


@anyio_test
async def test_a_cancellation_inside_an_attempt_leaves_the_loop_at_once() -> None:
    events: list[str] = []
    with anyio.move_on_after(0) as scope:
        async for attempt in retrying(on=Exception, wait=0):
            with attempt:
                events.append("began")
                await anyio.sleep_forever()
            events.append("went on")
    assert scope.cancelled_caught
    assert events == ["began"]


@anyio_test
@pytest.mark.virtual_time
async def test_a_cancellation_ends_the_wait_between_the_attempts_of_a_block() -> None:
    attempts = 0
    with anyio.move_on_after(5) as scope:
        async for attempt in retrying(wait=100):
            with attempt:
                attempts += 1
                raise failed()
    assert scope.cancelled_caught
    assert attempts == 1


@anyio_test
async def test_a_loop_that_enters_no_attempt_is_refused() -> None:
    with pytest.raises(RuntimeError, match="inside `with attempt:`"):
        for _ in retrying():
            pass
    with pytest.raises(RuntimeError, match="inside `with attempt:`"):
        async for _ in retrying():
            pass


def test_one_object_gives_attempts_again_and_again() -> None:
    policy = retrying(wait=0)
    for _ in range(2):
        script = Script(failed(), "done")
        for attempt in policy:
            with attempt:
                script.call()
        assert script.calls == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attempts": 0}, "attempts is a whole number"),
        ({"attempts": True}, "attempts is a whole number"),
        ({"attempts": 2.5}, "attempts is a whole number"),
        ({"wait": -1}, "wait is a number of seconds"),
        ({"wait": float("nan")}, "wait is a number of seconds"),
        ({"wait": float("inf")}, "wait is a number of seconds"),
        ({"wait": "long"}, "wait is"),
        ({"max_retry_after": -1}, "max_retry_after is a number of seconds"),
        ({"retry_if": 5}, "retry_if is a function"),
        ({"retry_if": anyio.sleep}, "retry_if is not async, but sleep is"),
        ({"wait": anyio.sleep}, "wait is not async, but sleep is"),
        ({"on_retry": "tell"}, "on_retry is a function"),
        ({"on": "ValueError"}, "on is a type of exceptions"),
        ({"on": BaseException}, "on is a type of exceptions"),
        ({"on": (ValueError, KeyboardInterrupt)}, "on is a type of exceptions"),
        ({"on": BudgetExceededError}, "on names BudgetExceededError, which is final"),
        ({"on": (ValueError, nh.errors.NoHumanError)}, "on names NoHumanError, which is final"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidPolicyError, match=message):
        retrying(**arguments)
    function: Callable[[], None] = lambda: None  # noqa: E731
    with pytest.raises(ValueError, match=message):
        retrying(function, **arguments)
