"""`fallback`: which errors lead to the next function, and what the last one tells."""

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.errors import HumanError, StepAbortedError
from nighthawk_async.resilience import CircuitOpenError, InvalidPolicyError, ResilienceError, fallback
from nighthawk_async.testing import ScriptedExecutor, pass_response
from tests.unit.resilience.resilience_support import Script, recorded_events

anyio_test = pytest.mark.anyio


def failed(text: str = "failed") -> nh.ExecutionError:
    return nh.ExecutionError(text)


@anyio_test
async def test_the_functions_are_called_in_order_until_one_succeeds() -> None:
    first, second, third = Script(failed()), Script(failed()), Script("done")
    assert await fallback(first.call_async, second.call_async, third.call_async)("value") == "done"
    assert fallback(first.call, second.call, third.call)("value") == "done"
    assert (first.calls, second.calls, third.calls) == (2, 2, 2)


@anyio_test
async def test_the_others_are_left_alone_when_the_first_succeeds() -> None:
    first, second = Script("done"), Script("never")
    assert await fallback(first.call_async, second.call_async)() == "done"
    assert fallback(first.call, second.call)() == "done"
    assert second.calls == 0


@anyio_test
async def test_it_decorates() -> None:
    async def plan_b(value: int) -> str:
        return f"plan b for {value}"

    @fallback(to=plan_b)
    async def plan_a(value: int) -> str:
        raise failed()

    @fallback(default=None)
    async def plan_c(value: int) -> str | None:
        raise failed()

    class Planner:
        @fallback(to=[lambda self, value: f"plan e for {value}"])
        def plan_d(self, value: int) -> str:
            raise failed()

    assert await plan_a(1) == "plan b for 1"
    assert await plan_c(1) is None
    assert Planner().plan_d(1) == "plan e for 1"


@anyio_test
async def test_natural_functions_fall_back() -> None:
    @nh.natural_function
    async def number() -> int:
        """natural
        Set <:result> to a number.
        """
        result: int
        return result

    executor = ScriptedExecutor([pass_response(result="no number"), pass_response(result=3)])
    async with nh.run(executor):
        assert await fallback(number, number)() == 3


@pytest.mark.parametrize(
    ("error", "is_handled"),
    [
        (failed(), True),
        (nh.errors.ModelStatusError("forbidden", status=403), True),
        (nh.errors.ModelConnectionError("broken", is_transient=True), True),
        (nh.parallel.DeadlineExceededError(1), True),
        (CircuitOpenError("c", retry_in=1), True),
        (ResilienceError("gave up"), True),
        (InvalidPolicyError("wrong"), False),
        (ExceptionGroup("", [failed(), CircuitOpenError("c", retry_in=1)]), True),
        (ExceptionGroup("", [failed(), ValueError()]), False),
        (ValueError("a raise outcome"), False),
        (TimeoutError(), False),
        (nh.errors.MissingCredentialError("no key"), False),
        (StepAbortedError("stop"), False),
        (HumanError("no"), False),
        (KeyboardInterrupt(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_by_default_it_handles_failed_steps_models_deadlines_and_transformers(
    error: BaseException, is_handled: bool
) -> None:
    function = fallback(Script(error).call, default="default")
    if is_handled:
        assert function() == "default"
    else:
        with pytest.raises(type(error)) as caught:
            function()
        assert caught.value is error


def test_errors_may_be_named_but_never_final_ones() -> None:
    function = partial(fallback, on=(OSError, Exception), default="default")
    assert function(Script(KeyError()).call)() == "default"
    with pytest.raises(HumanError):
        function(Script(HumanError()).call)()
    with pytest.raises(nh.ExecutionError):
        fallback(Script(failed()).call, on=OSError, default="default")()


@anyio_test
async def test_when_all_fail_the_last_error_arrives_bare_and_tells_of_the_others() -> None:
    last = failed("last")
    scripts = [Script(failed("first")), Script(nh.ModelError("second")), Script(last)]
    with pytest.raises(nh.ExecutionError) as caught:
        await fallback(*(script.call_async for script in scripts))()
    assert caught.value is last
    assert caught.value.__context__ is None
    assert caught.value.__notes__ == [
        "fallback: Script.call_async, Script.call_async, Script.call_async failed; errors before this one:\n"
        "  Script.call_async: ExecutionError: first\n  Script.call_async: ModelError: second"
    ]


def test_an_error_that_is_not_handled_ends_it_and_tells_of_the_others() -> None:
    third = Script("never")
    with pytest.raises(ValueError, match="other") as caught:
        fallback(Script(failed("first")).call, Script(ValueError("other")).call, third.call)()
    assert "ExecutionError: first" in caught.value.__notes__[0]
    assert third.calls == 0


def test_a_default_is_given_as_it_is() -> None:
    default: list[int] = []
    assert fallback(Script(failed()).call, Script(failed()).call, default=default)() is default


@anyio_test
async def test_a_cancellation_leads_to_no_other_function_and_no_default() -> None:
    second = Script("never")

    async def sleep() -> object:
        return await anyio.sleep_forever()

    async def fail_when_cancelled() -> object:
        try:
            return await checkpoint()
        except anyio.get_cancelled_exc_class():
            raise failed() from None

    async def call_second() -> object:
        return second.call()

    for first in (sleep, fail_when_cancelled):
        for function in (fallback(first, call_second), fallback(first, default=None, on=Exception)):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await function()
            assert scope.cancelled_caught
    assert second.calls == 0


@anyio_test
async def test_a_cancelled_worker_thread_calls_no_other_function() -> None:
    second = Script("never")
    waiting = anyio.Event()

    def fail_when_cancelled() -> object:
        try:
            return anyio.from_thread.run(wait)
        except BaseException:
            raise failed() from None

    async def wait() -> None:
        waiting.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, fallback(fail_when_cancelled, second.call, default=None))
        await waiting.wait()
        tasks.cancel_scope.cancel()
    assert second.calls == 0


def test_async_and_synchronous_functions_do_not_mix() -> None:
    script = Script()
    with pytest.raises(TypeError, match=r"Script\.call is not async, but Script\.call_async is"):
        fallback(script.call, script.call_async)
    with pytest.raises(TypeError, match=r"Script\.call_async is async, but Script\.call is not"):
        fallback(to=script.call)(script.call_async)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: fallback(), InvalidPolicyError, "fallback needs another function"),
        (
            lambda: fallback(Script().call),
            InvalidPolicyError,
            "fallback needs another function",
        ),
        (lambda: fallback(Script().call, default=1, on=BaseException), InvalidPolicyError, "on is a type"),
        (lambda: fallback(Script().call, on=HumanError, default=1), InvalidPolicyError, "which is final"),
        (lambda: fallback(Script().call, 5), TypeError, "fallback needs a function, not 5"),  # type: ignore
        (lambda: fallback(5, Script().call), TypeError, "fallback needs a function, not 5"),  # type: ignore
    ],
)
def test_arguments_that_make_no_sense_are_refused_at_once(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


def test_the_current_span_shows_what_was_fallen_back_to() -> None:
    with recorded_events() as events:
        fallback(Script(failed("secret")).call, Script(failed("secret")).call, default=None)()
    shown = {"nighthawk.fallback.from": "Script.call", "error.type": "ExecutionError"}
    assert events == [
        ("nighthawk.fallback.taken", {**shown, "nighthawk.fallback.to": "Script.call"}),
        ("nighthawk.fallback.taken", {**shown, "nighthawk.fallback.to": "default"}),
    ]
