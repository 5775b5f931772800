"""The resilience baseline of a run or a scope: which steps get another attempt, and what comes of it."""

from collections.abc import Iterator

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from nighthawk_async import hooks as nhh
from nighthawk_async.resilience import Baseline, RetryScheduled, retrying
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    StepCall,
    StepResponse,
    pass_response,
    raise_response,
)
from tests.specification.attempts import RIGHT, WRONG, Attempts, work, work_in_thread
from tests.specification.scripted_steps import PASS, ScriptedSteps, assigning, evaluating, executing
from tests.tracing import trace_with

pytestmark = pytest.mark.anyio

AT_ONCE = Baseline(retries=retrying(attempts=3, wait=0))


async def test_each_attempt_begins_with_the_python_variables_as_they_were_and_one_commits() -> None:
    seen: list[object] = []

    async def answer(call: StepCall) -> StepResponse:
        seen.append(call.step_locals["result"])
        return WRONG if len(seen) < 3 else RIGHT

    async with nh.run(CallbackExecutor(answer), resilience=AT_ONCE) as run:
        assert await work(None, 4) == 7
    assert seen == [4, 4, 4]
    assert run.usage_meter.steps == 3


async def test_what_a_failed_attempt_assigned_is_forgotten_and_what_it_used_is_counted() -> None:
    steps = ScriptedSteps(
        (assigning("result", "41"), executing("1 / 0"), PASS), (executing("result += 1"), PASS), max_turns=1
    )
    async with nh.run(steps.executor) as run, nh.scope(resilience=AT_ONCE):
        assert await work(None, 1) == 2
    assert len(steps.model.requests) == run.usage_meter.usage.requests == 2


async def test_the_last_error_arrives_as_it_is_and_tells_of_the_others() -> None:
    errors = [nh.ExecutionError(f"error {number}") for number in (1, 2, 3)]
    attempts = Attempts(*errors)
    async with nh.run(attempts.executor, resilience=AT_ONCE):
        with pytest.raises(nh.ExecutionError) as caught:
            await work()
    assert caught.value is errors[2]
    (note,) = caught.value.__notes__
    title, *earlier = note.splitlines()
    assert title.startswith(f"3 attempts at step {work.__module__}:")
    assert [line.strip() for line in earlier] == ["ExecutionError: error 1", "ExecutionError: error 2"]


@pytest.mark.parametrize("baseline", [None, Baseline(), Baseline(retries=0), Baseline(timeout=60)])
async def test_without_retries_a_step_is_carried_out_once(baseline: Baseline | None) -> None:
    attempts = Attempts(WRONG)
    async with nh.run(attempts.executor, resilience=baseline):
        with pytest.raises(nh.ExecutionError) as caught:
            await work()
    assert attempts.count == 1
    assert not hasattr(caught.value, "__notes__")


async def test_a_raise_outcome_is_no_failure() -> None:
    executor = ScriptedExecutor([raise_response("no such thing", "ValueError")])
    async with nh.run(executor, resilience=AT_ONCE):
        with pytest.raises(ValueError, match="no such thing"):
            await work()
    assert len(executor.calls) == 1


@pytest.mark.parametrize(
    "error",
    [
        nh.errors.StepAbortedError("no"),
        nh.errors.HookError("broken", hook="hook"),
        nh.errors.NoHumanError("nobody"),
        nh.BudgetExceededError(budget="b", resource="steps", limit=1, spent=1, reserved=0, asked=1),
        nh.ConfigurationError("wrong"),
        nh.errors.ModelStatusError("not found", status=404),
        ValueError("a bug"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_after_some_errors_there_is_no_other_attempt(error: Exception) -> None:
    attempts = Attempts(error)
    async with nh.run(attempts.executor, resilience=AT_ONCE):
        with pytest.raises(type(error)):
            await work()
    assert attempts.count == 1


async def test_a_refused_commit_and_a_refused_outcome_are_failures() -> None:
    refusals = iter(["not good", "not good"])

    def check(proposal: nh.oversight.Proposal) -> nh.oversight.Continue | None:
        return nh.oversight.Continue(feedback) if (feedback := next(refusals, None)) else None

    attempts = Attempts(RIGHT)
    async with nh.run(attempts.executor, verify=check, resilience=AT_ONCE):
        assert await work() == 7
    assert attempts.count == 3


async def test_retries_may_say_everything_that_retrying_says() -> None:
    told: list[tuple[int, float]] = []

    async def note(retry: RetryScheduled) -> None:
        await checkpoint()
        told.append((retry.attempt, retry.wait_seconds))

    attempts = Attempts(OSError("first"), OSError("second"), nh.ExecutionError("third"))
    baseline = Baseline(retries=retrying(attempts=5, on=OSError, wait=0, on_retry=note))
    async with nh.run(attempts.executor, resilience=baseline):
        with pytest.raises(nh.ExecutionError, match="third"):
            await work()
    assert attempts.count == 3
    assert told == [(1, 0), (2, 0)]


async def test_many_steps_at_once_have_attempts_of_their_own() -> None:
    failures: dict[object, int] = {}

    async def answer(call: StepCall) -> StepResponse:
        await checkpoint()
        number = call.step_locals["tool"]
        failures[number] = failures.get(number, 0) + 1
        if failures[number] <= 2:
            raise nh.ExecutionError("not yet")
        return pass_response(result=number)

    async with nh.run(CallbackExecutor(answer), resilience=AT_ONCE, max_concurrent_steps=7) as run:
        assert await nh.parallel.map(work, list(range(40))) == list(range(40))
    assert run.usage_meter.steps == 120


@pytest.mark.parametrize("in_worker", [True, False], ids=["in a worker thread", "in a script"])
def test_the_steps_of_a_synchronous_function_have_attempts_too(in_worker: bool) -> None:
    executor = ScriptedExecutor([WRONG, WRONG, RIGHT])

    async def main() -> int:
        return await anyio.to_thread.run_sync(work_in_thread)

    with nh.run(executor, resilience=AT_ONCE):
        assert (anyio.run(main) if in_worker else work_in_thread()) == 7
    assert len(executor.calls) == 3


async def test_the_steps_that_tools_bring_about_have_attempts_of_their_own() -> None:
    inner = Attempts(WRONG, WRONG, RIGHT)

    async def delegate() -> int:
        async with nh.scope(step_executor=inner.executor):
            return await work()

    steps = ScriptedSteps(assigning("result", "tool()"), PASS)
    async with nh.run(steps.executor, resilience=AT_ONCE) as run:
        assert await work(delegate) == 7
    assert run.usage_meter.steps == 1 + 3


async def test_each_attempt_has_a_step_budget_of_its_own_and_counts_in_all_others() -> None:
    steps = ScriptedSteps(evaluating("1"), evaluating("2"), (assigning("result", "3"), PASS), max_turns=2)
    total = nh.budget(turns=10, steps=10)
    async with nh.run(
        steps.executor, resilience=AT_ONCE, budget=total, step_budget=nh.budget(turns=2, name="each")
    ):
        assert await work() == 3
    assert (total.spent.steps, total.spent.turns) == (2, 3)


async def test_a_budget_without_room_for_another_attempt_ends_them() -> None:
    attempts = Attempts(WRONG)
    async with nh.run(attempts.executor, resilience=AT_ONCE, budget=nh.budget(steps=2)):
        with pytest.raises(nh.BudgetExceededError) as caught:
            await work()
    assert attempts.count == 2
    assert "3 attempts at step" in caught.value.__notes__[0]


# ---- observing


async def test_hooks_are_told_of_each_attempt_and_of_the_retries_between() -> None:
    hooks, told = nh.Hooks(), list[nhh.StepStarted | nhh.StepFinished | nhh.Retry]()
    hooks.on(nhh.StepStarted, nhh.StepFinished, nhh.Retry)(told.append)
    attempts = Attempts(nh.ExecutionError("first"), RIGHT)
    async with nh.run(attempts.executor, hooks=hooks, resilience=AT_ONCE):
        await work()
    _, first, retry, _, second = told
    assert isinstance(first, nhh.StepFinished)
    assert isinstance(second, nhh.StepFinished)
    assert isinstance(retry, nhh.Retry)
    assert (str(first.error), second.error) == ("first", None)
    assert (retry.attempt, retry.wait_seconds, retry.error) == (1, 0, first.error)
    assert (retry.name, retry.execution_ref.step_id) == (first.execution_ref.step_id, None)


async def test_a_hook_that_fails_at_a_retry_ends_the_attempts() -> None:
    hooks = nh.Hooks()

    @hooks.on(nhh.Retry)
    def fail(event: nhh.Retry) -> None:
        raise OSError("disk full")

    attempts = Attempts(nh.ExecutionError("first"), RIGHT)
    async with nh.run(attempts.executor, hooks=hooks, resilience=AT_ONCE):
        with pytest.raises(nh.errors.HookError, match="disk full"):
            await work()
    assert attempts.count == 1


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Every span of the test, when it has ended."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_with(monkeypatch, provider)
    yield exporter
    provider.shutdown()


def events_of(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


async def test_each_attempt_has_a_span_and_the_span_around_them_has_the_retries(
    exporter: InMemorySpanExporter,
) -> None:
    attempts = Attempts(nh.ExecutionError("first"), RIGHT)
    async with nh.run(attempts.executor), nh.scope(resilience=AT_ONCE):
        await work()
    spans = exporter.get_finished_spans()
    steps = [span for span in spans if span.name == "nighthawk.step"]
    assert [(span.attributes or {})["nighthawk.step.attempt"] for span in steps] == [1, 2]
    assert [events_of(span)[0] for span in steps] == ["nighthawk.step.failed", "nighthawk.step.completed"]
    (scope,) = (span for span in spans if span.name == "nighthawk.scope")
    assert events_of(scope) == ["nighthawk.retry.scheduled"]
    assert all(span.parent == scope.context for span in steps)
