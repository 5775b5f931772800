"""The resilience baseline of a run or a scope: waits between attempts, and the time of each."""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import anyio.from_thread
import pytest

import nighthawk_async as nh
from nighthawk_async import hooks as nhh
from nighthawk_async.resilience import Baseline, retrying
from nighthawk_async.testing import pass_response
from tests.specification.attempts import RIGHT, WRONG, Attempts, work
from tests.specification.scripted_steps import PASS, ScriptedSteps, assigning, evaluating

pytestmark = pytest.mark.anyio
virtual_time = pytest.mark.virtual_time

AT_ONCE = retrying(attempts=3, wait=0)
LATER = Baseline(retries=retrying(attempts=3, wait=30))
FAILURE = nh.ExecutionError("failed")

sleep_long: Callable[[], Awaitable[None]] = partial(anyio.sleep, 1_000)


# ---- waits


@virtual_time
async def test_attempts_wait_as_told_from_the_end_of_the_one_before() -> None:
    attempts = Attempts(FAILURE, nh.errors.ModelStatusError("busy", status=429, is_transient=True), RIGHT)
    async with nh.run(attempts.executor, resilience=LATER):
        await work()
    assert attempts.pauses == [30, 30]


@virtual_time
async def test_a_provider_that_asks_for_a_longer_wait_gets_it() -> None:
    busy = nh.errors.ModelStatusError("busy", status=429, is_transient=True, retry_after_seconds=100)
    attempts = Attempts(busy, RIGHT)
    async with nh.run(attempts.executor, resilience=LATER):
        await work()
    assert attempts.pauses == [100]


@virtual_time
async def test_by_default_waits_double_and_are_shortened_by_chance() -> None:
    attempts = Attempts(FAILURE, FAILURE, RIGHT)
    async with nh.run(attempts.executor, resilience=Baseline(retries=2)):
        await work()
    first, second = attempts.pauses
    assert 0.5 <= first <= 1 <= second <= 2


async def test_the_place_of_a_step_is_free_while_it_waits_for_its_next_attempt() -> None:
    attempts = Attempts(FAILURE, RIGHT)
    async with nh.run(attempts.executor, resilience=LATER, max_concurrent_steps=1), nh.open_tasks() as tasks:
        waiting = tasks.start(work)
        await anyio.wait_all_tasks_blocked()
        assert await work() == 7
        assert attempts.count == 2
        waiting.cancel()


async def test_a_cancellation_ends_the_wait_and_leads_to_no_other_attempt() -> None:
    attempts = Attempts(FAILURE)
    async with nh.run(attempts.executor, resilience=LATER), anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        assert attempts.count == 1
        tasks.cancel_scope.cancel()
    assert attempts.count == 1


@virtual_time
async def test_a_deadline_around_the_step_ends_the_wait() -> None:
    attempts = Attempts(FAILURE)
    async with nh.run(attempts.executor, resilience=LATER):
        with pytest.raises(nh.parallel.DeadlineExceededError):
            async with nh.deadline(45):
                await work()
    assert attempts.count == 2


@virtual_time
async def test_a_budget_of_seconds_ends_the_wait() -> None:
    attempts = Attempts(FAILURE)
    began_at = anyio.current_time()
    async with nh.run(attempts.executor, resilience=LATER, budget=nh.budget(seconds=45)):
        with pytest.raises(nh.BudgetExceededError, match="seconds") as caught:
            await work()
    assert attempts.count == 2
    assert round(anyio.current_time() - began_at, 3) == 45
    assert "3 attempts at step" in caught.value.__notes__[0]


# ---- what is wanted of a step with several attempts


@pytest.mark.parametrize("last", [False, True], ids=["with attempts left", "in its last attempt"])
async def test_a_task_that_is_asked_to_end_makes_no_other_attempt(last: bool) -> None:
    reached, go_on = anyio.Event(), anyio.Event()

    async def fail() -> None:
        reached.set()
        await go_on.wait()
        raise FAILURE

    attempts, error = Attempts(fail), nh.ExecutionError if last else nh.parallel.TaskCancelledError
    baseline = Baseline(retries=0 if last else AT_ONCE, timeout=60)
    async with nh.run(attempts.executor, resilience=baseline), nh.open_tasks() as tasks:
        handle = tasks.start(work)
        await reached.wait()
        async with anyio.create_task_group() as others:
            others.start_soon(handle.cancel_gracefully, 3600, "closing")
            await anyio.wait_all_tasks_blocked()
            go_on.set()
        with pytest.raises(error, match="failed" if last else "closing"):
            await handle
    assert attempts.count == 1


async def test_a_task_that_is_asked_to_end_does_not_wait_for_its_next_attempt() -> None:
    attempts = Attempts(FAILURE)
    async with nh.run(attempts.executor, resilience=LATER), nh.open_tasks() as tasks:
        handle = tasks.start(work)
        await anyio.wait_all_tasks_blocked()
        await handle.cancel_gracefully(3600, "closing")
        with pytest.raises(nh.parallel.TaskCancelledError, match="closing"):
            await handle
    assert attempts.count == 1


@pytest.mark.parametrize("while_waiting", [True, False], ids=["while it waits", "in its first attempt"])
async def test_a_step_that_is_stopped_has_no_other_attempt(while_waiting: bool) -> None:
    async def stop() -> None:
        nh.get_current_step_actor().stop("enough")

    steps = ScriptedSteps(evaluating("tool()"), PASS)
    attempts = Attempts(FAILURE)
    executor = attempts.executor if while_waiting else steps.executor
    async with nh.run(executor, resilience=LATER), nh.open_tasks() as tasks:
        handle = tasks.start(work, stop)
        if while_waiting:
            await anyio.wait_all_tasks_blocked()
            handle.stop("enough")
        with pytest.raises(nh.ExecutionError, match="was stopped: enough"):
            await handle
    assert attempts.count + len(steps.model.requests) <= 1


async def test_a_function_is_not_called_again_whose_step_was_stopped() -> None:
    async def stop() -> None:
        nh.get_current_step_actor().stop("enough")

    steps = ScriptedSteps(evaluating("tool()"), PASS)
    async with nh.run(steps.executor):
        with pytest.raises(nh.ExecutionError, match="was stopped: enough"):
            await AT_ONCE(work)(stop)
    assert len(steps.model.requests) == 1


async def test_a_step_that_fails_before_it_could_park_parks_before_its_next_attempt() -> None:
    async def suspend_and_fail() -> None:
        nh.get_current_step_actor().suspend()
        raise FAILURE

    attempts = Attempts(suspend_and_fail, RIGHT)
    async with nh.run(attempts.executor, resilience=Baseline(retries=AT_ONCE)), nh.open_tasks() as tasks:
        handle = tasks.start(work)
        await anyio.wait_all_tasks_blocked()
        assert handle.status == "suspended"
        assert attempts.count == 1
        handle.resume()
        assert await handle == 7


async def test_what_was_said_to_a_failed_attempt_is_said_to_the_next() -> None:
    async def say() -> None:
        nh.get_current_step_actor().steer("in metres")

    steps = ScriptedSteps(
        evaluating("tool()"), evaluating("1"), (assigning("result", "3"), PASS), max_turns=2
    )
    async with nh.run(steps.executor, resilience=Baseline(retries=AT_ONCE)):
        assert await work(say) == 3
    told = [
        message.content
        for message in steps.model.requests[2].messages
        if isinstance(message, nh.models.UserMessage)
    ]
    assert ("in metres",) in told


@virtual_time
async def test_a_step_that_waits_for_its_next_attempt_can_be_steered_and_suspended() -> None:
    steps = ScriptedSteps(evaluating("1"), (assigning("result", "3"), PASS), max_turns=1)
    async with nh.run(steps.executor, resilience=LATER), nh.open_tasks() as tasks:
        handle = tasks.start(work)
        await anyio.sleep(10)
        handle.steer("in metres")
        handle.suspend()
        await handle.wait_suspended()
        await anyio.sleep(100)
        assert len(steps.model.requests) == 1
        began_at = anyio.current_time()
        handle.resume("now")
        assert await handle == 3
        assert anyio.current_time() == began_at
    told = [
        message.content
        for message in steps.model.requests[1].messages
        if isinstance(message, nh.models.UserMessage)
    ]
    assert ("in metres", "now") in told


# ---- the time of an attempt


@virtual_time
async def test_an_attempt_that_takes_too_long_is_ended_and_followed_by_another() -> None:
    attempts = Attempts(sleep_long, FAILURE, sleep_long)
    async with nh.run(attempts.executor, resilience=Baseline(timeout=60, retries=AT_ONCE)):
        with pytest.raises(nh.errors.StepLimitError, match="no outcome after 60 seconds") as caught:
            await work()
    assert attempts.pauses == [60, 0]
    assert "no outcome after 60 seconds" in caught.value.__notes__[0]


@virtual_time
async def test_the_time_of_an_attempt_begins_when_it_is_admitted() -> None:
    attempts = Attempts(partial(anyio.sleep, 50))
    async with (
        nh.run(attempts.executor, resilience=Baseline(timeout=60), max_concurrent_steps=1),
        nh.open_tasks() as tasks,
    ):
        handles = [tasks.start(work) for _ in range(4)]
        assert [await handle for handle in handles] == [7] * 4


@virtual_time
async def test_hooks_see_why_an_attempt_ended_that_took_too_long() -> None:
    hooks, told = nh.Hooks(), list[nhh.StepFinished]()
    hooks.on(nhh.StepFinished)(told.append)
    attempts = Attempts(sleep_long)
    async with nh.run(attempts.executor, hooks=hooks, resilience=Baseline(timeout=60)):
        with pytest.raises(nh.errors.StepLimitError):
            await work()
    (finished,) = told
    assert isinstance(finished.error, nh.errors.StepLimitError)
    assert not finished.is_cancelled


@virtual_time
async def test_a_tool_and_its_steps_end_with_the_attempt() -> None:
    ended: list[float] = []

    async def slow() -> None:
        try:
            await anyio.sleep(1_000)
        finally:
            ended.append(anyio.current_time())

    steps = ScriptedSteps(evaluating("tool()"), (assigning("result", "3"), PASS))
    began_at = anyio.current_time()
    async with nh.run(steps.executor, resilience=Baseline(timeout=60, retries=AT_ONCE)):
        assert await work(slow) == 3
    assert ended == [began_at + 60]


async def test_an_attempt_of_an_executor_in_a_thread_ends_when_the_thread_notices() -> None:
    class InAThread:
        def run_step(self, **_: object) -> tuple[nh.executors.StepOutcome, dict[str, object]]:
            # A deadline that is over before this begins is noticed, too.
            anyio.from_thread.run(nh.parallel.under_thread_deadlines(anyio.sleep_forever))
            return nh.executors.PassStepOutcome(), {}

    async with nh.run(InAThread(), resilience=Baseline(timeout=0.01)):
        with pytest.raises(nh.errors.StepLimitError, match="no outcome after"):
            await work()


@virtual_time
async def test_of_two_timeouts_the_shorter_holds_whichever_is_inside() -> None:
    attempts = Attempts(sleep_long)

    async def seconds(*timeouts: float) -> float:
        began_at = anyio.current_time()
        outer, inner = timeouts
        inside = nh.run(attempts.executor, resilience=Baseline(timeout=outer))
        async with inside, nh.scope(resilience=Baseline(timeout=inner)):
            with pytest.raises(nh.errors.StepLimitError):
                await work()
        return round(anyio.current_time() - began_at, 3)

    assert await seconds(60, 20) == 20
    assert await seconds(20, 60) == 20


@virtual_time
async def test_what_an_inner_scope_does_not_mention_goes_on_and_none_ends_everything() -> None:
    attempts = Attempts(sleep_long)
    async with nh.run(attempts.executor, resilience=Baseline(timeout=60, retries=AT_ONCE)):
        async with nh.scope(resilience=Baseline(retries=1)), nh.scope():
            with pytest.raises(nh.errors.StepLimitError):
                await work()
        assert attempts.count == 2
        async with nh.scope(resilience=None):
            with pytest.raises(nh.parallel.DeadlineExceededError):
                async with nh.deadline(500):
                    await work()
        assert attempts.count == 3
        async with nh.scope(mode="replace", resilience=Baseline(timeout=90)):
            began_at = anyio.current_time()
            with pytest.raises(nh.errors.StepLimitError):
                await work()
        assert round(anyio.current_time() - began_at, 3) == 90
        assert attempts.count == 4


async def test_a_run_inside_a_run_has_no_baseline_but_its_own() -> None:
    attempts = Attempts(WRONG)
    async with nh.run(attempts.executor, resilience=Baseline(retries=AT_ONCE)), nh.run(attempts.executor):
        with pytest.raises(nh.ExecutionError):
            await work()
    assert attempts.count == 1


@pytest.mark.parametrize("order", ["retrying inside", "retrying outside the scope"])
async def test_a_function_that_is_tried_again_brings_about_as_many_steps_with_attempts(order: str) -> None:
    attempts = Attempts(*[WRONG] * 5, pass_response(result=1))
    twice = retrying(attempts=2, wait=0)

    async def in_scope() -> int:
        async with nh.scope(resilience=Baseline(retries=AT_ONCE)):
            return await (twice(work) if order == "retrying inside" else work)()

    async with nh.run(attempts.executor):
        assert await (in_scope if order == "retrying inside" else twice(in_scope))() == 1
    assert attempts.count == 6
