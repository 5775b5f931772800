"""The model loop through the agent executor: turns, calls, outcomes and limits."""

import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.agent.loop import AgentLoop, ProposedOutcome
from nighthawk_async.prompt.tokens import TokenCounter
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio

DONE = tool_call("nh_outcome", kind="pass")


@nh.natural_function
async def act(number: int = 0) -> int:
    """natural
    Set <:number>.
    """
    return number


def assigning(expression: str) -> nh.models.ToolCall:
    return tool_call("nh_assign", target_path="number", expression=expression)


def scripted(*answers: Any, **configuration: Any) -> tuple[ScriptedModel, nh.AgentStepExecutor]:
    model = ScriptedModel(answers)
    settings = nh.StepExecutorConfiguration(**configuration)
    return model, nh.AgentStepExecutor.from_model(model=model, configuration=settings)


def results_of(request: nh.models.ModelRequest) -> list[nh.models.ToolResult]:
    message = request.messages[-1]
    assert isinstance(message, nh.models.ToolResultsMessage)
    return list(message.results)


# ---- turns


async def test_assignments_and_the_outcome_in_one_response_take_one_round_trip() -> None:
    model, executor = scripted(model_response(assigning("1"), assigning("number + 1"), DONE))
    async with nh.run(executor):
        assert await act() == 2
    assert len(model.requests) == 1


async def test_the_requests_of_a_step_share_their_system_prompt_and_tools_and_grow_by_messages() -> None:
    model, executor = scripted(
        model_response(assigning("1"), text="First I set it."),
        model_response(DONE),
        model_settings={"temperature": 0},
    )
    async with nh.run(executor):
        await act()
    first, second = model.requests
    assert (first.system_prompt, first.tools) == (second.system_prompt, second.tools)
    assert second.messages[0] == first.messages[0]
    answer = second.messages[1]
    assert isinstance(answer, nh.models.AssistantMessage)
    assert answer.text == "First I set it."
    assert [call.name for call in answer.tool_calls] == ["nh_assign"]
    assert first.tool_choice == "required"
    assert first.settings == {"temperature": 0}


@pytest.mark.parametrize("window", [None, 100_000])
async def test_of_a_long_text_beside_calls_the_beginning_goes_back(window: int | None) -> None:
    chatter = "I think about it. " * 200
    model = ScriptedModel(
        [
            model_response(assigning("1"), text=chatter),
            model_response(assigning("2"), text="Short."),
            model_response(DONE),
        ],
        capabilities=nh.models.ModelCapabilities(context_window=window),
    )
    executor = nh.AgentStepExecutor.from_model(model=model)
    async with nh.run(executor):
        assert await act() == 2
        transcript = nh.transcript()
    for request in model.requests[1:]:
        sent = request.messages[1]
        assert isinstance(sent, nh.models.AssistantMessage)
        assert sent.text == chatter[:500] + "… [3,100 more characters of this text beside calls are left out]"
        assert [call.name for call in sent.tool_calls] == ["nh_assign"]
    assert "Short." in str(model.requests[2].messages[3])
    assert chatter in str(transcript.messages[1])


async def test_content_that_a_provider_wants_back_unchanged_is_not_cut() -> None:
    chatter = "I think about it. " * 200
    given = model_response(assigning("1"), text=chatter)
    content = nh.models.ProviderContent(protocol="own", items=({"type": "signed", "text": chatter},))
    *events, finished = given.events
    assert isinstance(finished, nh.models.ResponseFinished)
    signed = nh.models.ResponseFinished(reason=finished.reason, provider_content=content)
    model, executor = scripted(type(given)(events=(*events, signed)), model_response(DONE))
    async with nh.run(executor):
        await act()
    sent = model.requests[1].messages[1]
    assert isinstance(sent, nh.models.AssistantMessage)
    assert (sent.text, sent.provider_content) == (chatter, content)


async def test_reasoning_goes_back_to_the_model() -> None:
    events = model_response(assigning("1")).events
    response = model_response()
    thinking = type(response)(
        events=(nh.models.ReasoningDelta(text="hm, "), nh.models.ReasoningDelta(text="one"), *events)
    )
    model, executor = scripted(thinking, model_response(DONE))
    async with nh.run(executor):
        await act()
    answer = model.requests[1].messages[1]
    assert isinstance(answer, nh.models.AssistantMessage)
    assert answer.reasoning == "hm, one"


# ---- outcomes


async def test_an_outcome_after_a_failed_call_is_not_honoured() -> None:
    model, executor = scripted(
        model_response(assigning("'many'"), assigning("2"), DONE), model_response(assigning("3"), DONE)
    )
    async with nh.run(executor):
        assert await act() == 3
    failed, succeeded, outcome = results_of(model.requests[1])
    assert (failed.is_error, succeeded.is_error, outcome.is_error) == (True, False, True)
    assert "not accepted, because calls before it failed: nh_assign" in str(outcome.content[0])


async def test_an_outcome_with_calls_after_it_is_not_honoured_so_that_nothing_is_lost() -> None:
    model, executor = scripted(
        model_response(assigning("1"), DONE, assigning("2")), model_response(assigning("2"), DONE)
    )
    async with nh.run(executor):
        assert await act() == 2
    done, outcome, late = results_of(model.requests[1])
    assert (done.is_error, outcome.is_error, late.is_error) == (False, True, True)
    assert "not accepted, because calls came after it" in str(outcome.content[0])
    assert "came after nh_outcome" in str(late.content[0])


async def test_text_alone_is_answered_with_what_to_do() -> None:
    model, executor = scripted(
        model_response(text="All good."),
        model_response(text="All g", finish_reason="length"),
        model_response(text='  {"kind": "pass"}'),
    )
    async with nh.run(executor):
        assert await act(7) == 7
    assert "by calling nh_outcome" in str(model.requests[1].messages[-1])
    assert "length limit" in str(model.requests[2].messages[-1])


async def test_an_outcome_as_text_that_was_cut_off_is_refused_as_that() -> None:
    model, executor = scripted(
        model_response(text='{"kind": "pa', finish_reason="length"),
        model_response(text='{"kind": "pass"}', finish_reason="length"),
    )
    async with nh.run(executor):
        assert await act(7) == 7
    assert "cut off at its length limit" in str(model.requests[1].messages[-1])


async def test_what_the_content_filter_withheld_is_an_error() -> None:
    _, executor = scripted(model_response(text="I cannot", finish_reason="content_filter"))
    async with nh.run(executor):
        with pytest.raises(nh.ExecutionError, match="content filter withheld the answer: I cannot"):
            await act()


async def test_a_long_answer_is_quoted_in_part() -> None:
    _, executor = scripted(model_response(text="x" * 10_000), max_corrective_turns=0)
    async with nh.run(executor):
        with pytest.raises(nh.ExecutionError, match=r"x{500}…$") as caught:
            await act()
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("wrap", ['{"result": %s}', "%s"])
async def test_the_native_transport_asks_for_a_wrapped_union_and_takes_both_forms(wrap: str) -> None:
    model, executor = scripted(
        model_response(assigning("3")),
        model_response(text=wrap % '{"kind": "return", "return_expression": "number"}'),
        outcome_transport="native",
    )
    async with nh.run(executor):
        assert await act() == 3
    request = model.requests[0]
    assert request.response_format is not None
    schema = request.response_format.schema
    kinds = [variant["properties"]["kind"]["enum"] for variant in schema["properties"]["result"]["anyOf"]]
    assert kinds == [["pass"], ["return"], ["raise"]]
    assert schema["required"] == ["result"]
    assert request.tool_choice == "auto"
    assert "nh_outcome" not in [tool.name for tool in request.tools]


async def test_a_refused_native_outcome_is_told_in_a_message() -> None:
    model, executor = scripted(
        model_response(text='{"kind": "return", "return_expression": "\'many\'"}'),
        model_response(text='{"kind": "pass"}'),
        outcome_transport="native",
    )
    async with nh.run(executor):
        assert await act(7) == 7
    message = model.requests[1].messages[-1]
    assert isinstance(message, nh.models.UserMessage)
    assert "That outcome was refused" in str(message.content[0])


async def test_a_native_error_type_is_required_and_may_be_null() -> None:
    @nh.natural_function
    async def fail() -> None:
        """natural
        Raise ValueError.
        """

    model, executor = scripted(
        model_response(text='{"kind": "raise", "raise_message": "m", "raise_error_type": null}'),
        outcome_transport="native",
    )
    async with nh.run(executor):
        with pytest.raises(nh.ExecutionError, match=r"^m$"):
            await fail()
    assert model.requests[0].response_format is not None
    variants = model.requests[0].response_format.schema["properties"]["result"]["anyOf"]
    raising, by_expression = (
        variant for variant in variants if variant["properties"]["kind"]["enum"] == ["raise"]
    )
    assert by_expression["required"] == ["kind", "raise_expression"]
    assert raising["required"] == ["kind", "raise_message", "raise_error_type"]
    assert raising["properties"]["raise_error_type"]["enum"] == ["ValueError", None]


# ---- limits


async def test_max_turns_limits_model_requests() -> None:
    model, executor = scripted(*[model_response(assigning("1"))] * 5, max_turns=3)
    async with nh.run(executor):
        with pytest.raises(nh.errors.StepLimitError, match=r"after 3 model requests \(max_turns\)"):
            await act()
    assert len(model.requests) == 3


async def test_max_tool_calls_limits_calls_over_all_turns_but_not_the_outcome() -> None:
    answers = [model_response(assigning("1"), assigning("2")), model_response(assigning("3"), DONE)]
    _, executor = scripted(*answers, max_tool_calls=3)
    async with nh.run(executor):
        assert await act() == 3
    _, executor = scripted(*answers, max_tool_calls=2)
    async with nh.run(executor) as run:
        with pytest.raises(nh.errors.StepLimitError, match=r"after 2 tool calls \(max_tool_calls\)"):
            await act()
    assert run.usage_meter.usage.requests == 2


@pytest.mark.virtual_time
async def test_step_timeout_limits_the_seconds_of_a_step() -> None:
    async def take_long() -> None:
        await anyio.sleep(3600)

    _, executor = scripted(model_response(tool_call("nh_eval", expression="take_long()")), step_timeout=90)
    async with nh.run(executor) as run:
        started = anyio.current_time()
        scope = nh.scope(implicit_references={"take_long": take_long})
        with scope, pytest.raises(nh.errors.StepLimitError, match="no outcome after 90 seconds"):
            await act()
        assert anyio.current_time() - started == pytest.approx(90)
    assert run.usage_meter.usage.requests == 1


# ---- streaming


class StreamedModel:
    """A model whose stream is an async generator function of the test."""

    name = "streamed:model"
    capabilities = nh.models.ModelCapabilities()

    def __init__(self, *streams: Any) -> None:
        self.streams = list(streams)
        self.open_streams = 0

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        self.open_streams += 1
        try:
            yield self.streams.pop(0)()
        finally:
            self.open_streams -= 1


def completed(call: nh.models.ToolCall, index: int = 0) -> nh.models.ToolCallCompleted:
    identified = nh.models.ToolCall(id=f"call_{index}", name=call.name, arguments=call.arguments)
    return nh.models.ToolCallCompleted(index=index, call=identified)


async def test_a_tool_call_is_dispatched_while_the_response_still_streams() -> None:
    called = anyio.Event()

    async def stream() -> AsyncIterator[nh.models.ModelEvent]:
        yield nh.models.ToolCallStarted(index=0, id="call_0", name="nh_eval")
        yield nh.models.ToolCallArgumentsDelta(index=0, fragment="{")
        yield completed(tool_call("nh_eval", expression="called.set()"))
        await called.wait()  # the response goes on only when the call was carried out
        yield completed(tool_call("nh_outcome", kind="pass"), index=1)
        yield nh.models.ResponseFinished(reason="tool_calls")

    async with nh.run(nh.AgentStepExecutor.from_model(model=StreamedModel(stream))) as run:
        with nh.scope(implicit_references={"called": called}), anyio.fail_after(240):
            assert await act(7) == 7
    assert run.usage_meter.usage == nh.Usage(requests=1, is_complete=False)


async def test_a_model_error_in_the_middle_of_a_stream_arrives_bare_and_cancels_calls_in_progress() -> None:
    began, ended = anyio.Event(), []

    async def wait_for_ever() -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    error = nh.errors.ModelProviderError("overloaded", is_transient=True)

    async def stream() -> AsyncIterator[nh.models.ModelEvent]:
        yield nh.models.UsageReported(usage=nh.Usage(requests=1, input_tokens=7))
        yield completed(tool_call("nh_eval", expression="wait_for_ever()"))
        await began.wait()
        raise error

    model = StreamedModel(stream)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)) as run:
        scope = nh.scope(implicit_references={"wait_for_ever": wait_for_ever})
        with scope, pytest.raises(nh.errors.ModelProviderError) as caught:
            await act()
    assert caught.value is error
    assert ended == ["cancelled"]
    assert model.open_streams == 0
    assert run.usage_meter.usage == nh.Usage(requests=1, input_tokens=7)


async def test_the_latest_usage_report_of_a_response_counts() -> None:
    async def stream() -> AsyncIterator[nh.models.ModelEvent]:
        yield nh.models.UsageReported(usage=nh.Usage(requests=1, input_tokens=7))
        yield nh.models.UsageReported(usage=nh.Usage(requests=1, input_tokens=7, output_tokens=3))
        yield completed(DONE)
        yield nh.models.ResponseFinished(reason="tool_calls")

    async with nh.run(nh.AgentStepExecutor.from_model(model=StreamedModel(stream))) as run:
        await act()
    assert run.usage_meter.usage == nh.Usage(requests=1, input_tokens=7, output_tokens=3)


async def test_a_failing_call_that_breaks_the_contract_ends_the_response() -> None:
    async def stream() -> AsyncIterator[nh.models.ModelEvent]:
        yield completed(tool_call("nh_eval", expression="1"))
        await anyio.sleep_forever()

    class Wrong:
        def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> Any:
            return "yes"

        def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> Any:
            return nh.oversight.Accept()

    model = StreamedModel(stream)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        with nh.scope(oversight=Wrong()), pytest.raises(nh.NighthawkError, match="answered 'yes'"):
            await act()
    assert model.open_streams == 0


def test_the_loop_itself_needs_no_event_loop() -> None:
    reports: list[Any] = []

    async def unused(*_: Any) -> Any:
        raise AssertionError

    task = nh.executors.AgentTask(
        step_id="module:1",
        system_prompt="system",
        user_prompt=("user",),
        tools=(),
        begin_tool_call=unused,  # type: ignore[arg-type]
        outcome_transport="tool",
        allowed_kinds=("pass",),
        raise_error_types=(),
        conclude=unused,
        settings={},
        max_turns=2,
        max_tool_calls=1,
        max_corrective_turns=1,
        max_tool_argument_bytes=100,
        turn_boundary=unused,
        may_end=unused,
        report_usage=lambda name, usage: reports.append(usage),
    )
    loop = AgentLoop(task)
    request = loop.next_request(("Be quick.",))
    assert request.messages[-1] == nh.models.UserMessage(content=("Be quick.",))
    effect = loop.feed(completed(tool_call("nh_eval", expression="1")))
    assert effect is not None
    assert effect.position == 0
    assert loop.feed(completed(DONE, index=1)) is None
    result = nh.models.ToolResult(call_id="call_0", name="nh_eval", content=("1",))
    loop.tool_finished(0, result)
    end = loop.end_turn()
    assert isinstance(end, ProposedOutcome)
    assert end.answer.outcome == nh.executors.PassStepOutcome()
    loop.refuse("not yet")
    second = loop.next_request()
    assert [item.is_error for item in results_of(second)] == [False, True]
    with pytest.raises(nh.errors.StepLimitError):
        loop.next_request()


@pytest.mark.parametrize("kind", ["continue", "break"])
async def test_a_model_may_steer_a_loop(kind: str) -> None:
    @nh.natural_function
    async def count() -> int:
        count = 0
        for _ in range(3):
            """natural
            Skip or stop.
            """
            count += 1
        return count

    answers = [model_response(tool_call("nh_outcome", kind=each)) for each in ("pass", kind, "pass")]
    _, executor = scripted(*answers)
    async with nh.run(executor):
        assert await count() == {"continue": 2, "break": 1}[kind]


@nh.natural_function
async def look_at(rows: list[int]) -> None:
    """natural
    Look at <rows>.
    """


async def test_a_tokenizer_that_may_be_needed_is_loaded_in_a_worker_thread() -> None:
    loaded_in: list[str] = []

    class Counter(TokenCounter):
        def load(self) -> None:
            loaded_in.append(threading.current_thread().name)
            super().load()

    _, executor = scripted(model_response(DONE), model_response(DONE))
    executor.token_encoding = Counter(encoding_name="o200k_base")
    async with nh.run(executor):
        await act(7)
        assert loaded_in == []
        await look_at([1, 2, 3])
    assert len(loaded_in) == 1
    assert loaded_in[0] != threading.current_thread().name


async def test_an_annotation_that_cannot_be_resolved_matters_only_where_the_block_may_return() -> None:
    @nh.natural_function
    async def promise() -> "NoSuchType":
        """natural
        ---
        deny: [return]
        ---
        Go on.
        """
        return None

    model, executor = scripted(model_response(DONE))
    async with nh.run(executor):
        assert await promise() is None
    assert "the value must be" not in model.requests[0].system_prompt


async def test_short_texts_need_no_tokenizer() -> None:
    _, executor = scripted(model_response(DONE), model_response(DONE))
    executor.token_encoding = TokenCounter(encoding_name="o200k_base")

    @nh.natural_function
    async def greet(name: str) -> None:
        """natural
        Greet <name>.
        """

    async with nh.run(executor):
        await greet("ada")
        assert not executor.token_encoding.is_loaded
        await greet("ada" * 1000)
    assert executor.token_encoding.is_loaded
