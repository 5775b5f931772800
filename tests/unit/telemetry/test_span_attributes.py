"""What spans tell of agents, requests and tools, under the names of both conventions."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import StatusCode

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, ScriptedModel, model_response, tool_call
from tests.tracing import trace_with

from .agents import OUTCOME, act, agent, assign, compute, evaluate
from .traces import Traces, telemetry

pytestmark = pytest.mark.anyio

USAGE = nh.Usage(
    requests=1,
    input_tokens=100,
    output_tokens=20,
    cache_read_tokens=60,
    cache_write_tokens=30,
    reasoning_tokens=5,
)


def endpoint_of(server: ModelServer, model: str = "openai-chat:gpt", **settings: Any) -> nh.AgentStepExecutor:
    base_url = server.base_url.removesuffix("/v1") if model.startswith("google") else server.base_url
    settings = {"base_url": base_url, "api_key": "sk-0123456789abcdef-key", **settings}
    configuration = nh.StepExecutorConfiguration(model=model, model_settings=settings)
    return nh.AgentStepExecutor.from_configuration(configuration=configuration)


async def test_an_agent_tells_its_function_its_model_and_what_it_consumed(traces: Traces) -> None:
    async with nh.run(agent(assign())):
        await act()
    assert traces.attributes("invoke_agent") == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.name": "act",
        "gen_ai.agent.id": f"{act.__module__}:act:1",
        "gen_ai.request.model": "some-model",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 10,
    }


async def test_the_usage_of_an_agent_is_without_that_of_the_agents_below_it(traces: Traces) -> None:
    async with nh.run(agent(evaluate("inner()"))):
        await compute()
    spans = traces.named("invoke_agent")
    assert [(span.attributes or {})["gen_ai.usage.input_tokens"] for span in spans] == [20, 10]


@pytest.mark.parametrize(
    ("model", "span_name", "provider"),
    [
        ("openai-chat:gpt", "chat gpt", "openai"),
        ("openai-responses:gpt", "chat gpt", "openai"),
        ("anthropic:claude", "chat claude", "anthropic"),
        ("google:gemini", "generate_content gemini", "gcp.gemini"),
    ],
)
async def test_a_request_tells_what_was_asked_where_and_what_came_of_it(
    traces: Traces, model: str, span_name: str, provider: str
) -> None:
    usage = nh.Usage(requests=1, input_tokens=100, output_tokens=20, cache_read_tokens=60)
    async with ModelServer([ModelReply(tool_calls=(OUTCOME,), usage=usage)]) as server:
        settings = {"temperature": 0.5, "max_tokens": 99}
        async with nh.run(endpoint_of(server, model, **settings)):
            await act()
        port = int(server.base_url.rpartition(":")[2].removesuffix("/v1"))
    told = traces.attributes(span_name)
    assert told.pop("gen_ai.response.time_to_first_chunk") > 0
    assert told.pop("gen_ai.response.id", "an id")
    assert told.pop("gen_ai.response.model", "a model")
    assert told == {
        "gen_ai.operation.name": span_name.split()[0],
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": span_name.split()[1],
        "server.address": "127.0.0.1",
        "server.port": port,
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 99,
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 60,
    }


async def chat_attributes(traces: Traces, settings: dict[str, Any]) -> dict[str, Any]:
    model = ScriptedModel([model_response(OUTCOME, usage=USAGE)], name="own:some-model")
    configuration = nh.StepExecutorConfiguration(model_settings=settings)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        await act()
    return traces.attributes("chat")


async def test_settings_of_a_request_have_the_names_of_the_conventions(traces: Traces) -> None:
    settings = {
        "top_p": 0.9,
        "top_k": 40,
        "seed": 7,
        "stop": "END",
        "frequency_penalty": 1,
        "presence_penalty": 0.1,
        "reasoning_effort": "low",
        "stream": False,
        "temperature": "warm",
        "max_tokens": float("nan"),
    }
    told = await chat_attributes(traces, settings)
    asked = {name: value for name, value in told.items() if name.startswith("gen_ai.request")}
    assert asked == {
        "gen_ai.request.model": "some-model",
        "gen_ai.request.stream": False,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.top_k": 40,
        "gen_ai.request.seed": 7,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.request.frequency_penalty": 1.0,
        "gen_ai.request.presence_penalty": 0.1,
    }
    assert "gen_ai.response.time_to_first_chunk" not in told


async def test_the_latest_conventions_rename_and_add(traces: Traces) -> None:
    with telemetry(semantic_conventions="latest"):
        told = await chat_attributes(traces, {"reasoning_effort": "low"})
    assert told["gen_ai.request.reasoning.level"] == "low"
    assert told["gen_ai.usage.cache_write.input_tokens"] == 30
    assert told["gen_ai.usage.reasoning.output_tokens"] == 5
    assert "gen_ai.usage.cache_creation.input_tokens" not in told


async def test_the_baseline_names_the_parts_of_usage_its_own_way(traces: Traces) -> None:
    told = await chat_attributes(traces, {})
    assert told["gen_ai.usage.cache_creation.input_tokens"] == 30
    assert told["gen_ai.usage.reasoning.output_tokens"] == 5
    assert "gen_ai.request.reasoning.level" not in told


async def test_a_tool_call_tells_its_name_its_id_and_its_description(traces: Traces) -> None:
    async with nh.run(
        agent(nh.models.ToolCall(id="the call", name="nh_eval", arguments='{"expression": "1"}'))
    ):
        await act()
    told = traces.attributes("execute_tool")
    assert told.pop("gen_ai.tool.description").startswith("Evaluate")
    assert told == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.agent.name": "act",
        "gen_ai.tool.name": "nh_eval",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "the call",
    }


@pytest.mark.parametrize(
    ("call", "error_type"),
    [
        (evaluate("1 / 0"), "execution"),
        (tool_call("nothing"), "resolution"),
        (tool_call("nh_eval", other=1), "invalid_input"),
    ],
)
async def test_a_failing_tool_tells_the_kind_of_its_error_and_no_text(
    traces: Traces, call: nh.models.ToolCall, error_type: str
) -> None:
    async with nh.run(agent(call)):
        await act()
    span = traces.only("execute_tool")
    assert (span.attributes or {})["error.type"] == error_type
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert traces.only("invoke_agent").status.status_code == StatusCode.UNSET


class Noting(Sampler):
    """Samples everything, and keeps what it may decide by."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, Any]] = {}

    def should_sample(self, parent_context: Any, trace_id: int, name: str, *rest: Any, **more: Any) -> Any:
        attributes = more.get("attributes") or (rest[1] if len(rest) > 1 else None) or {}
        self.seen[name.partition(" ")[0]] = dict(attributes)
        return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes)

    def get_description(self) -> str:
        return "noting"


async def test_samplers_know_what_they_may_decide_by(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = Noting()
    provider = TracerProvider(sampler=sampler)
    trace_with(monkeypatch, provider)
    async with (
        ModelServer([ModelReply(tool_calls=(assign(), OUTCOME))]) as server,
        nh.run(endpoint_of(server)),
    ):
        await act()
    provider.shutdown()
    operation, model = "gen_ai.operation.name", {"gen_ai.provider.name", "gen_ai.request.model"}
    server_names = {"server.address", "server.port"}
    assert {operation, *model, *server_names, "gen_ai.agent.name"} <= sampler.seen["invoke_agent"].keys()
    assert {operation, *model, *server_names} <= sampler.seen["chat"].keys()
    assert {operation, "gen_ai.tool.name", "gen_ai.tool.type"} <= sampler.seen["execute_tool"].keys()


async def test_a_request_whose_settings_are_bad_fails_as_it_does_without_traces(traces: Traces) -> None:
    async with ModelServer([]) as server, nh.run(endpoint_of(server, messages=[])):
        with pytest.raises(nh.ConfigurationError, match="messages"):
            await act()
    traces.check()
    assert traces.attributes("invoke_agent")["error.type"] == "ConfigurationError"


async def test_a_request_tells_the_settings_of_its_model_too(traces: Traces) -> None:
    async with ModelServer([ModelReply(tool_calls=(OUTCOME,))]) as server:
        model = endpoint_of(server, stream=False, temperature=0.5, extra_body={"top_p": 0.25}).model
        async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
            await act()
        (sent,) = (request.body for request in server.requests)
    assert (sent["stream"], sent["temperature"], sent["top_p"]) == (False, 0.5, 0.25)
    told, agent_told = traces.attributes("chat"), traces.attributes("invoke_agent")
    assert told["gen_ai.request.stream"] is False
    assert "gen_ai.response.time_to_first_chunk" not in told
    for each in (told, agent_told):
        assert (each["gen_ai.request.temperature"], each["gen_ai.request.top_p"]) == (0.5, 0.25)


async def test_a_whole_response_is_no_stream_for_the_latest_conventions(traces: Traces) -> None:
    with telemetry(semantic_conventions="latest"):
        told = await chat_attributes(traces, {"stream": False})
    assert "gen_ai.request.stream" not in told


async def test_a_request_tells_the_limit_that_its_protocol_demands(traces: Traces) -> None:
    async with ModelServer([ModelReply(tool_calls=(OUTCOME,))]) as server:
        async with nh.run(endpoint_of(server, "anthropic:claude")):
            await act()
        (request,) = server.requests
    assert traces.attributes("chat")["gen_ai.request.max_tokens"] == request.body["max_tokens"]


class OwnAgent:
    """Has nothing to do."""

    async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
        return nh.executors.PassStepOutcome()


async def test_an_agent_of_the_users_own_has_a_provider_too(traces: Traces) -> None:
    async with nh.run(nh.AgentStepExecutor.from_agent(agent=OwnAgent())):
        await act()
    assert traces.attributes("invoke_agent") == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "nighthawk_async",
        "gen_ai.agent.name": "act",
        "gen_ai.agent.id": f"{act.__module__}:act:1",
    }


async def test_a_cached_response_is_told_and_consumed_nothing(traces: Traces) -> None:
    call = tool_call("nh_assign", target_path="answer", expression="'x'")
    model = ScriptedModel([model_response(call, OUTCOME, usage=USAGE)], name="openai-chat:some-model")
    async with nh.run(model), nh.resilience.cached():
        await compute()
        await compute()
    asked, cached = (dict(span.attributes or {}) for span in traces.named("chat"))
    assert asked["gen_ai.usage.input_tokens"] == 100
    assert cached["gen_ai.usage.input_tokens"] == 0
    assert [each.get("nighthawk.response.cached") for each in (asked, cached)] == [None, True]
