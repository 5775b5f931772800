"""Model settings as typed dictionaries, one per protocol.

A plain dictionary serves as well; these let a type checker see the names. What is not named here goes through
the setting `extra_body`, or, in a plain dictionary, by its name: unknown names travel in the request's body
as they are. `wire.setting_checks` checks values at run time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from typing_extensions import TypedDict

__all__ = [
    "AnthropicSettings",
    "CacheLifetime",
    "GoogleSettings",
    "ModelSettings",
    "OpenAIChatSettings",
    "OpenAIResponsesSettings",
    "ReasoningEffort",
]

ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model should reason before it answers. Not every model knows every word."""

CacheLifetime: TypeAlias = Literal["5m", "1h"]
"""How long a provider keeps the cached part of a prompt: five minutes or an hour."""


class ModelSettings(TypedDict, total=False):
    """Settings of every protocol, under one name each; a codec writes what its protocol calls them.

    Args:
        temperature: How freely the model chooses its words.
        top_p: The share of probability that the model chooses from.
        max_tokens: Tokens that the response may hold, reasoning included.
        stop: Texts at which the response ends.
        seed: Makes answers repeatable, as far as the endpoint can.
        parallel_tool_calls: Whether one response may hold several tool calls.
        reasoning_effort: How much the model should reason.
        service_tier: The provider's name of the tier that serves the request.
        stream: False asks for the response in one piece, for endpoints that cannot stream.
        base_url: The URL below which the protocol's paths lie.
        api_key: The API key.
        extra_headers: More headers.
        extra_body: More of the request's body, with the last word; objects are merged.
        capabilities: Fields of `ModelCapabilities` that the catalog does not know or has wrong.
        timeout_seconds: Seconds a request may take in all from its first turn on, its retries included; None
            for no limit.
        queue_timeout_seconds: Seconds a request may wait for a turn to be sent; None for no limit.
        connect_timeout_seconds: Seconds until the connection is there.
        first_event_timeout_seconds: Seconds from sending the request to its first event; None for no limit.
        idle_timeout_seconds: Seconds without a sign of life once the response has begun; None for no limit.
        max_response_bytes: Bytes that a response may have; None for no limit.
        max_retries: How often a request that failed before its first event is sent again.
        max_concurrent_requests: Requests in flight at once with the same key at the same endpoint.
        requests_per_minute: Requests that may begin within a minute, likewise.
        tokens_per_minute: Tokens that requests may take within a minute, likewise.
        idempotency_header: The header in which an endpoint takes a key that is the same for all attempts.
    """

    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    stop: str | Sequence[str] | None
    seed: int | None
    parallel_tool_calls: bool | None
    reasoning_effort: ReasoningEffort | None
    service_tier: str | None
    stream: bool | None
    base_url: str
    api_key: str
    extra_headers: Mapping[str, str]
    extra_body: Mapping[str, Any]
    capabilities: Mapping[str, Any]
    timeout_seconds: float | None
    queue_timeout_seconds: float | None
    connect_timeout_seconds: float
    first_event_timeout_seconds: float | None
    idle_timeout_seconds: float | None
    max_response_bytes: int | None
    max_retries: int
    max_concurrent_requests: int | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    idempotency_header: str | None


class OpenAIChatSettings(ModelSettings, total=False):
    """Settings of Chat Completions.

    Args:
        frequency_penalty: How much repeated words are avoided.
        presence_penalty: How much words that occurred are avoided.
        logit_bias: Biases of tokens by their number.
        verbosity: How long answers should be.
        user: An identifier of the end user.
        store: Whether the provider keeps the exchange.
        metadata: Labels for what the provider keeps.
        prompt_cache_key: Leads requests with a common prefix to the same cache.
        replay_reasoning: Whether the model gets its own reasoning back during a step, in the field in which
            the server sent it; some reasoning models behind compatible servers refuse to go on without it.
    """

    frequency_penalty: float | None
    presence_penalty: float | None
    logit_bias: Mapping[str, int] | None
    verbosity: Literal["low", "medium", "high"] | None
    user: str | None
    store: bool | None
    metadata: Mapping[str, str] | None
    prompt_cache_key: str | None
    replay_reasoning: bool


class OpenAIResponsesSettings(ModelSettings, total=False):
    """Settings of OpenAI Responses, which knows neither `stop` nor `seed`.

    Args:
        reasoning_summary: Whether, and at what length, the model sums up its reasoning.
        verbosity: How long answers should be.
        truncation: What happens when the conversation exceeds the context.
        store: Whether the provider keeps the response; the library does not need it to, so False when unset.
        user: An identifier of the end user.
        metadata: Labels for what the provider keeps.
        prompt_cache_key: Leads requests with a common prefix to the same cache.
        prompt_cache_retention: How long the cached prefix is kept.
    """

    reasoning_summary: Literal["auto", "concise", "detailed"] | None
    verbosity: Literal["low", "medium", "high"] | None
    truncation: Literal["auto", "disabled"] | None
    store: bool | None
    user: str | None
    metadata: Mapping[str, str] | None
    prompt_cache_key: str | None
    prompt_cache_retention: str | None


class AnthropicSettings(ModelSettings, total=False):
    """Settings of Anthropic Messages, which knows no `seed`.

    Args:
        top_k: The number of words that the model chooses from.
        thinking: The protocol's own object that steers thinking, in place of `reasoning_effort`.
        thinking_budget_tokens: Tokens of thinking, for models that are told a number.
        prompt_caching: Whether breakpoints tell the provider to cache the tools, the system prompt and the
            conversation so far, and for how long; unset means five minutes where the model can.
        metadata: For example the identifier of the end user, as `user_id`.
        betas: Names of beta features for the header `anthropic-beta`.
    """

    top_k: int | None
    thinking: Mapping[str, Any] | None
    thinking_budget_tokens: int | None
    prompt_caching: bool | CacheLifetime | None
    metadata: Mapping[str, str] | None
    betas: Sequence[str]


class GoogleSettings(ModelSettings, total=False):
    """Settings of the Gemini API.

    Args:
        top_k: The number of words that the model chooses from.
        frequency_penalty: How much repeated words are avoided.
        presence_penalty: How much words that occurred are avoided.
        thinking_budget_tokens: Tokens of thinking, for models that are told a number.
        include_thoughts: Whether the response holds summaries of the thoughts.
        safety_settings: The protocol's own objects that set thresholds for harmful content.
        cached_content: The name of a cached context.
        labels: Labels for billing.
    """

    top_k: int | None
    frequency_penalty: float | None
    presence_penalty: float | None
    thinking_budget_tokens: int | None
    include_thoughts: bool | None
    safety_settings: Sequence[Mapping[str, Any]] | None
    cached_content: str | None
    labels: Mapping[str, str] | None
