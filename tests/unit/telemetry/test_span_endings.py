"""However a request, a tool or an agent ends, its span ends, and what was current before is current again."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import anyio
import pytest
from anyio.lowlevel import checkpoint
from opentelemetry import trace
from opentelemetry.trace import StatusCode

import nighthawk_async as nh
from nighthawk_async.agent.model_call import open_stream
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelReply,
    ModelResponse,
    ModelServer,
    ScriptedExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    raise_response,
    tool_call,
)

from .agents import OUTCOME, act, agent, assign, compute, evaluate, execute
from .test_span_attributes import endpoint_of
from .traces import Traces

pytestmark = pytest.mark.anyio

REQUEST = nh.models.ModelRequest(messages=(nh.models.UserMessage(content=("Hello",)),))


class SlowModel:
    """Streams one word after another, with a wait before each; a tool call comes first."""

    name = "slow:model"
    capabilities = nh.models.ModelCapabilities()

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent]]:
        await checkpoint()
        async with aclosing(self._events(request)) as events:
            yield events
        await checkpoint()

    async def _events(self, request: nh.models.ModelRequest) -> AsyncGenerator[nh.models.ModelEvent]:
        is_first = len(request.messages) == 1
        for event in model_response(assign() if is_first else OUTCOME, text="one").events:
            await checkpoint()
            yield event


@pytest.mark.parametrize(
    ("executor", "function"),
    [
        (nh.AgentStepExecutor.from_model(model=SlowModel()), act),
        (agent(evaluate("inner()"), execute("await inner()")), compute),
    ],
)
async def test_a_step_that_is_cancelled_at_any_point_ends_every_span_and_logs_nothing(
    traces: Traces,
    caplog: pytest.LogCaptureFixture,
    executor: nh.AgentStepExecutor,
    function: Callable[[], Awaitable[str]],
) -> None:
    points, has_ended = 0, False
    while not has_ended:
        points += 1
        async with nh.run(executor):
            has_ended = await _ends_within(points, function)
        traces.check()
        assert trace.get_current_span() is trace.INVALID_SPAN
    assert points > 10
    assert caplog.text == ""


async def _ends_within(points: int, function: Callable[[], Awaitable[str]]) -> bool:
    """Whether a step ends within that many turns of the event loop; it is cancelled if not."""
    has_ended = False

    async def call() -> None:
        nonlocal has_ended
        await function()
        has_ended = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        for _ in range(points):
            await checkpoint()
        tasks.cancel_scope.cancel()
    return has_ended


async def test_a_cancelled_request_says_so_and_is_no_error(traces: Traces) -> None:
    reached = anyio.Event()

    class Endless(SlowModel):
        async def _events(self, request: nh.models.ModelRequest) -> AsyncGenerator[nh.models.ModelEvent]:
            yield nh.models.TextDelta(text="one")
            reached.set()
            await anyio.sleep_forever()

    executor = nh.AgentStepExecutor.from_model(model=Endless())
    async with nh.run(executor), anyio.create_task_group() as tasks:
        tasks.start_soon(act)
        await reached.wait()
        tasks.cancel_scope.cancel()
    traces.check()
    for name in ("chat", "invoke_agent"):
        assert traces.attributes(name)["error.type"] == "cancelled"
        assert traces.only(name).status.status_code == StatusCode.UNSET


async def test_a_response_that_is_left_early_ends_its_span(
    traces: Traces, caplog: pytest.LogCaptureFixture
) -> None:
    async with nh.run(agent()) as run, nh.scope():
        around = trace.get_current_span()
        async with open_stream(SlowModel(), REQUEST) as events:
            async for _ in events:
                assert trace.get_current_span() is around
                break
        assert trace.get_current_span() is around
        del run
    assert traces.attributes("chat")["error.type"] == "cancelled"
    assert traces.only("chat").status.status_code == StatusCode.UNSET
    traces.check()
    assert caplog.text == ""


async def test_a_response_that_another_task_goes_on_with_keeps_both_tasks_as_they_were(
    traces: Traces, caplog: pytest.LogCaptureFixture
) -> None:
    async with nh.run(agent()), nh.scope():
        around = trace.get_current_span()
        stream = open_stream(SlowModel(), REQUEST)
        events = await stream.__aenter__()

        async def go_on() -> None:
            async for _ in events:
                assert trace.get_current_span() is around
            await stream.__aexit__(None, None, None)
            assert trace.get_current_span() is around

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go_on)
        assert trace.get_current_span() is around
    traces.check()
    assert caplog.text == ""


async def test_two_attempts_are_one_span_with_an_event_of_the_one_that_failed(traces: Traces) -> None:
    busy = ModelReply(status=503, headers={"retry-after-ms": "1"}, text="busy")
    async with ModelServer([busy, ModelReply(tool_calls=(OUTCOME,))]) as server, nh.run(endpoint_of(server)):
        await act()
    (event,) = traces.only("chat").events
    assert event.name == "nighthawk.model.attempt_failed"
    assert (event.attributes or {})["http.response.status_code"] == 503
    assert traces.only("chat").status.status_code == StatusCode.UNSET


@pytest.mark.parametrize(
    "reply", [ModelReply(status=400, text="no"), ModelReply(text="a", ending="close", ending_after=1)]
)
async def test_a_request_that_fails_tells_the_class_of_its_error_and_no_text(
    traces: Traces, reply: ModelReply
) -> None:
    async with ModelServer([reply]) as server, nh.run(endpoint_of(server, max_retries=0)):
        with pytest.raises(nh.ModelError) as caught:
            await act()
    for name in ("chat", "invoke_agent"):
        assert traces.attributes(name)["error.type"] == type(caught.value).__name__
        status = traces.only(name).status
        assert (status.status_code, status.description) == (StatusCode.ERROR, None)
    traces.check()


async def test_a_raise_outcome_is_no_error_of_the_agent(traces: Traces) -> None:
    refusal = tool_call("nh_outcome", kind="raise", raise_message="too much")
    model = ScriptedModel([model_response(refusal)])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        with pytest.raises(nh.ExecutionError, match="too much"):
            await act()
    assert traces.only("invoke_agent").status.status_code == StatusCode.UNSET
    assert "error.type" not in traces.attributes("invoke_agent")
    traces.check()


async def test_tools_that_a_failing_request_leaves_behind_end_with_their_agent(traces: Traces) -> None:
    events = model_response(evaluate("slow()")).events[:-2]

    async def slow() -> None:
        await anyio.sleep_forever()

    @nh.natural_function
    async def call_it() -> None:
        """natural
        Call <slow>.
        """

    model = ScriptedModel([ModelResponse(events=events)])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        with pytest.raises(nh.ModelError):
            await call_it()
    traces.check()
    assert traces.attributes("execute_tool")["error.type"] == "cancelled"


async def test_a_tool_that_a_budget_ends_tells_the_error_that_ended_it(traces: Traces) -> None:
    async with nh.run(agent(evaluate("1"), evaluate("2")), step_budget=nh.budget(tool_calls=1)):
        with pytest.raises(nh.BudgetExceededError):
            await act()
    traces.check()
    assert traces.attributes("invoke_agent")["error.type"] == "BudgetExceededError"


async def test_every_span_around_a_failure_says_its_class(traces: Traces) -> None:
    def fail(call: StepCall) -> StepResponse:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        async with nh.run(CallbackExecutor(fail)), nh.scope():
            await act()
    for span in traces.spans:
        assert (span.attributes or {})["error.type"] == "ValueError", span.name
        assert span.status.status_code == StatusCode.ERROR, span.name
        assert span.status.description == ("broken" if span.name == "nighthawk.step" else None)
    assert {span.name for span in traces.spans} == {
        f"nighthawk.{name}" for name in ("run", "scope", "step", "step_executor")
    }


async def test_every_span_around_what_is_cancelled_says_so_and_is_no_error(traces: Traces) -> None:
    reached = anyio.Event()

    async def wait(call: StepCall) -> StepResponse:
        reached.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def call() -> None:
        async with nh.run(CallbackExecutor(wait)), nh.scope():
            await act()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await reached.wait()
        tasks.cancel_scope.cancel()
    assert len(traces.spans) == 4
    for span in traces.spans:
        assert (span.attributes or {})["error.type"] == "cancelled", span.name
        assert span.status.status_code == StatusCode.UNSET, span.name


async def test_a_raise_outcome_is_no_error_of_its_step(traces: Traces) -> None:
    async with nh.run(ScriptedExecutor([raise_response("too much")])):
        with pytest.raises(nh.ExecutionError, match="too much"):
            await act()
    assert not any("error.type" in (span.attributes or {}) for span in traces.spans)
