"""What comes of an oversight decision: the end of a step, a trace event, a hook event."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor, pass_response
from tests.specification.scripted_steps import PASS, ScriptedSteps, assigning, evaluating
from tests.tracing import trace_with
from tests.unit.telemetry.traces import telemetry

pytestmark = pytest.mark.anyio


@nh.natural_function
async def act(record: Any = None) -> int:
    number = 0
    """natural
    Set <:number>; <record> takes notes.
    """
    return number


class Oversight:
    """Answers with what it was made with; a mapping answers by expression."""

    def __init__(self, call: Any = None, commit: Any = None) -> None:
        self.call = nh.oversight.Accept() if call is None else call
        self.commit = nh.oversight.Accept() if commit is None else commit

    async def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> Any:
        if isinstance(self.call, Mapping):
            return self.call.get(inspection.arguments["expression"], nh.oversight.Accept())
        return self.call

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> Any:
        return self.commit


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_with(monkeypatch, provider)
    yield exporter
    provider.shutdown()


def decisions_in(exporter: InMemorySpanExporter) -> list[dict[str, Any]]:
    """The decisions in the trace, without their prefix, in order of time."""
    events = [event for span in exporter.get_finished_spans() for event in span.events]
    return [
        {name.removeprefix("nighthawk.oversight."): value for name, value in (event.attributes or {}).items()}
        for event in sorted(events, key=lambda event: event.timestamp)
        if event.name == "nighthawk.oversight.decided"
    ]


async def test_aborting_a_call_ends_the_step_and_neither_the_call_nor_later_ones_happen() -> None:
    notes: list[str] = []
    calls = [evaluating(f"record('{name}')") for name in ("first", "second", "third")]
    steps = ScriptedSteps((*calls, PASS), PASS)
    oversight = Oversight(call={"record('second')": nh.oversight.Abort("enough")})
    async with nh.run(steps.executor):
        with (
            nh.scope(oversight=oversight),
            pytest.raises(nh.errors.StepAbortedError, match="enough") as caught,
        ):
            await act(notes.append)
    assert notes == ["first"]
    assert caught.value.reason == "enough"
    assert caught.value.step_id is not None
    assert caught.value.step_id in str(caught.value)
    assert len(steps.model.requests) == 1


async def test_aborting_a_commit_ends_the_step_and_commits_nothing() -> None:
    seen: list[object] = []

    @nh.natural_function
    async def guarded() -> int:
        number = 0
        try:
            """natural
            Set <:number>.
            """
        except nh.errors.StepAbortedError as error:
            seen.append(error.reason)
        return number

    async with nh.run(ScriptedExecutor([pass_response(number=3)])):
        with nh.scope(oversight=Oversight(commit=nh.oversight.Abort("not this one"))):
            assert await guarded() == 0
    assert seen == ["not this one"]


async def test_an_aborted_step_within_a_step_is_a_failure_that_the_outer_model_sees() -> None:
    async def inner() -> int:
        with nh.scope(oversight=Oversight(commit=nh.oversight.Abort("no"))):
            return await act()

    steps = ScriptedSteps(evaluating("record()"), assigning("number", "1"), PASS, PASS)
    async with nh.run(steps.executor):
        await act(inner)
    (error,) = [envelope["error"] for envelope in steps.envelopes if envelope["error"]]
    assert error["kind"] == "oversight"
    assert "StepAbortedError" in error["message"]
    assert error["guidance"] == "Do not try it again; go on without its result."


@pytest.mark.parametrize(
    ("oversight", "expected"),
    [
        (
            Oversight(),
            [
                {"subject": "tool_call", "decision": "accept", "tool_name": "nh_assign"},
                {"subject": "commit", "decision": "accept"},
            ],
        ),
        (
            Oversight(call={"1": nh.oversight.Reject(reason="odd")}),
            [
                {"subject": "tool_call", "decision": "reject", "tool_name": "nh_assign", "reason": "odd"},
                {"subject": "commit", "decision": "accept"},
            ],
        ),
        (
            Oversight(
                call=nh.oversight.Rewrite(values={"target_path": "number", "expression": "2"}),
                commit=nh.oversight.Rewrite(values={"number": 5}),
            ),
            [
                {"subject": "tool_call", "decision": "rewrite", "tool_name": "nh_assign"},
                {"subject": "commit", "decision": "rewrite"},
            ],
        ),
        (
            Oversight(commit=nh.oversight.Abort("stop")),
            [
                {"subject": "tool_call", "decision": "accept", "tool_name": "nh_assign"},
                {"subject": "commit", "decision": "abort", "reason": "stop"},
            ],
        ),
    ],
    ids=["accept", "reject", "rewrite", "abort"],
)
async def test_every_decision_is_told_to_traces_and_hooks(
    exporter: InMemorySpanExporter, oversight: Oversight, expected: list[dict[str, Any]]
) -> None:
    hooks, told = nh.Hooks(), list[nh.hooks.OversightDecided]()
    hooks.on(nh.hooks.OversightDecided, told.append)
    steps = ScriptedSteps(assigning("number", "1"), PASS)
    with telemetry(capture_content=True):  # reasons may quote arguments
        async with nh.run(steps.executor, hooks=hooks):
            with nh.scope(oversight=oversight), suppress(nh.errors.StepAbortedError):
                await act()
    step_id = told[0].execution_ref.step_id
    assert decisions_in(exporter) == [{**each, "step.id": step_id} for each in expected]
    assert [
        (event.subject, event.decision, event.tool_name, event.reason, event.execution_ref.step_id)
        for event in told
    ] == [
        (each["subject"], each["decision"], each.get("tool_name"), each.get("reason"), step_id)
        for each in expected
    ]


async def test_an_aborted_step_fails_in_traces_with_the_kind_oversight(
    exporter: InMemorySpanExporter,
) -> None:
    async with nh.run(ScriptedExecutor([pass_response()])):
        with (
            nh.scope(oversight=Oversight(commit=nh.oversight.Abort("no"))),
            pytest.raises(nh.errors.StepAbortedError),
        ):
            await act()
    events = [event for span in exporter.get_finished_spans() for event in span.events]
    (failed,) = [event for event in events if event.name == "nighthawk.step.failed"]
    assert (failed.attributes or {})["nighthawk.step.error_kind"] == "oversight"


async def test_a_call_whose_rewritten_arguments_do_not_fit_is_refused() -> None:
    steps = ScriptedSteps(assigning("number", "1"), PASS)
    oversight = Oversight(call=nh.oversight.Rewrite(values={"expression": 3}))
    async with nh.run(steps.executor):
        with nh.scope(oversight=oversight):
            assert await act() == 0
    assert steps.envelopes[0]["error"]["kind"] == "invalid_input"


async def test_a_rewrite_to_what_json_cannot_hold_fails_the_step() -> None:
    steps = ScriptedSteps(assigning("number", "1"), PASS)
    oversight = Oversight(call=nh.oversight.Rewrite(values={"expression": object()}))
    async with nh.run(steps.executor):
        with nh.scope(oversight=oversight), pytest.raises(nh.NighthawkError, match="Oversight rewrote"):
            await act()


@pytest.mark.parametrize(
    "arguments",
    ['{"expression": "1", "expression": "2"}', "[" * 100_000, "[1]", "{"],
    ids=["a field twice", "too deep", "a list", "no JSON"],
)
async def test_arguments_that_cannot_be_inspected_are_not_carried_out(arguments: str) -> None:
    seen: list[object] = []

    class Watching(Oversight):
        async def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> Any:
            seen.append(inspection)
            return nh.oversight.Accept()

    steps = ScriptedSteps(nh.models.ToolCall(id="", name="nh_eval", arguments=arguments), PASS)
    async with nh.run(steps.executor):
        with nh.scope(oversight=Watching()):
            await act()
    assert seen == []
    assert steps.envelopes[0]["error"]["kind"] == "invalid_input"


async def test_changing_the_inspected_arguments_in_place_fails_the_step_and_nothing_is_carried_out() -> None:
    class Scribbling(Oversight):
        async def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> Any:
            inspection.arguments["expression"] = "99"  # type: ignore[index]
            return nh.oversight.Accept()

    steps = ScriptedSteps((assigning("number", "1"), PASS))
    async with nh.run(steps.executor):
        failure = pytest.raises(nh.errors.HookError, match=r"inspect_tool_call failed: .* read-only: answer")
        with nh.scope(oversight=Scribbling()), failure:
            await act()
    assert steps.envelopes == []


async def test_the_module_exports_what_oversight_needs() -> None:
    assert nh.oversight.Abort is nh.oversight.Abort
    assert nh.oversight.Oversight is nh.oversight.Oversight
