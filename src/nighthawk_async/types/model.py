"""Model requests, the events of a response, and the capabilities of a model.

Model settings are typed dictionaries, one per protocol. A plain dictionary works as well; these let a type
checker see the names. Other settings go into `extra_body`, or, in a plain dictionary, under their own names:
unknown names are sent in the request's body unchanged. `wire.transport_settings` checks values at run time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeAlias, runtime_checkable

from annotated_types import Ge, Le
from typing_extensions import TypedDict

from ..errors import ModelErrorKind
from .messages import Message, ProviderContent, ToolCall, ToolDefinition
from .model_output import CitationAdded, MediaCompleted, Refusal
from .native_tools import NativeCallFinished, NativeCallStarted, NativeToolName
from .quick_init import quick_init
from .usage import Usage

if TYPE_CHECKING:
    from .native_tools import NativeTool

    _NativeTools: TypeAlias = Sequence[NativeTool] | None
else:
    _NativeTools = Any  # `wire.native_tools` checks them: pydantic would make objects of dictionaries


@runtime_checkable
class Credentials(Protocol):
    """Authenticates requests, each just before it is sent; the model setting `credentials`.

    One object may serve many requests at the same time, on several event loops and in several threads. An
    object that has the method `known_secrets`, without arguments, returns from it the texts that recordings
    must not contain.
    """

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers that authenticate a request; they replace others of the same name.

        It is called again for every attempt. The request is sent with exactly this method, URL and body, and
        with the host of the URL as the header `Host`; other headers may be added.

        Args:
            method: The method, `POST`.
            url: The URL, in the form that is sent.
            body: The final bytes of the body.
        """
        ...


@runtime_checkable
class RefreshableCredentials(Credentials, Protocol):
    """Credentials that may be out of date without knowing it."""

    def refused(self, headers: Mapping[str, str]) -> bool:
        """Note that an endpoint refused a request: with the HTTP status 401, or a 403 that says `expired`.

        Args:
            headers: The headers that `headers` returned for that request.

        Returns:
            Whether the next headers may be accepted, so that the request is worth sending again, once.
        """
        ...


ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""The amount of reasoning before a model answers. Not every model supports every word."""

CacheLifetime: TypeAlias = Literal["5m", "1h"]
"""The time for which a provider keeps the cached part of a prompt: five minutes or an hour."""


class ModelSettings(TypedDict, total=False):
    """Settings of every protocol, under one name each; a codec translates them to its protocol's names.

    Args:
        temperature: The randomness of the model's choice of words.
        top_p: The share of probability that the model chooses from.
        max_tokens: Tokens that the response may hold, reasoning included.
        stop: Texts at which the response ends.
        seed: Makes answers repeatable, as far as the endpoint can.
        parallel_tool_calls: Whether one response may hold several tool calls.
        reasoning_effort: The effort of the model's reasoning.
        service_tier: The provider's name of the tier that serves the request.
        stream: False asks for the response in one piece, for endpoints that cannot stream.
        base_url: The URL below which the protocol's paths lie.
        api_key: The API key.
        credentials: Authenticates requests with tokens that expire, or signs them, in place of a key.
        extra_headers: More headers.
        extra_body: More of the request's body; takes precedence, and objects are merged. Its `tools` are
            added to those of the request.
        native_tools: Tools that the provider carries out by itself, beside those of the library.
        capabilities: Fields of `ModelCapabilities` that the catalog lacks or has wrong.
        endpoint_rules: The provider whose rules for requests the endpoint has, for gateways.
        transport: `"websocket"` sends requests over a WebSocket, and `"auto"` does so from the second turn of
            a step on, where the endpoint has one: OpenAI Responses only. `"http"` when unset.
        timeout: Seconds a request may take in all from its first turn on, its retries included; None
            for no limit.
        queue_timeout: Seconds a request may wait for a turn to be sent; None for no limit.
        connect_timeout: Seconds to wait for the connection.
        first_event_timeout: Seconds from sending the request to its first event; None for no limit.
        idle_timeout: Seconds without a sign of life once the response has begun; None for no limit.
        max_response_bytes: Bytes that a response may have; None for no limit.
        max_retries: The number of times that a request that failed before its first event is sent again.
        max_concurrent_requests: Requests in flight at once with the same key at the same endpoint.
        requests_per_minute: Requests that may begin within a minute, likewise.
        tokens_per_minute: Tokens that requests may take within a minute, likewise.
        idempotency_header: The header in which an endpoint takes a key that is the same for all attempts.
        upload_media_above_bytes: The size above which media of a request are uploaded as files, once for each
            content and run; None for never.
        uploads_expire_after_seconds: Seconds after which the provider deletes uploaded files; None deletes
            them at the end of the run.
    """

    temperature: Annotated[float, Ge(0)] | None
    top_p: Annotated[float, Ge(0), Le(1)] | None
    max_tokens: Annotated[int, Ge(0)] | None
    stop: str | Sequence[str] | None
    seed: int | None
    parallel_tool_calls: bool | None
    reasoning_effort: ReasoningEffort | None
    service_tier: str | None
    stream: bool | None
    base_url: str
    api_key: str
    credentials: Credentials | None
    extra_headers: Mapping[str, str]
    extra_body: Mapping[str, Any]
    native_tools: _NativeTools
    capabilities: Mapping[str, Any]
    endpoint_rules: str | None
    transport: Literal["http", "websocket", "auto"]
    timeout: float | None
    queue_timeout: float | None
    connect_timeout: float
    first_event_timeout: float | None
    idle_timeout: float | None
    max_response_bytes: int | None
    max_retries: int
    max_concurrent_requests: int | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    idempotency_header: str | None
    upload_media_above_bytes: int | None
    uploads_expire_after_seconds: int | None


class OpenAIChatSettings(ModelSettings, total=False):
    """Settings of Chat Completions.

    Args:
        frequency_penalty: The penalty of words by the number of their repetitions.
        presence_penalty: The penalty of words that occurred at all.
        logit_bias: Biases of tokens by their number.
        verbosity: The desired length of answers.
        user: An identifier of the end user.
        store: Whether the provider keeps the exchange.
        metadata: Labels for what the provider keeps.
        prompt_cache_key: Routes requests with a common prefix to the same cache; unset means a key for each
            block and model where the endpoint is known to take one, and None means none.
        replay_reasoning: Whether the model gets its own reasoning back during a step, in the field in which
            the server sent it; some reasoning models behind compatible servers refuse to continue without it.
        strict_tools: Whether the endpoint enforces the schemas of tools that are in OpenAI's strict subset;
            unset means only for OpenAI's own models, and None means no.
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
    strict_tools: bool | None


class OpenAIResponsesSettings(ModelSettings, total=False):
    """Settings of OpenAI Responses, which knows neither `stop` nor `seed`.

    Args:
        reasoning_summary: Whether, and at what length, the model sums up its reasoning.
        verbosity: The desired length of answers.
        truncation: The treatment of a conversation that exceeds the context.
        context_management: The protocol's own objects that let the provider compact a long conversation; the
            library then compacts nothing itself.
        store: Whether the provider keeps the response; the library does not need it to, so False when unset.
        user: An identifier of the end user.
        metadata: Labels for what the provider keeps.
        prompt_cache_key: Leads requests with a common prefix to the same cache; unset means a key for each
            block and model where the endpoint is known to take one, and None means none.
        prompt_cache_retention: The time to keep the cached prefix.
    """

    reasoning_summary: Literal["auto", "concise", "detailed"] | None
    verbosity: Literal["low", "medium", "high"] | None
    truncation: Literal["auto", "disabled"] | None
    context_management: Sequence[Mapping[str, Any]] | None
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
        thinking_budget_tokens: Tokens of thinking, for models that take a number.
        prompt_caching: Whether breakpoints ask the provider to cache the tools, the system prompt and, from
            its second turn on, the conversation so far, and for how long; unset means five minutes where the
            model can.
        metadata: For example the identifier of the end user, as `user_id`.
        strict_tools: Whether the endpoint enforces the schemas of tools, of as many as its documented limits
            allow. It compiles them into one grammar, and may refuse a request whose grammar is too large.
        context_management: The protocol's own object that lets the provider edit or compact a long
            conversation, `{"edits": […]}`; the library then compacts nothing itself.
        betas: Names of beta features for the header `anthropic-beta`.
    """

    top_k: int | None
    thinking: Mapping[str, Any] | None
    thinking_budget_tokens: int | None
    prompt_caching: bool | CacheLifetime | None
    metadata: Mapping[str, str] | None
    strict_tools: bool | None
    context_management: Mapping[str, Any] | None
    betas: Sequence[str]


class GoogleSettings(ModelSettings, total=False):
    """Settings of the Gemini API.

    Args:
        top_k: The number of words that the model chooses from.
        frequency_penalty: The penalty of words by the number of their repetitions.
        presence_penalty: The penalty of words that occurred at all.
        thinking_budget_tokens: Tokens of thinking, for models that take a number.
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


OutcomeTransport: TypeAlias = Literal["tool", "native", "direct"]
"""The transport of outcomes: a tool call, the provider's structured output, or one JSON answer."""

ReasoningControl: TypeAlias = Literal["effort", "budget"]
"""The form in which a request sets the amount of reasoning: a word, or a number of tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedToolChoice:
    """The model must call this tool.

    Args:
        name: The tool's name.
    """

    name: str


ToolChoice: TypeAlias = Literal["auto", "required", "none"] | NamedToolChoice
"""Whether the model may, must or may not call tools, or which one it must call."""

FinishReason: TypeAlias = Literal[
    "stop", "tool_calls", "length", "content_filter", "pause", "steered", "other"
]
"""The reason why a response ended, the same for every provider.

After `pause`, the provider goes on when it gets the response back: its own tools took long. After `steered`,
it goes on with what the user said meanwhile.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """Prices of a model, in US dollars per million tokens, and of the tools of its provider.

    Args:
        input: Tokens sent to which no other price applies.
        output: Tokens received, reasoning included.
        cache_read: Tokens sent that the provider reads from its cache; None for the price of `input`.
        cache_write: Tokens sent that the provider writes to its cache; None for the price of `input`.
        cache_write_1h: Those of them that it keeps for an hour. None for twice the price of `input`, as
            Anthropic charges them, or for the price of `input` where `cache_write` is None.
        web_search: The price of a thousand web searches of the provider, in US dollars; None for none.
        file_search: The price of a thousand file searches of the provider, in US dollars; None for none.
        image_output: Tokens received that are images; None for the price of `output`.
        long_request: The prices of a request that sends more than `long_request_tokens`; None for the same.
        long_request_tokens: The number of tokens above which a request is long; None without `long_request`.

    Raises:
        ValueError: One of the last two is given without the other.
    """

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_1h: Decimal | None = None
    web_search: Decimal | None = None
    file_search: Decimal | None = None
    image_output: Decimal | None = None
    long_request: "ModelPrice | None" = None
    long_request_tokens: int | None = None

    def __post_init__(self) -> None:
        if (self.long_request is None) != (self.long_request_tokens is None):
            raise ValueError("long_request and long_request_tokens go together: give both, or neither")

    def for_request(self, input_tokens: int) -> "ModelPrice":
        """Return the prices that apply to a request.

        Args:
            input_tokens: The tokens that it sends.
        """
        if self.long_request is None or input_tokens <= (self.long_request_tokens or 0):
            return self
        return self.long_request.for_request(input_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCapabilities:
    """Capabilities of a model; unknown models get these conservative defaults.

    Args:
        tools: Whether it calls tools.
        parallel_tool_calls: Whether one response may hold several tool calls, and a request may allow or
            forbid that.
        forced_tool_choice: Whether a request may demand a tool call; otherwise it is left to the model.
        structured_output: Whether the endpoint enforces a JSON Schema on the answer.
        structured_output_with_tools: Whether it does so in a request that offers tools.
        images: Whether it takes images.
        audio: Whether it takes audio.
        video: Whether it takes video.
        documents: Whether it takes documents.
        prompt_caching: Whether a request may say which of its parts the provider should cache.
        reasoning: Whether a request may set the amount of reasoning.
        reasoning_control: The form of that setting.
        reasoning_efforts: The words for it that the model supports; None when unknown.
        reasoning_with_tools: Whether a request may set it and offer tools.
        sampling: Whether a request may control sampling (`temperature`, `top_p`, `top_k`).
        is_small: Whether it is so small that it should be asked one short thing at a time.
        tool_search: Whether the provider searches deferred tools itself.
        context_management: Whether the endpoint can edit or compact a long conversation itself.
        native_tools: The tools that the provider carries out for it, in requests that offer other tools, too.
        prompt_cache_key: Whether the endpoint takes a key by which requests share a cache.
        default_transport: The transport of its outcomes unless the configuration says otherwise.
        context_window: Size of the context in tokens, when known.
        max_output_tokens: Tokens that one response can hold, when known.
        price: Its price, when known.
    """

    tools: bool = True
    parallel_tool_calls: bool = True
    forced_tool_choice: bool = True
    structured_output: bool = False
    structured_output_with_tools: bool = True
    images: bool = False
    audio: bool = False
    video: bool = False
    documents: bool = False
    prompt_caching: bool = False
    reasoning: bool = False
    reasoning_control: ReasoningControl = "effort"
    reasoning_efforts: tuple[ReasoningEffort, ...] | None = None
    reasoning_with_tools: bool = True
    sampling: bool = True
    is_small: bool = False
    tool_search: bool = False
    context_management: bool = False
    native_tools: tuple[NativeToolName, ...] = ()
    prompt_cache_key: bool = False
    default_transport: OutcomeTransport = "tool"
    context_window: int | None = None
    max_output_tokens: int | None = None
    price: ModelPrice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFormat:
    """A request to the endpoint to enforce a JSON Schema on the answer.

    Args:
        name: A short name of the schema, ASCII letters, digits and underscores.
        schema: The JSON Schema, an object schema without a union at its root.
    """

    name: str
    schema: Mapping[str, Any]


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request to a model.

    Args:
        system_prompt: The system prompt; empty when there is none.
        messages: The conversation so far, oldest first.
        tools: The tools on offer.
        tool_choice: Whether the model may, must or may not call tools, or which one it must call.
        response_format: The schema the text answer must follow, when there is one.
        settings: Settings of the endpoint (`temperature`, `max_tokens`, `seed`, …) as the configuration gave
            them.
        site: The address of the block that asks, `python_module:function:number`; empty for none. It is not
            sent, but decides which requests share a cache.
    """

    system_prompt: str = ""
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = "auto"
    response_format: ResponseFormat | None = None
    settings: Mapping[str, Any] = field(default_factory=lambda: {}, repr=False)  # may hold a key
    site: str = field(default="", compare=False)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """More visible text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta:
    """More reasoning text."""

    text: str


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted:
    """The model began a tool call. `index` counts the calls of this response from 0."""

    index: int
    id: str
    name: str


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallArgumentsDelta:
    """More of the JSON text of a call's arguments."""

    index: int
    fragment: str


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCompleted:
    """A call's arguments are complete; it can be executed while the response continues."""

    index: int
    call: ToolCall


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReported:
    """The usage of this response so far; a later report replaces an earlier one.

    Impossible numbers are left out; see `Usage.credible`.
    """

    usage: Usage

    def __post_init__(self) -> None:
        credible = self.usage.credible()
        if credible is not self.usage:
            object.__setattr__(self, "usage", credible)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFinished:
    """The response is complete. The last event of a good stream, exactly once.

    Args:
        reason: The reason why it ended.
        provider_content: The response in the provider's own form, when the provider wants more of it back
            than text and tool calls.
        provider_reason: The provider's own word for the reason, when it gave one.
        response_id: The provider's identifier of the response, when it gave one.
        model_name: The name of the model that answered, when the provider reported it.
        refusal: The provider's reason for a refused answer, whose `reason` is `content_filter`.
        steered: The number of messages to which the provider goes on by itself, the first of those that the
            user sent while the response was running; None when it waits for the next request.
    """

    reason: FinishReason
    provider_content: ProviderContent | None = None
    provider_reason: str | None = field(default=None, compare=False)
    response_id: str | None = field(default=None, compare=False)
    model_name: str | None = field(default=None, compare=False)
    refusal: Refusal | None = field(default=None, compare=False)
    steered: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFailed:
    """The provider reported an error inside the stream. The last event of a bad stream.

    Args:
        message: The provider's message.
        error_type: The provider's own name of the error, when it gave one.
        is_transient: Whether the same request may succeed later.
        kind: The kind of the error, where it is known: `context_too_long`, for example.
    """

    message: str
    error_type: str | None = None
    is_transient: bool = False
    kind: ModelErrorKind | None = field(default=None, compare=False)


ModelEvent: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolCallArgumentsDelta
    | ToolCallCompleted
    | NativeCallStarted
    | NativeCallFinished
    | MediaCompleted
    | CitationAdded
    | UsageReported
    | ResponseFinished
    | ResponseFailed
)
"""One event of a streamed response. `Model.stream` raises instead of giving `ResponseFailed`."""
