"""Model requests, the events of a response, and what a model can do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from .messages import Message, ProviderContent, ToolCall
from .settings import ReasoningEffort
from .tools import ToolDefinition
from .usage import Usage

__all__ = [
    "FinishReason",
    "ModelCapabilities",
    "ModelEvent",
    "ModelPrice",
    "ModelRequest",
    "NamedToolChoice",
    "OutcomeTransport",
    "ReasoningControl",
    "ReasoningDelta",
    "ResponseFailed",
    "ResponseFinished",
    "ResponseFormat",
    "TextDelta",
    "ToolCallArgumentsDelta",
    "ToolCallCompleted",
    "ToolCallStarted",
    "ToolChoice",
    "UsageReported",
]

OutcomeTransport: TypeAlias = Literal["tool", "native", "direct"]
"""How outcomes travel: as a tool call, as the provider's structured output, or as one JSON answer."""

ReasoningControl: TypeAlias = Literal["effort", "budget"]
"""How an endpoint is told how much a model should reason: by a word, or by a number of tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedToolChoice:
    """The model must call this tool.

    Args:
        name: The tool's name.
    """

    name: str


ToolChoice: TypeAlias = Literal["auto", "required", "none"] | NamedToolChoice
"""Whether the model may, must or may not call tools, or which one it must call."""

FinishReason: TypeAlias = Literal["stop", "tool_calls", "length", "content_filter", "other"]
"""Why a response ended, the same for every provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """Prices of a model, in US dollars per million tokens.

    Args:
        input: Tokens sent, as far as no other price holds for them.
        output: Tokens received, reasoning included.
        cache_read: Tokens sent that the provider reads from its cache; None for the price of `input`.
        cache_write: Tokens sent that the provider writes to its cache; None for the price of `input`.
        long_request: The prices of a request that sends more than `long_request_tokens`; None for the same.
        long_request_tokens: How many tokens that are; None where there is no `long_request`.

    Raises:
        ValueError: One of the last two is given without the other.
    """

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    long_request: "ModelPrice | None" = None
    long_request_tokens: int | None = None

    def __post_init__(self) -> None:
        if (self.long_request is None) != (self.long_request_tokens is None):
            raise ValueError("long_request and long_request_tokens go together: give both, or neither")

    def for_request(self, input_tokens: int) -> "ModelPrice":
        """The prices that hold for a request.

        Args:
            input_tokens: How many tokens it sends.
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
        forced_tool_choice: Whether a request may demand a tool call; where not, it is left to the model.
        structured_output: Whether the endpoint holds the answer to a JSON Schema.
        structured_output_with_tools: Whether it does so in a request that offers tools.
        images: Whether it takes images.
        audio: Whether it takes audio.
        video: Whether it takes video.
        documents: Whether it takes documents.
        prompt_caching: Whether a request may say which of its parts the provider should cache.
        reasoning: Whether a request may say how much the model should reason.
        reasoning_control: How the request says it.
        reasoning_efforts: The words for it that the model knows; None when that is unknown.
        reasoning_with_tools: Whether a request may say it and offer tools.
        sampling: Whether a request may say how the model chooses its words (`temperature`, `top_p`, `top_k`).
        is_small: Whether it is so small that it should be asked one short thing at a time.
        default_transport: How its outcomes travel unless the configuration says otherwise.
        context_window: Size of the context in tokens, when known.
        max_output_tokens: Tokens that one response can hold, when known.
        price: What it costs, when known.
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
    default_transport: OutcomeTransport = "tool"
    context_window: int | None = None
    max_output_tokens: int | None = None
    price: ModelPrice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFormat:
    """Ask the endpoint to hold the answer to a JSON Schema.

    Args:
        name: A short name of the schema, ASCII letters, digits and underscores.
        schema: The JSON Schema, an object schema without a union at its root.
    """

    name: str
    schema: Mapping[str, Any]


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
    """

    system_prompt: str = ""
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = "auto"
    response_format: ResponseFormat | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)  # may hold a key


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """More visible text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta:
    """More reasoning text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted:
    """The model began a tool call. `index` counts the calls of this response from 0."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallArgumentsDelta:
    """More of the JSON text of a call's arguments."""

    index: int
    fragment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCompleted:
    """A call's arguments are complete; it can be carried out while the response goes on."""

    index: int
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReported:
    """The usage of this response so far; a later report replaces an earlier one.

    What cannot be true of it is left out; see `Usage.credible`.
    """

    usage: Usage

    def __post_init__(self) -> None:
        credible = self.usage.credible()
        if credible is not self.usage:
            object.__setattr__(self, "usage", credible)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFinished:
    """The response is complete. The last event of a good stream, exactly once.

    Args:
        reason: Why it ended.
        provider_content: The response in the provider's own form, when the provider wants more of it back
            than text and tool calls.
        provider_reason: The provider's own word for the reason, when it gave one.
        response_id: The provider's identifier of the response, when it gave one.
        model_name: The name of the model that answered, when the provider told it.
    """

    reason: FinishReason
    provider_content: ProviderContent | None = None
    provider_reason: str | None = field(default=None, compare=False)
    response_id: str | None = field(default=None, compare=False)
    model_name: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFailed:
    """The provider reported an error inside the stream. The last event of a bad stream.

    Args:
        message: The provider's message.
        error_type: The provider's own name of the error, when it gave one.
        is_transient: Whether the same request may succeed later.
    """

    message: str
    error_type: str | None = None
    is_transient: bool = False


ModelEvent: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolCallArgumentsDelta
    | ToolCallCompleted
    | UsageReported
    | ResponseFinished
    | ResponseFailed
)
"""One event of a streamed response. In place of `ResponseFailed`, `Model.stream` raises."""
