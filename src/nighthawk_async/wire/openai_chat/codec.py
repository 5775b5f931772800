"""The codec of OpenAI Chat Completions, which most compatible servers support."""

from collections.abc import Iterable, Iterator
from typing import Any

from ...types.endpoint_rules import NO_RULES, CallIdRule, EndpointRules
from ...types.messages import (
    AssistantMessage,
    MultimodalContent,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
    UserContent,
    UserMessage,
)
from ...types.model import (
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    ModelSettings,
    NamedToolChoice,
    OpenAIChatSettings,
    ResponseFormat,
)
from ...types.native_tools import NativeTool, WebSearch
from ..call_ids import fitting_id
from ..codec import STREAM_HEADERS, UNKNOWN_CAPABILITIES, EncodedRequest
from ..json_text import check_tool_choice, refuse_deferred_tools, request_json
from ..media import describe_media
from ..native_tools import location_fields, native_tools_of, refuse_options, refuse_tool
from ..openai_schemas import are_strict_tools, is_strict_schema
from ..transport_settings import (
    checked_settings,
    default_cache_key,
    merge_extra_body,
    refuse_reserved_settings,
)
from .content import (
    PROTOCOL,
    encode_assistant_message,
    encode_media,
    encode_user_content,
    find_refusal,
)
from .response import ChatResponseDecoder

_NAME = "Chat Completions"
_RESULTS_NOTED = "Noted."
_RESERVED = frozenset({"messages", "model", "n", "response_format", "tool_choice", "tools"})


def encode_body(
    request: ModelRequest,
    *,
    model_name: str,
    capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES,
    rules: EndpointRules = NO_RULES,
) -> bytes:
    """The body of a Chat Completions request.

    Args:
        request: The request.
        model_name: The model's name at the endpoint.
        capabilities: The capabilities of the model: whether it takes a key for its cache.
        rules: The rules of the endpoint.

    Raises:
        ConfigurationError: A setting has a bad value or a name that only the library writes, the request
            demands the call of a tool that it does not offer, or it holds content or a native tool that the
            protocol cannot carry.
    """
    body: dict[str, Any] = {"model": model_name, "stream": True}
    if rules.has_stream_options:
        body["stream_options"] = {"include_usage": True}
    refuse_reserved_settings(request.settings, _RESERVED)
    body |= checked_settings(request.settings, OpenAIChatSettings)
    body |= default_cache_key(request, model_name=model_name, capabilities=capabilities)
    body |= _encode_native_tools(native_tools_of(request.settings))
    replays_reasoning = body.pop("replay_reasoning", rules.demands_reasoning)
    are_strict = body.pop("strict_tools", False)
    if not request.tools:
        body.pop("parallel_tool_calls", None)  # refused if there are no tools to call
    body |= _encode_tools(request, are_strict=are_strict)
    if request.response_format is not None:
        body["response_format"] = _encode_response_format(request.response_format)
    body["messages"] = _encode_messages(request, rules, replays_reasoning=replays_reasoning)
    body = merge_extra_body(body, request.settings)
    if body["stream"] is False:
        body.pop("stream_options", None)  # refused if nothing is streamed
    return request_json(body)


def _encode_native_tools(tools: tuple[NativeTool, ...]) -> dict[str, Any]:
    """The only one: a web search before each answer of a model that is made for it."""
    for tool in tools:
        if not isinstance(tool, WebSearch):
            raise refuse_tool(tool, protocol=_NAME, instead="OpenAI Responses has it.")
        refuse_options(tool, "max_uses", "allowed_domains", "blocked_domains", protocol=_NAME)
        options: dict[str, Any] = {}
        if tool.context_size is not None:
            options["search_context_size"] = tool.context_size
        if tool.user_location is not None:
            options["user_location"] = {
                "type": "approximate",
                "approximate": location_fields(tool.user_location),
            }
        return {"web_search_options": options}
    return {}


def _encode_tools(request: ModelRequest, *, are_strict: bool) -> dict[str, Any]:
    check_tool_choice(request)
    refuse_deferred_tools(request, protocol=_NAME)
    if not request.tools:
        return {}
    choice = request.tool_choice
    strict = are_strict_tools(request.tools) if are_strict else [False] * len(request.tools)
    tools: dict[str, Any] = {"tools": list(map(_encode_tool, request.tools, strict))}
    if isinstance(choice, NamedToolChoice):
        return tools | {"tool_choice": {"type": "function", "function": {"name": choice.name}}}
    # "auto" is every server's default, and some refuse it when given.
    return tools if choice == "auto" else tools | {"tool_choice": choice}


def _encode_tool(tool: ToolDefinition, is_strict: bool) -> dict[str, Any]:
    function: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    # Other servers may refuse the field, so it is sent only as a claim. Parallel calls stay allowed: OpenAI's
    # fine-tuned models then do not enforce the schemas of several calls, but no model refuses the request
    # ("Function calling", "Parallel function calling", of its documentation), and arguments are validated.
    if is_strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _encode_response_format(response_format: ResponseFormat) -> dict[str, Any]:
    schema = response_format.schema
    return {
        "type": "json_schema",
        "json_schema": {"name": response_format.name, "schema": schema, "strict": is_strict_schema(schema)},
    }


def _encode_messages(
    request: ModelRequest, rules: EndpointRules, *, replays_reasoning: bool
) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if request.system_prompt:
        messages.append({"role": "system", "content": request.system_prompt})
    for message in request.messages:
        match message:
            case UserMessage():
                messages.append({"role": "user", "content": encode_user_content(message.content)})
            case AssistantMessage():
                messages.append(
                    encode_assistant_message(message, replays_reasoning=replays_reasoning, rules=rules)
                )
            case ToolResultsMessage():
                messages.extend(_encode_tool_results(message))
    if rules.call_ids is not None:
        _fit_call_ids(messages, rules.call_ids)
    return messages if rules.has_user_after_results else list(_with_answers_to_results(messages))


def _fit_call_ids(messages: Iterable[dict[str, Any]], rule: CallIdRule) -> None:
    for message in messages:
        if message["role"] == "tool":
            message["tool_call_id"] = fitting_id(message["tool_call_id"], rule)
        elif calls := message.get("tool_calls"):
            message["tool_calls"] = [{**call, "id": fitting_id(call["id"], rule)} for call in calls]


def _with_answers_to_results(messages: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The messages with a word of the assistant between the results of tools and a message of the user."""
    role = ""
    for message in messages:
        if role == "tool" and message["role"] == "user":
            yield {"role": "assistant", "content": _RESULTS_NOTED}
        role = message["role"]
        yield message


def _encode_tool_results(message: ToolResultsMessage) -> list[dict[str, Any]]:
    """One message per result and, if results hold media, a user message with these in the same order.

    Tool messages carry only text in this protocol, and nothing may come between them.
    """
    encoded: list[dict[str, Any]] = []
    attachments: list[dict[str, Any]] = []
    for result in message.results:
        encoded.append(_encode_tool_result(result, attachments))
    if attachments:
        encoded.append({"role": "user", "content": attachments})
    return encoded


def _encode_tool_result(result: ToolResult, attachments: list[dict[str, Any]]) -> dict[str, Any]:
    texts = [_project_item(item, result, attachments) for item in result.content]
    return {"role": "tool", "tool_call_id": result.call_id, "content": "\n".join(texts)}


def _project_item(item: UserContent, result: ToolResult, attachments: list[dict[str, Any]]) -> str:
    if isinstance(item, str):
        return item
    part = encode_media(item)
    if part is None:
        return f"[{describe_media(item)}; it cannot be shown to this model]"
    title = f"[{describe_media(item)}; result of {result.name}, call {result.call_id}]"
    attachments += [{"type": "text", "text": title}, part]
    return f"[{describe_media(item)}; shown in the next message]"


class OpenAIChatCodec:
    """Speaks Chat Completions. See `wire.codec.Codec`."""

    name = PROTOCOL
    settings_form: type[ModelSettings] = OpenAIChatSettings

    def __init__(self, rules: EndpointRules = NO_RULES) -> None:
        self.rules = rules

    def find_refusal(self, item: MultimodalContent) -> str | None:
        """Return the reason why the protocol cannot carry a media item; see `wire.codec.Codec`."""
        return find_refusal(item)

    def encode(
        self,
        request: ModelRequest,
        *,
        model_name: str,
        capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES,
    ) -> EncodedRequest:
        """A request as HTTP parts; see `wire.codec.Codec`."""
        body = encode_body(request, model_name=model_name, capabilities=capabilities, rules=self.rules)
        return EncodedRequest(path="/chat/completions", headers=STREAM_HEADERS, body=body)

    def decoder(self, request: EncodedRequest | None = None) -> ChatResponseDecoder:
        """A decoder for one streamed response; see `wire.codec.Codec`."""
        return ChatResponseDecoder()

    def decode_response(self, body: bytes, request: EncodedRequest | None = None) -> list[ModelEvent]:
        """The events of a response that was not streamed; see `wire.codec.Codec`."""
        return ChatResponseDecoder().feed_whole(body)


def create_codec(rules: EndpointRules) -> OpenAIChatCodec:
    """The codec of this protocol; see `models.protocols`."""
    return OpenAIChatCodec(rules)
