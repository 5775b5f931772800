"""What a run, its natural functions, steps, model requests and tool calls tell whoever watches."""

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import anyio
import anyio.to_thread
import pytest
from opentelemetry import trace

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.kernel.step import UndeliveredSteeringWarning
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelReply,
    ModelResponse,
    ModelServer,
    ScriptedModel,
    StepResponse,
    model_response,
    pass_response,
    tool_call,
)
from nighthawk_async.types.messages import ToolCall, ToolResultsMessage
from nighthawk_async.types.model import (
    ModelRequest,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
    UsageReported,
)
from nighthawk_async.types.usage import Usage

from .told_nodes import ToldNode, root

pytestmark = pytest.mark.anyio

PASS = tool_call("nh_outcome", kind="pass")
MODULE = __name__


def scripted(*responses: ModelResponse | Callable[[ModelRequest], ModelResponse]) -> nh.AgentStepExecutor:
    """An executor whose model gives these responses."""
    answers: Any = responses[0] if callable(responses[0]) else list(responses)
    return nh.AgentStepExecutor.from_model(model=ScriptedModel(answers))


def assign(target: str, expression: str) -> ToolCall:
    """A call of `nh_assign`."""
    return tool_call("nh_assign", target_path=target, expression=expression)


@nh.natural_function
async def double(number: int) -> int:
    """natural
    Set <:result> to twice <number>.
    """
    return result  # pyright: ignore[reportUndefinedVariable, reportUnknownVariableType]


@nh.natural_function
async def decide(number: int) -> int:
    """natural
    Return <number>, or raise <ValueError>.
    """
    return 0


@nh.natural_function
async def outer(number: int, helper: Any) -> int:
    """natural
    Set <:result> with the help of <helper> to twice <number>.
    """
    return result  # pyright: ignore[reportUndefinedVariable, reportUnknownVariableType]


@nh.natural_function
def double_in_a_thread(number: int) -> int:
    """natural
    Set <:result> to twice <number>.
    """
    return result  # pyright: ignore[reportUndefinedVariable, reportUnknownVariableType]


async def test_a_step_is_below_its_function_and_its_run() -> None:
    watched = root()
    with watched.watching():
        async with nh.run(scripted(model_response(assign("result", "number * 2"), PASS)), run_id="r1") as run:
            assert await double(21) == 42
    assert watched.draw() == [
        "run run: completed",
        "  function double: completed",
        "    step: completed",
        "      model_request scripted:model: completed",
        "      tool_call nh_assign: completed",
    ]
    function, step = watched.find("function"), watched.find("step")
    assert (function.inputs, function.outputs) == ({"number": 21}, {"return": 42})
    assert watched.find("run").attributes == {"run.id": "r1", "scope.id": run.execution_ref.scope_id}
    assert function.source is not None
    assert function.source.startswith(f"{MODULE}:")
    assert step.name == step.source == step.attributes["step.id"]
    assert step.states == ["waiting", "running", "completed"]
    assert step.inputs == {"number": 21}
    assert step.outputs == {"result": 42}
    assert step.attributes["run.id"] == "r1"
    assert step.attributes["nighthawk.step.outcome_kind"] == "pass"
    assert "Set <:result>" in str(step.attributes["nighthawk.step.program"])
    assert step.control is not None


async def test_nothing_is_told_where_nobody_watches() -> None:
    watched = root()
    async with nh.run(scripted(model_response(assign("result", "number * 2"), PASS))):
        assert await double(21) == 42
    assert watched.draw() == []


async def test_what_a_model_streams_is_written_to_its_request_and_to_the_step() -> None:
    call = ToolCall(id="c1", name="nh_assign", arguments='{"target_path": "result", "expression": "1"}')
    response = ModelResponse(
        events=(
            ReasoningDelta(text="Let me "),
            ReasoningDelta(text="think."),
            TextDelta(text="It is "),
            TextDelta(text="one."),
            ToolCallStarted(index=0, id="c1", name="nh_assign"),
            ToolCallArgumentsDelta(index=0, fragment=call.arguments[:10]),
            ToolCallArgumentsDelta(index=0, fragment=call.arguments[10:]),
            ToolCallCompleted(index=0, call=call),
            UsageReported(usage=Usage(requests=1, input_tokens=3, output_tokens=2)),
            UsageReported(usage=Usage(requests=1, input_tokens=3, output_tokens=7)),
            ResponseFinished(reason="tool_calls", response_id="resp_1", model_name="model-2026"),
        )
    )
    watched = root()
    with watched.watching():
        async with nh.run(scripted(response, model_response(PASS))):
            assert await double(0) == 1
    request, step = watched.find("model_request"), watched.find("step")
    assert request.inputs["messages"] == 1
    assert "twice <number>" in str(request.inputs["last_message"])
    assert request.outputs == {
        "finish_reason": "tool_calls",
        "text": "It is one.",
        "tool_calls": ["nh_assign"],
    }
    streamed = [
        ("reasoning", None, "Let me think."),
        ("text", None, "It is one."),
        ("tool_call", "nh_assign#c1", call.arguments),
    ]
    assert request.written == streamed
    result = (
        '{"value": {"succeeded": true, "target_path": "result", "type": "int", "value": 1}, "error": null}'
    )
    assert step.written == [
        *streamed,
        ("tool_result", "nh_assign#c1", result),
        ("tool_call", "nh_outcome#call_0", PASS.arguments),
    ]
    assert request.usages[0] == Usage(requests=1, input_tokens=3, output_tokens=2)
    assert request.usages[-1] == Usage(requests=1, input_tokens=3, output_tokens=7)
    execution = {"execution.id": watched.find("step").attributes["execution.id"]}
    assert request.attributes == {
        **execution,
        "gen_ai.request.model": "model",
        "gen_ai.response.finish_reasons": "tool_calls",
        "gen_ai.response.id": "resp_1",
        "gen_ai.response.model": "model-2026",
    }
    call_node = watched.find("tool_call")
    assert call_node.inputs == {"target_path": "result", "expression": "1"}
    assert call_node.outputs == {"result": result}
    assert call_node.attributes == {
        **execution,
        "gen_ai.tool.name": "nh_assign",
        "gen_ai.tool.call.id": "c1",
    }


async def test_a_call_is_told_with_its_arguments_and_what_it_returns() -> None:
    class Shop:
        @nh.natural_function
        async def sell(self, name: str, *rest: int, at: float = 0.5, **more: object) -> object:
            """natural
            Return.
            """
            try:
                return at
            finally:
                await anyio.lowlevel.checkpoint()

    outcome = tool_call("nh_outcome", kind="return", return_expression="name")
    watched = root()
    with watched.watching():
        async with nh.run(scripted(model_response(outcome), model_response(PASS), model_response(PASS))):
            assert await Shop().sell("a", 1, 2, color="red") == "a"
            assert await Shop().sell("b") == 0.5
            await decide(number=3)
    told = [(node.inputs, node.outputs) for node in watched.walk() if node.kind == "function"]
    assert told == [
        ({"name": "a", "rest": (1, 2), "at": 0.5, "more": {"color": "red"}}, {"return": "a"}),
        ({"name": "b", "rest": (), "at": 0.5, "more": {}}, {"return": 0.5}),
        ({"number": 3}, {"return": 0}),
    ]


async def test_a_call_that_is_closed_in_another_context_has_ended() -> None:
    @nh.natural_function
    async def wait() -> None:
        await anyio.lowlevel.checkpoint()
        """natural
        Nothing.
        """

    watched = root()
    call = wait()
    with watched.watching():
        copy_context().run(call.send, None)
    call.close()
    assert watched.find("function").state == "cancelled"


async def test_what_a_request_shows_names_the_settings_that_shape_the_answer_and_no_key() -> None:
    configuration = nh.StepExecutorConfiguration(model_settings={"temperature": 0.5, "api_key": "secret"})
    model = ScriptedModel([model_response(assign("result", "1")), model_response(PASS)])
    executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
    watched = root()
    with watched.watching():
        async with nh.run(executor):
            await double(0)
    second = [node for node in watched.walk() if node.kind == "model_request"][1]
    assert second.inputs["messages"] == 3
    assert second.inputs["temperature"] == 0.5
    assert '"type": "int"' in str(second.inputs["last_message"])
    assert "secret" not in str(second.inputs)


async def test_usage_of_the_requests_is_what_the_meter_of_the_run_says() -> None:
    refused = ModelStatusError("no", status=400)
    watched = root()
    with watched.watching():
        executor = nh.AgentStepExecutor.from_model(
            model=ScriptedModel([model_response(assign("result", "1")), refused])
        )
        async with nh.run(executor) as run:
            with pytest.raises(ModelStatusError):
                await double(0)
    requests = [node for node in watched.walk() if node.kind == "model_request"]
    assert [node.state for node in requests] == ["completed", "failed"]
    assert requests[1].error is refused
    assert requests[1].attributes["error.type"] == "ModelStatusError"
    assert sum((node.usages[-1] for node in requests), Usage()) == run.usage_meter.usage
    assert watched.find("step").state == watched.find("function").state == "failed"
    assert watched.find("step").error is refused
    assert watched.find("run").state == "completed"


async def test_a_raise_outcome_is_raised_and_not_failed() -> None:
    outcome = tool_call("nh_outcome", kind="raise", raise_message="too big", raise_error_type="ValueError")
    watched = root()
    with watched.watching():
        async with nh.run(scripted(model_response(outcome))):
            with pytest.raises(ValueError, match="too big"):
                await decide(3)
    step = watched.find("step")
    assert step.state == "raised"
    assert isinstance(step.error, ValueError)
    assert str(step.error) == "too big"
    assert step.attributes["nighthawk.step.outcome_kind"] == "raise"
    assert watched.find("function").state == "failed"


async def test_the_value_that_a_step_returns_is_an_output() -> None:
    outcome = tool_call("nh_outcome", kind="return", return_expression="number + 1")
    watched = root()
    with watched.watching():
        async with nh.run(scripted(model_response(outcome))):
            assert await decide(3) == 4
    assert watched.find("step").outputs == {"return": 4}


async def test_a_step_that_cannot_be_prepared_is_told_as_failed() -> None:
    @nh.natural_function
    async def lost() -> None:
        """natural
        Use <nowhere>.
        """

    watched = root()
    with watched.watching():
        async with nh.run(scripted(model_response(PASS))):
            with pytest.raises(NameError):
                await lost()
    assert watched.draw() == [
        "run run: completed",
        "  function test_a_step_that_cannot_be_prepared_is_told_as_failed.<locals>.lost: failed",
        "    step: failed",
    ]


async def test_a_failing_tool_call_has_the_error_that_the_model_is_told() -> None:
    watched = root()
    with watched.watching():
        responses = (model_response(assign("result", "1 / 0")), model_response(assign("result", "1"), PASS))
        async with nh.run(scripted(*responses)):
            assert await double(0) == 1
    call = watched.find("tool_call")
    assert call.state == "failed"
    assert "ZeroDivisionError" in str(call.error)
    step = watched.find("step")
    assert step.state == "completed"
    assert ("tool_result", "nh_assign#call_0", str(call.error)) in step.written


async def test_arguments_that_are_no_json_are_told_as_the_model_wrote_them() -> None:
    broken = ToolCall(id="c1", name="nh_eval", arguments='{"expression": ')
    watched = root()
    with watched.watching():
        async with nh.run(scripted(model_response(broken), model_response(assign("result", "1"), PASS))):
            await double(0)
    assert watched.find("tool_call", "nh_eval").inputs == {"arguments": '{"expression": '}


async def test_corrections_and_messages_are_in_the_transcript_of_the_step() -> None:
    def helper(text: str) -> None:
        nh.get_current_step_actor().steer(text)

    bad = tool_call("nh_outcome", kind="return", return_expression="nowhere")
    good = tool_call("nh_outcome", kind="pass")
    responses = (
        model_response(tool_call("nh_eval", expression="helper('be quick')")),
        model_response(bad),
        model_response(assign("result", "1"), good),
    )
    watched = root()
    with watched.watching():
        async with nh.run(scripted(*responses)):
            assert await outer(1, helper) == 1
    step = watched.find("step")
    assert ("message", None, "be quick\n") in step.written
    (note,) = [text for kind, _, text in step.written if kind == "note"]
    assert "return" in note


async def test_what_a_tool_call_brings_about_is_below_it() -> None:
    async def helper(number: int) -> int:
        return await double(number)

    def answer(request: ModelRequest) -> ModelResponse:
        if "help of" in str(request.messages[0]):
            if isinstance(request.messages[-1], ToolResultsMessage):
                return model_response(PASS)
            first = tool_call("nh_assign", target_path="result", expression="helper(number)")
            second = tool_call("nh_eval", expression="helper(5)")
            return model_response(first, second)
        return model_response(assign("result", "number * 2"), PASS)

    watched = root()
    with watched.watching():
        async with nh.run(scripted(answer)):
            assert await outer(4, helper) == 8
    inner = [
        "        function double: completed",
        "          step: completed",
        "            model_request scripted:model: completed",
        "            tool_call nh_assign: completed",
    ]
    assert watched.draw() == [
        "run run: completed",
        "  function outer: completed",
        "    step: completed",
        "      model_request scripted:model: completed",
        "      tool_call nh_assign: completed",
        *inner,
        "      tool_call nh_eval: completed",
        *inner,
        "      model_request scripted:model: completed",
    ]


@pytest.mark.may_block_event_loop(reason="a synchronous natural function is called on it")
async def test_what_code_calls_in_the_actors_task_and_in_threads_is_below_the_tool_call() -> None:
    @nh.blocking
    def in_a_thread(number: int) -> int:
        return double_in_a_thread(number)

    def answer(request: ModelRequest) -> ModelResponse:
        if "help of" in str(request.messages[0]):
            if isinstance(request.messages[-1], ToolResultsMessage):
                return model_response(PASS)
            return model_response(
                tool_call("nh_eval", expression="double_in_a_thread(1)"),
                tool_call("nh_exec", statements="result = helper(2)"),
                tool_call("nh_eval", expression="helper(3)"),
                tool_call("tell", number=4),
                assign("result", "0"),
            )
        return model_response(assign("result", "number * 2"), PASS)

    watched = root()
    with watched.watching():
        async with nh.run(scripted(answer), code="python"):

            @nh.tool
            async def tell(number: int) -> int:  # pyright: ignore[reportUnusedFunction]
                """Tell."""
                return await double(number)

            with pytest.warns(RuntimeWarning, match="blocks it"):
                await outer(0, in_a_thread)
    calls = [node for node in watched.find("step").children if node.kind == "tool_call"]
    assert [(call.name, [child.name for child in call.children]) for call in calls] == [
        ("nh_eval", ["double_in_a_thread"]),
        ("nh_exec", ["double_in_a_thread"]),
        ("nh_eval", ["double_in_a_thread"]),
        ("tell", ["double"]),
        ("nh_assign", []),
    ]


async def test_a_sync_function_in_a_worker_thread_is_below_what_was_in_force() -> None:
    watched = root()
    with watched.watching():
        async with nh.run(scripted(model_response(assign("result", "number * 2"), PASS))):
            assert await anyio.to_thread.run_sync(double_in_a_thread, 4) == 8
    assert watched.draw()[:3] == [
        "run run: completed",
        "  function double_in_a_thread: completed",
        "    step: completed",
    ]


def test_a_sync_function_of_a_script_is_told_too() -> None:
    watched = root()
    with watched.watching(), nh.run(scripted(model_response(assign("result", "number * 2"), PASS))):
        assert double_in_a_thread(4) == 8
    assert watched.draw() == [
        "run run: completed",
        "  function double_in_a_thread: completed",
        "    step: completed",
        "      model_request scripted:model: completed",
        "      tool_call nh_assign: completed",
    ]


async def test_a_cancelled_step_and_what_is_in_it_end_cancelled() -> None:
    async def wait(number: int) -> None:
        await anyio.sleep_forever()

    watched = root()
    call = tool_call("nh_eval", expression="helper(number)")
    with watched.watching():
        async with nh.run(scripted(model_response(call))):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as task_group:
                    task_group.start_soon(outer, 1, wait)
                    await anyio.wait_all_tasks_blocked()
                    assert watched.find("tool_call").state == "running"
                    assert watched.find("model_request").state == "completed"
                    scope.cancel()
    assert watched.draw() == [
        "run run: completed",
        "  function outer: cancelled",
        "    step: cancelled",
        "      model_request scripted:model: completed",
        "      tool_call nh_eval: cancelled",
    ]


async def test_a_step_that_waits_for_a_place_is_waiting_and_a_parked_one_is_suspended() -> None:
    gate = anyio.Event()

    async def hold(call: Any) -> StepResponse:
        await gate.wait()
        return pass_response()

    watched = root()
    with watched.watching():
        async with nh.run(CallbackExecutor(hold), max_concurrent_steps=1) as run:
            run.task_group.start_soon(decide, 1)
            await anyio.wait_all_tasks_blocked()
            run.task_group.start_soon(decide, 2)
            await anyio.wait_all_tasks_blocked()
            first, second = [node for node in watched.walk() if node.kind == "step"]
            assert (first.state, second.state) == ("running", "waiting")
            second.control.suspend()
            await anyio.wait_all_tasks_blocked()
            assert second.state == "suspended"
            second.control.resume()
            gate.set()
    assert first.states == ["waiting", "running", "completed"]
    assert second.states == ["waiting", "suspended", "waiting", "running", "completed"]


async def test_a_step_that_was_asked_to_end_is_cancelled() -> None:
    watched = root()
    helper_gate = anyio.Event()

    async def helper(number: int) -> None:
        await helper_gate.wait()

    call = tool_call("nh_eval", expression="helper(number)")
    with watched.watching():
        async with (
            nh.run(scripted(model_response(call), model_response(PASS))),
            nh.parallel.open_tasks() as tasks,
        ):
            handle = tasks.start(outer, 1, helper)
            await anyio.wait_all_tasks_blocked()
            watched.find("step").control.request_cancel("enough")
            helper_gate.set()
            with pytest.raises(nh.parallel.TaskCancelledError):
                await handle
    assert watched.find("step").state == watched.find("function").state == "cancelled"


async def test_a_task_is_suspended_with_its_step() -> None:
    gate = anyio.Event()

    async def hold(call: Any) -> StepResponse:
        await gate.wait()
        return pass_response()

    watched = root()
    with watched.watching():
        async with nh.run(CallbackExecutor(hold)), nh.parallel.open_tasks() as tasks:
            handle = tasks.start(decide, 1)
            await anyio.wait_all_tasks_blocked()
            task = watched.find("task")
            task.control.suspend()
            gate.set()
            await handle.wait_suspended()
            assert task.state == watched.find("step").state == "suspended"
            task.control.resume()
            await handle
    assert task.states == ["waiting", "running", "suspended", "running", "completed"]
    assert watched.find("step").states == ["waiting", "running", "suspended", "running", "completed"]


async def test_a_message_that_no_model_has_seen_is_a_note() -> None:
    async def steered(call: Any) -> StepResponse:
        watched.find("step").control.steer("hello?")
        return pass_response()

    watched = root()
    with watched.watching():
        async with nh.run(CallbackExecutor(steered)):
            with pytest.warns(UndeliveredSteeringWarning):
                await decide(1)
    ((kind, _, text),) = watched.find("step").written
    assert kind == "note"
    assert "never saw these messages: 'hello?'" in text


async def test_a_call_at_a_gate_is_waiting() -> None:
    gate = anyio.Event()

    hooks = nh.Hooks()

    @hooks.on(nh.hooks.BeforeToolCall)
    async def wait(event: object) -> None:
        await gate.wait()

    watched = root()
    with watched.watching():
        async with nh.run(scripted(model_response(assign("result", "1"), PASS)), hooks=hooks) as run:
            run.task_group.start_soon(double, 1)
            await anyio.wait_all_tasks_blocked()
            assert watched.find("tool_call").states == ["waiting"]
            gate.set()
    assert watched.find("tool_call").states == ["waiting", "running", "completed"]


async def test_each_attempt_is_a_step_and_what_is_around_counts_the_retries() -> None:
    failed = ModelStatusError("busy", status=503, is_transient=True)
    executor = nh.AgentStepExecutor.from_model(
        model=ScriptedModel([failed, model_response(assign("result", "1"), PASS)])
    )
    retries = nh.resilience.retrying(attempts=2, wait=0)
    watched = root()
    with watched.watching():
        async with nh.run(executor, resilience=nh.resilience.Baseline(retries=retries)):
            assert await double(1) == 1
    steps = watched.find("function").children
    assert [step.attributes["nighthawk.step.attempt"] for step in steps] == [1, 2]
    assert [step.state for step in steps] == ["failed", "completed"]
    assert watched.find("function").retries == 1
    assert "attempt 1 failed" in watched.find("function").written[0][2]


async def test_a_call_that_an_agent_of_its_own_never_awaits_ends_with_its_step() -> None:
    class Forgetful:
        async def run(self, task: Any) -> nh.executors.StepOutcome:
            task.begin_tool_call(ToolCall(id="c1", name="nh_eval", arguments='{"expression": "1"}'))
            return nh.executors.PassStepOutcome()

    watched = root()
    with watched.watching():
        async with nh.run(nh.AgentStepExecutor.from_agent(agent=Forgetful())):
            await decide(1)
    assert watched.find("tool_call").state == "cancelled"


@pytest.mark.parametrize("is_budgeted", [False, True])
async def test_what_an_agent_of_its_own_reports_is_the_usage_of_its_step(is_budgeted: bool) -> None:
    class Reporting:
        async def run(self, task: Any) -> nh.executors.StepOutcome:
            task.report_usage("mine:model", Usage(requests=1, input_tokens=100))
            task.report_usage("mine:model", Usage(requests=1, output_tokens=50))
            return nh.executors.PassStepOutcome()

    watched = root()
    budget = nh.budget(tokens=1_000) if is_budgeted else None
    with watched.watching():
        async with nh.run(nh.AgentStepExecutor.from_agent(agent=Reporting()), budget=budget) as run:
            await decide(1)
    assert watched.find("step").usages[-1] == run.usage_meter.usage
    assert run.usage_meter.usage.requests == 2


@pytest.mark.parametrize("is_budgeted", [False, True])
async def test_requests_of_a_model_that_an_agent_hands_its_step_on_to_are_told_once(
    is_budgeted: bool,
) -> None:
    class HandingOn:
        async def run(self, task: Any) -> nh.executors.StepOutcome:
            task.report_usage("mine:model", Usage(requests=1, input_tokens=100))
            return await inner.agent.run(task)

    inner = scripted(model_response(PASS))
    watched = root()
    budget = nh.budget(tokens=100_000, max_output_tokens=100) if is_budgeted else None
    with watched.watching():
        async with nh.run(nh.AgentStepExecutor.from_agent(agent=HandingOn()), budget=budget) as run:
            await decide(1)
    told = [node.usages[-1] for node in watched.walk() if node.usages]
    assert len(told) == 2
    assert sum(told, Usage()) == run.usage_meter.usage


async def test_code_in_the_actors_task_has_the_trace_context_of_the_tool_call() -> None:
    seen: list[int] = []

    def helper() -> None:
        seen.append(trace.get_current_span().get_span_context().span_id)

    span = trace.NonRecordingSpan(trace.SpanContext(1, 7, is_remote=False))

    class Tracing:
        async def run(self, task: Any) -> nh.executors.StepOutcome:
            call = ToolCall(id="c1", name="nh_eval", arguments='{"expression": "helper()"}')
            await task.begin_tool_call(call)()
            with trace.use_span(span):
                await task.begin_tool_call(call)()
            await task.begin_tool_call(call)()
            return nh.executors.ReturnStepOutcome(return_expression="1")

    @nh.natural_function
    async def traced(helper: Any) -> int:
        """natural
        Call <helper>.
        """
        return 0

    async with nh.run(nh.AgentStepExecutor.from_agent(agent=Tracing())):
        assert await traced(helper) == 1
    assert seen == [0, 7, 0]


async def test_a_request_that_is_sent_again_counts_it_and_the_step_has_a_note() -> None:
    busy = ModelReply(status=503, headers={"retry-after-ms": "1"})
    watched = root()
    async with ModelServer([busy, ModelReply(tool_calls=(assign("result", "1"), PASS))]) as server:
        settings = {"base_url": server.base_url, "api_key": "none"}
        configuration = nh.StepExecutorConfiguration(model="openai-chat:any", model_settings=settings)
        executor = nh.AgentStepExecutor.from_configuration(configuration=configuration)
        with watched.watching():
            async with nh.run(executor) as run:
                await double(1)
    request = watched.find("model_request")
    assert (request.state, request.retries) == ("completed", 1)
    assert request.states[:3] == ["running", "waiting", "running"]
    assert request.usages[-1] == run.usage_meter.usage
    assert "attempt 1 failed" in watched.find("step").written[0][2]


async def test_a_request_that_waits_for_its_turn_is_waiting() -> None:
    watched = root()
    async with ModelServer([ModelReply(tool_calls=(assign("result", "1"), PASS))] * 2) as server:
        settings = {"base_url": server.base_url, "api_key": "none", "max_concurrent_requests": 1}
        configuration = nh.StepExecutorConfiguration(model="openai-chat:any", model_settings=settings)
        executor = nh.AgentStepExecutor.from_configuration(configuration=configuration)
        with watched.watching():
            async with nh.run(executor) as run:
                run.task_group.start_soon(double, 1)
                run.task_group.start_soon(double, 2)
    assert sorted(node.states for node in requests_in(watched)) == [
        ["running", "completed"],
        ["running", "waiting", "running", "completed"],
    ]


def requests_in(watched: ToldNode) -> list[ToldNode]:
    """The model requests that were told."""
    return [node for node in watched.walk() if node.kind == "model_request"]


async def test_a_request_under_a_budget_is_told_with_what_was_settled() -> None:
    watched = root()
    with watched.watching():
        executor = scripted(model_response(assign("result", "1"), PASS))
        async with nh.run(executor, budget=nh.budget(tokens=100_000, max_output_tokens=100)) as run:
            await double(1)
    request = watched.find("model_request")
    assert request.state == "completed"
    assert request.usages[-1] == run.usage_meter.usage


async def test_a_request_that_a_budget_refuses_has_failed() -> None:
    watched = root()
    with watched.watching():
        async with nh.run(scripted(model_response(PASS)), budget=nh.budget(tokens=1, max_output_tokens=1)):
            with pytest.raises(nh.BudgetExceededError):
                await double(1)
    assert watched.find("model_request").state == watched.find("step").state == "failed"


async def test_a_refused_answer_of_the_direct_transport_is_a_note() -> None:
    good = '{"result": {"kind": "pass", "bindings": {"result": 1}}}'
    model = ScriptedModel([model_response(text="no JSON"), model_response(text=good)])
    configuration = nh.StepExecutorConfiguration(outcome_transport="direct")
    watched = root()
    with watched.watching():
        executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
        async with nh.run(executor):
            assert await double(1) == 1
    kinds = [kind for kind, _, _ in watched.find("step").written]
    assert kinds == ["text", "note", "text"]
