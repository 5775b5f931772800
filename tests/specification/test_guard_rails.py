"""Guard rails of the model loop: repeated calls, oversized arguments and outcomes."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from nighthawk_async.hooks import BeforeToolCall, ToolLoopSuspected
from nighthawk_async.testing import ScriptedModel, model_response
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
)
from tests.tracing import trace_with

pytestmark = pytest.mark.anyio


@nh.natural_function
async def act(value: Any = None) -> int:
    number = 0
    """natural
    Set <:number> from <value>.
    """
    return number


async def run(steps: ScriptedSteps, value: Any = None, *, hooks: Any = ()) -> int:
    async with nh.run(steps.executor, hooks=hooks):
        return await act(value)


async def test_a_repeated_call_is_warned_of_then_refused_then_the_step_fails() -> None:
    calls = list[int]()
    hooks, told, begun = nh.Hooks(), list[tuple[int, str]](), list[object]()
    hooks.on(ToolLoopSuspected, lambda event: told.append((event.repetitions, event.action)))
    hooks.on(BeforeToolCall, begun.append)

    def look() -> str:
        calls.append(1)
        return "nothing new"

    steps = ScriptedSteps(*[evaluating("value()")] * 8)
    with pytest.raises(nh.errors.RepeatedToolCallError, match="nh_eval in 8 turns") as caught:
        await run(steps, look, hooks=hooks)
    assert isinstance(caught.value, nh.errors.StepLimitError)
    assert len(calls) == len(begun) == 4
    assert told == [(3, "warned"), (4, "warned")] + [(count, "refused") for count in (5, 6, 7)] + [
        (8, "failed")
    ]
    results = steps.results
    assert [len(result.content) for result in results] == [1, 1, 2, 2, 1, 1, 1]
    assert "called like this in 3 turns, with the same result" in str(results[2].content[1])
    assert [result.is_error for result in results] == [False] * 4 + [True] * 3
    assert '"kind": "invalid_input", "message": "not carried out' in str(results[4].content[0])


async def test_the_trace_tells_what_the_guard_did(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_with(monkeypatch, provider)
    guard = nh.executors.LoopGuard(warn_after=2, refuse_after=3, fail_after=4)
    with pytest.raises(nh.errors.RepeatedToolCallError):
        await run(ScriptedSteps(*[evaluating("value")] * 4, loop_guard=guard))
    provider.shutdown()
    events = [event for span in exporter.get_finished_spans() for event in span.events]
    told = [event.attributes or {} for event in events if event.name == "nighthawk.tool_loop.suspected"]
    assert [each["nighthawk.tool_loop.action"] for each in told] == ["warned", "refused", "failed"]
    assert [each["nighthawk.tool_loop.repetitions"] for each in told] == [2, 3, 4]
    assert {each["nighthawk.tool_loop.tool_name"] for each in told} == {"nh_eval"}


async def test_a_warned_model_may_go_on() -> None:
    steps = ScriptedSteps(*[evaluating("value")] * 3, (assigning("number", "1"), PASS))
    assert await run(steps, 1) == 1


async def test_polling_and_counting_are_no_loop() -> None:
    status = iter(range(100))

    def poll() -> int:
        return next(status)

    turns = [evaluating("value()"), assigning("number", "number + 1")] * 12
    assert await run(ScriptedSteps(*turns, PASS, max_turns=50), poll) == 12


async def test_a_call_that_fails_in_the_same_way_is_a_loop_too() -> None:
    with pytest.raises(nh.errors.RepeatedToolCallError):
        await run(ScriptedSteps(*[executing("number = 1 / 0")] * 8))


async def test_many_identical_calls_in_one_response_are_all_carried_out() -> None:
    rings: list[str] = []
    steps = ScriptedSteps((*[evaluating("value('ring')")] * 10, PASS))
    await run(steps, rings.append)
    assert len(rings) == 10


async def test_each_step_is_counted_for_itself() -> None:
    steps = ScriptedSteps(*[evaluating("value"), evaluating("value"), PASS] * 4)
    async with nh.run(steps.executor):
        for _ in range(4):
            await act(1)
    assert all(len(result.content) == 1 for result in steps.results)


async def test_the_loop_guard_can_be_set_and_left_out() -> None:
    guard = nh.executors.LoopGuard(warn_after=2, refuse_after=2, fail_after=2)
    with pytest.raises(nh.errors.RepeatedToolCallError):
        await run(ScriptedSteps(*[evaluating("value")] * 2, loop_guard=guard))
    steps = ScriptedSteps(*[evaluating("value")] * 15, PASS, loop_guard=None)
    await run(steps)
    assert all(len(result.content) == 1 for result in steps.results)


@pytest.mark.parametrize("text", ["x" * 100, "é" * 50])
async def test_oversized_arguments_are_not_carried_out_and_the_model_is_told(text: str) -> None:
    seen: list[str] = []
    hooks, begun = nh.Hooks(), list[object]()
    hooks.on(BeforeToolCall, begun.append)
    arguments = f'{{"expression": "value(\'{text}\')"}}'
    steps = ScriptedSteps(
        nh.models.ToolCall(id="", name="nh_eval", arguments=arguments),
        PASS,
        max_tool_argument_bytes=len(arguments.encode()) - 1,
    )
    await run(steps, seen.append, hooks=hooks)
    assert seen == begun == []
    error = steps.envelopes[0]["error"]
    assert error["kind"] == "invalid_input"
    assert "at most" in error["message"]
    assert "split it" in error["guidance"]


@pytest.mark.parametrize("text", ["x" * 100, "é" * 50])
async def test_arguments_of_the_allowed_size_are_carried_out(text: str) -> None:
    seen: list[str] = []
    arguments = f'{{"expression": "value(\'{text}\')"}}'
    call = nh.models.ToolCall(id="", name="nh_eval", arguments=arguments)
    size = len(arguments.encode())
    await run(ScriptedSteps(call, PASS, max_tool_argument_bytes=size), seen.append)
    assert seen == [text]


async def test_lone_surrogates_in_arguments_are_measured_too() -> None:
    call = nh.models.ToolCall(id="", name="nh_eval", arguments='{"expression": "\ud800"}')
    steps = ScriptedSteps(call, PASS, max_tool_argument_bytes=17)
    await run(steps)
    assert "at most 17" in steps.envelopes[0]["error"]["message"]


LONG = '"' + "x" * 200 + '"'


@pytest.mark.parametrize("expression", [LONG, '"' + "\U0001f985" * 50 + '"'])
async def test_an_oversized_outcome_is_refused_unevaluated_and_the_model_is_told(expression: str) -> None:
    calls: list[object] = []
    steps = ScriptedSteps(
        returning(f"value({expression})"), returning("len('short')"), max_tool_argument_bytes=150
    )
    assert await run(steps, calls.append) == 5
    assert calls == []
    (refusal,) = steps.envelopes
    assert refusal["error"]["kind"] == "invalid_input"
    assert "bytes; at most 150 are allowed; refer to values by their names" in refusal["error"]["message"]


async def test_an_oversized_outcome_counts_as_a_correction() -> None:
    steps = ScriptedSteps(*[returning(LONG)] * 2, max_tool_argument_bytes=150, max_corrective_turns=1)
    with pytest.raises(nh.ExecutionError, match="no acceptable outcome after 1 corrections"):
        await run(steps)


async def test_an_oversized_outcome_as_text_is_refused_too() -> None:
    texts = [
        f'{{"result": {{"kind": "return", "return_expression": "{text}"}}}}' for text in ("1 " * 99, "1")
    ]
    model = ScriptedModel([model_response(text=text) for text in texts])
    configuration = nh.StepExecutorConfiguration(outcome_transport="native", max_tool_argument_bytes=100)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        assert await act() == 1
    assert "at most 100 are allowed" in str(model.requests[1].messages[-1])
