"""Specification 10.1: spans, attributes and events."""

from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    raise_response,
    return_response,
    tool_call,
)
from tests.tracing import trace_with

pytestmark = pytest.mark.anyio


@nh.natural_function
async def act(text: str = "text") -> int:
    """natural
    Do something with <text>, or raise ValueError.
    """
    return 0


STEP_ID = f"{__name__}:{act.__wrapped__.__code__.co_firstlineno + 2}"  # type: ignore[attr-defined]


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Every span of the test, when it has ended."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_with(monkeypatch, provider)
    yield exporter
    provider.shutdown()


def spans_named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def tree(exporter: InMemorySpanExporter) -> dict[str, Any]:
    """The names of the spans, nested."""
    spans = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def below(parent_id: int | None) -> list[Any]:
        return [
            (span.name, below(span.context.span_id))
            for span in spans
            if span.context and (None if span.parent is None else span.parent.span_id) == parent_id
        ]

    return dict(below(None))


def only_event(exporter: InMemorySpanExporter) -> tuple[str, dict[str, Any]]:
    (span,) = spans_named(exporter, "nighthawk.step")
    (event,) = [event for event in span.events if event.name != "exception"]
    return event.name, dict(event.attributes or {})


async def test_10_1_run_scope_step_and_step_executor_are_nested_spans(exporter: InMemorySpanExporter) -> None:
    async with nh.run(ScriptedExecutor(default_response=pass_response())):
        await act()
        with nh.scope():
            await act()
    step = ("nighthawk.step", [("nighthawk.step_executor", [])])
    assert tree(exporter) == {"nighthawk.run": [step, ("nighthawk.scope", [step])]}


async def test_10_1_spans_carry_the_identity_of_what_runs(exporter: InMemorySpanExporter) -> None:
    async with nh.run(ScriptedExecutor(default_response=pass_response()), run_id="the run") as run:
        with nh.scope():
            scope_id = nh.get_execution_ref().scope_id
            await act()
    identity = {"run.id": "the run", "scope.id": scope_id}
    (step,) = spans_named(exporter, "nighthawk.step")
    execution = {"step.id": STEP_ID, "execution.id": (step.attributes or {})["execution.id"]}
    attributes = {span.name: dict(span.attributes or {}) for span in exporter.get_finished_spans()}
    assert attributes == {
        "nighthawk.run": {"run.id": "the run", "scope.id": run.execution_ref.scope_id},
        "nighthawk.scope": identity,
        "nighthawk.step": {**identity, **execution},
        "nighthawk.step_executor": {**identity, **execution},
    }


@pytest.mark.parametrize("response", [pass_response(), return_response("3")])
async def test_10_1_a_step_that_ends_emits_completed_with_its_outcome_kind(
    exporter: InMemorySpanExporter, response: StepResponse
) -> None:
    async with nh.run(ScriptedExecutor([response])):
        await act()
    kind = response.outcome.kind
    assert only_event(exporter) == ("nighthawk.step.completed", {"nighthawk.step.outcome_kind": kind})


@pytest.mark.parametrize(
    ("error_type", "raised", "extra"),
    [
        (None, nh.ExecutionError, {}),
        ("ValueError", ValueError, {"nighthawk.step.raise_error_type": "ValueError"}),
    ],
)
async def test_10_1_a_raise_outcome_is_domain_behaviour_and_no_failure(
    exporter: InMemorySpanExporter, error_type: str | None, raised: type[Exception], extra: dict[str, str]
) -> None:
    async with nh.run(ScriptedExecutor([raise_response("too much", error_type)])):
        with pytest.raises(raised, match="too much"):
            await act()
    attributes = {
        "nighthawk.step.outcome_kind": "raise",
        "nighthawk.step.raise_message": "too much",
        **extra,
    }
    assert only_event(exporter) == ("nighthawk.step.raised", attributes)
    (span,) = spans_named(exporter, "nighthawk.step")
    assert span.status.status_code is trace.StatusCode.UNSET
    assert len(span.events) == 1


class Rejecting:
    """Rejects every commit."""

    def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
        return nh.oversight.Accept()

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Reject:
        return nh.oversight.Reject(reason="not today", guidance="ask tomorrow")


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (nh.errors.ToolBoundaryError(kind="transient", message="busy"), "transient"),
        (nh.NaturalParseError("bad block"), "invalid_input"),
        (nh.ToolValidationError("bad value"), "invalid_input"),
        (nh.ToolEvaluationError("bad expression"), "execution"),
        (NameError("nobody"), "resolution"),
        (nh.ModelError("busy", is_transient=True), "transient"),
        (nh.ModelError("broken"), "execution"),
        (nh.errors.StepLimitError("too long"), "execution"),
        (nh.NighthawkError("contract"), "internal"),
        (RuntimeError("surprise"), "internal"),
    ],
)
async def test_10_1_a_failure_emits_failed_and_records_the_exception_and_an_error_status(
    exporter: InMemorySpanExporter, failure: Exception, kind: str
) -> None:
    def answer(call: StepCall) -> StepResponse:
        raise failure

    async with nh.run(CallbackExecutor(answer)):
        with pytest.raises(type(failure)):
            await act()
    message = str(failure)
    attributes = {"nighthawk.step.error_kind": kind, "nighthawk.step.error_message": message}
    assert only_event(exporter) == ("nighthawk.step.failed", attributes)
    (span,) = spans_named(exporter, "nighthawk.step")
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.status.description == message
    (recorded,) = [event for event in span.events if event.name == "exception"]
    assert recorded.attributes is not None
    assert recorded.attributes["exception.message"] == message


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (return_response("'many'"), "invalid_input"),
        (return_response("1 / 0"), "execution"),
        (pass_response(nothing=1), "execution"),
    ],
)
async def test_10_1_the_error_kind_is_that_of_the_cause(
    exporter: InMemorySpanExporter, response: StepResponse, kind: str
) -> None:
    async with nh.run(ScriptedExecutor([response])):
        with pytest.raises(nh.ExecutionError):
            await act()
    assert only_event(exporter)[1]["nighthawk.step.error_kind"] == kind


async def test_10_1_a_rejected_commit_fails_with_the_kind_oversight(exporter: InMemorySpanExporter) -> None:
    async with nh.run(ScriptedExecutor([pass_response()])):
        with nh.scope(oversight=Rejecting()), pytest.raises(nh.ExecutionError, match="not today"):
            await act()
    (span,) = spans_named(exporter, "nighthawk.step")
    (failed,) = [event for event in span.events if event.name == "nighthawk.step.failed"]
    assert (failed.attributes or {})["nighthawk.step.error_kind"] == "oversight"


async def test_10_1_a_cancelled_step_ends_its_spans_without_an_event(exporter: InMemorySpanExporter) -> None:
    began = anyio.Event()

    async def answer(call: StepCall) -> StepResponse:
        began.set()
        await anyio.sleep_forever()
        return pass_response()

    async with nh.run(CallbackExecutor(answer)), anyio.create_task_group() as task_group:
        task_group.start_soon(act)
        await began.wait()
        task_group.cancel_scope.cancel()
    (span,) = spans_named(exporter, "nighthawk.step")
    assert list(span.events) == []
    assert span.status.status_code is trace.StatusCode.UNSET
    assert len(spans_named(exporter, "nighthawk.step_executor")) == 1


async def test_10_1_concurrent_steps_are_siblings_below_the_run(exporter: InMemorySpanExporter) -> None:
    both_in = anyio.Event()
    count = 0

    async def answer(call: StepCall) -> StepResponse:
        nonlocal count
        count += 1
        if count == 2:
            both_in.set()
        await both_in.wait()
        return pass_response()

    async with nh.run(CallbackExecutor(answer)) as run:
        run.task_group.start_soon(act)
        run.task_group.start_soon(act)
    step = ("nighthawk.step", [("nighthawk.step_executor", [])])
    assert tree(exporter) == {"nighthawk.run": [step, step]}
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_10_1_a_nested_step_is_below_the_executor_of_its_caller(exporter: InMemorySpanExporter) -> None:
    async def answer(call: StepCall) -> StepResponse:
        if call.step_locals["text"] == "outer":
            assert await act("inner") == 0
        return pass_response()

    async with nh.run(CallbackExecutor(answer)):
        await act("outer")
    inner = ("nighthawk.step", [("nighthawk.step_executor", [])])
    assert tree(exporter) == {"nighthawk.run": [("nighthawk.step", [("nighthawk.step_executor", [inner])])]}


def test_10_1_a_synchronous_step_is_below_its_run_too(exporter: InMemorySpanExporter) -> None:
    @nh.natural_function
    def act_now() -> None:
        """natural
        Do something.
        """

    with nh.run(ScriptedExecutor([pass_response()])):
        act_now()
    assert tree(exporter) == {"nighthawk.run": [("nighthawk.step", [("nighthawk.step_executor", [])])]}


async def test_10_1_an_agent_has_spans_below_its_step_executor_and_changes_none_above(
    exporter: InMemorySpanExporter,
) -> None:
    answer = model_response(tool_call("nh_eval", expression="1"), tool_call("nh_outcome", kind="pass"))
    executor = nh.AgentStepExecutor.from_model(model=ScriptedModel([answer], name="some-model"))
    async with nh.run(executor, run_id="the run"):
        await act()
    assert len(exporter.get_finished_spans()) == 6
    agent = ("invoke_agent act", [("chat some-model", []), ("execute_tool nh_eval", [])])
    assert tree(exporter) == {"nighthawk.run": [("nighthawk.step", [("nighthawk.step_executor", [agent])])]}
    for name in ("nighthawk.step", "nighthawk.step_executor"):
        (span,) = spans_named(exporter, name)
        assert dict(span.attributes or {}).keys() == {"run.id", "scope.id", "step.id", "execution.id"}
    assert only_event(exporter) == ("nighthawk.step.completed", {"nighthawk.step.outcome_kind": "pass"})


async def test_10_1_without_an_sdk_nothing_is_recorded_and_everything_works() -> None:
    async with nh.run(ScriptedExecutor([raise_response("too much"), pass_response(), pass_response(x=1)])):
        with pytest.raises(nh.ExecutionError, match="too much"):
            await act()
        assert await act() == 0
        with pytest.raises(nh.ExecutionError, match="cannot be committed"):
            await act()
