"""The names of OpenTelemetry's conventions for generative AI, in two versions. Data only.

Everything else takes its names from here. Sources: `docs/gen-ai` of `open-telemetry/semantic-conventions` at
v1.41.1, the last version before they moved, and of `open-telemetry/semantic-conventions-genai`, which
continues them and still renames.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The bounds of the buckets of durations, which the conventions ask for."""

AGENT_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
"""The bounds of the buckets of durations of agents, which the conventions ask for."""

CALLS = (1, 2, 4, 8, 16, 32, 64, 128)
"""The bounds of the buckets of numbers of calls, which the conventions ask for."""

TOKENS = tuple(4**power for power in range(14))
"""The bounds of the buckets of numbers of tokens, which the conventions ask for."""

CORRECTIONS = "nighthawk.corrections"
"""The library's own metric of the number of corrections sent to models."""

CORRECTION_CAUSE = "nighthawk.correction.cause"
"""The cause of a correction."""

QUEUE_LIVES = "nighthawk.queue.lives"
"""The library's own metric of the number of lives of runs of queues that have ended."""

READINGS = "nighthawk.readings"
"""The library's own metric of the number of answers and calls that were read leniently."""

READING = "nighthawk.reading"
"""The form in which an answer or a call was read."""

BUDGET_LEFT = "nighthawk.budget.left"
"""The library's own metric of the amount that is left of a shared budget."""

BUDGET_NAME = "nighthawk.budget.name"
"""The budget."""

BUDGET_RESOURCE = "nighthawk.budget.resource"
"""The resource of a limit: `cost` in US dollars, `tokens`, `requests` and so on."""

BUDGET_WINDOW = "nighthawk.budget.window"
"""The window of a limit in words."""

QUEUE_NAME = "nighthawk.queue.name"
"""The queue."""

QUEUE_FUNCTION = "nighthawk.queue.function"
"""The function that a queue's run calls, as `module:name`."""

QUEUE_END = "nighthawk.queue.end"
"""The end of a life: `ended`, `failed`, `parked`, `returned` to the queue, or `lost` to another worker."""

EVALUATION_CASE = "nighthawk.evaluation.case"
"""The name of the case whose result was scored."""

EVALUATION_TRIAL = "nighthawk.evaluation.trial"
"""The number of the trial of the case, from 1."""

PROVIDERS: Mapping[str, str] = MappingProxyType(
    {
        "openai-chat": "openai",
        "openai-responses": "openai",
        "google": "gcp.gemini",
        "azure": "azure.ai.openai",
        "azure-chat": "azure.ai.openai",
        "azure-anthropic": "azure.ai.inference",
        "bedrock": "aws.bedrock",
        "bedrock-responses": "aws.bedrock",
        "bedrock-anthropic": "aws.bedrock",
        "bedrock-mantle": "aws.bedrock",
        "bedrock-mantle-responses": "aws.bedrock",
        "bedrock-mantle-anthropic": "aws.bedrock",
        "vertex": "gcp.vertex_ai",
        "vertex-anthropic": "gcp.vertex_ai",
        "vertex-chat": "gcp.vertex_ai",
        "mistral": "mistral_ai",
        "mistral-responses": "mistral_ai",
        "xai": "x_ai",
        "xai-chat": "x_ai",
        "groq-responses": "groq",
        "deepseek-anthropic": "deepseek",
        "deepseek-responses": "deepseek",
        "snowflake-anthropic": "snowflake",
        "openrouter-responses": "openrouter",
        "openrouter-anthropic": "openrouter",
    }
)
"""The conventions' name of a provider, where it differs from the first part of the model's id."""

GENERATING_PROVIDERS = frozenset({"google"})
"""Providers to whom a request is the generation of content; to all others it is a chat."""

OWN_AGENT = "nighthawk_async"
"""The provider name for an agent of the user's own, whose models are unknown."""

FINISH_REASONS: Mapping[str, str] = MappingProxyType({"tool_calls": "tool_call"})
"""The conventions' name of the reason why a response ended, where ours differs."""


class Names(Struct, frozen=True, kw_only=True):
    """The names of one version. Those that a version lacks are None."""

    chat: str = "chat"
    generate_content: str = "generate_content"
    invoke_agent: str = "invoke_agent"
    execute_tool: str = "execute_tool"

    operation: str = "gen_ai.operation.name"
    provider: str = "gen_ai.provider.name"
    agent_name: str = "gen_ai.agent.name"
    agent_id: str = "gen_ai.agent.id"
    output_type: str = "gen_ai.output.type"
    server_address: str = "server.address"
    server_port: str = "server.port"
    error_type: str = "error.type"

    request_model: str = "gen_ai.request.model"
    request_stream: str = "gen_ai.request.stream"
    reports_whole_responses: bool = True
    """Whether a request that asks for no stream reports that as well."""
    request_numbers: tuple[tuple[str, str], ...] = (
        ("temperature", "gen_ai.request.temperature"),
        ("top_p", "gen_ai.request.top_p"),
        ("frequency_penalty", "gen_ai.request.frequency_penalty"),
        ("presence_penalty", "gen_ai.request.presence_penalty"),
    )
    request_integers: tuple[tuple[str, str], ...] = (
        ("top_k", "gen_ai.request.top_k"),
        ("seed", "gen_ai.request.seed"),
    )
    request_max_tokens: str = "gen_ai.request.max_tokens"
    request_stop: str = "gen_ai.request.stop_sequences"
    request_reasoning: str | None = None

    response_id: str = "gen_ai.response.id"
    response_model: str = "gen_ai.response.model"
    finish_reasons: str = "gen_ai.response.finish_reasons"
    time_to_first_chunk: str = "gen_ai.response.time_to_first_chunk"

    input_tokens: str = "gen_ai.usage.input_tokens"
    output_tokens: str = "gen_ai.usage.output_tokens"
    cache_read_tokens: str = "gen_ai.usage.cache_read.input_tokens"
    cache_write_tokens: str = "gen_ai.usage.cache_creation.input_tokens"
    reasoning_tokens: str = "gen_ai.usage.reasoning.output_tokens"

    tool_name: str = "gen_ai.tool.name"
    tool_call_id: str = "gen_ai.tool.call.id"
    tool_type: str = "gen_ai.tool.type"
    tool_description: str = "gen_ai.tool.description"

    system_instructions: str = "gen_ai.system_instructions"
    input_messages: str = "gen_ai.input.messages"
    output_messages: str = "gen_ai.output.messages"
    tool_definitions: str = "gen_ai.tool.definitions"
    tool_arguments: str = "gen_ai.tool.call.arguments"
    tool_result: str = "gen_ai.tool.call.result"
    messages_hold_finish_reason: bool = True
    unfinished_reason: str | None = None
    """The reason why a response broke off."""

    details_event: str | None = None
    exception_event: str | None = None

    evaluation_event: str = "gen_ai.evaluation.result"
    evaluation_name: str = "gen_ai.evaluation.name"
    evaluation_score: str = "gen_ai.evaluation.score.value"
    evaluation_label: str = "gen_ai.evaluation.score.label"
    evaluation_explanation: str = "gen_ai.evaluation.explanation"

    duration_metric: str = "gen_ai.client.operation.duration"
    first_chunk_metric: str = "gen_ai.client.operation.time_to_first_chunk"
    next_chunk_metric: str = "gen_ai.client.operation.time_per_output_chunk"
    token_metric: str | None = "gen_ai.client.token.usage"
    token_type: str = "gen_ai.token.type"
    token_counters: Mapping[str, str] = {}
    """By the name of the attribute that holds the same for one request."""
    token_histograms: Mapping[str, str] = {}
    """As the counters."""
    unknown_modality: Mapping[str, str] = {}
    """The counters' label for the tokens of a provider that does not break them down."""
    agent_duration_metric: str | None = None
    agent_inferences_metric: str | None = None
    agent_tool_calls_metric: str | None = None
    tool_duration_metric: str | None = None


BASELINE = Names()
"""Version 1.41.1."""

LATEST = replace(
    BASELINE,
    request_reasoning="gen_ai.request.reasoning.level",
    cache_write_tokens="gen_ai.usage.cache_write.input_tokens",
    messages_hold_finish_reason=False,
    reports_whole_responses=False,
    unfinished_reason="error",
    details_event="gen_ai.client.inference.operation.details",
    exception_event="gen_ai.client.operation.exception",
    duration_metric="gen_ai.client.inference.duration",
    first_chunk_metric="gen_ai.client.inference.time_to_first_chunk",
    next_chunk_metric="gen_ai.client.inference.time_per_output_chunk",
    token_metric=None,
    token_counters=MappingProxyType(
        {
            "gen_ai.usage.input_tokens": "gen_ai.client.inference.usage.input_tokens",
            "gen_ai.usage.output_tokens": "gen_ai.client.inference.usage.output_tokens",
            "gen_ai.usage.cache_read.input_tokens": "gen_ai.client.inference.usage.cache_read.input_tokens",
            "gen_ai.usage.cache_write.input_tokens": "gen_ai.client.inference.usage.cache_write.input_tokens",
            "gen_ai.usage.reasoning.output_tokens": "gen_ai.client.inference.usage.reasoning.output_tokens",
        }
    ),
    token_histograms=MappingProxyType(
        {
            "gen_ai.usage.input_tokens": "gen_ai.client.inference.operation.input_tokens",
            "gen_ai.usage.output_tokens": "gen_ai.client.inference.operation.output_tokens",
        }
    ),
    unknown_modality=MappingProxyType({"gen_ai.token.modality": "unknown"}),
    agent_duration_metric="gen_ai.invoke_agent.duration",
    agent_inferences_metric="gen_ai.invoke_agent.inference_calls",
    agent_tool_calls_metric="gen_ai.invoke_agent.tool_calls",
    tool_duration_metric="gen_ai.execute_tool.duration",
)
"""The conventions' own repository, as of its document `client-inference.md`."""
