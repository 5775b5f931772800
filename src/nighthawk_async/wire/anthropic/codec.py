"""The codec of Anthropic Messages.

Compatible servers, llama.cpp among them, speak it as well.

Parts that stay the same during a conversation come first in the body and always in the same order, so that
the bodies of successive requests share a prefix byte for byte, cache marks aside.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard
from urllib.parse import quote

from ...errors import ConfigurationError
from ...types.endpoint_rules import NO_RULES, EndpointRules
from ...types.json import is_json_mapping, is_list_or_tuple
from ...types.messages import (
    MultimodalContent,
    ToolDefinition,
    ToolResultsMessage,
    UploadedFile,
    UserContent,
    UserMessage,
)
from ...types.model import (
    AnthropicSettings,
    CacheLifetime,
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    ModelSettings,
    NamedToolChoice,
    ToolChoice,
)
from ..codec import STREAM_HEADERS, UNKNOWN_CAPABILITIES, EncodedRequest
from ..json_text import check_tool_choice, request_json
from ..native_tools import native_tools_of
from ..transport_settings import checked_settings, merge_extra_body, refuse_reserved_settings, refuse_settings
from .messages import (
    FILE_PROVIDERS,
    PROTOCOL_NAME,
    THINKING,
    Block,
    ThinkingPlan,
    close_foreign_loops,
    encode_messages,
    find_refusal,
    plan_thinking,
    text_block,
)
from .native_tools import encode_container, encode_native_tools
from .response import AnthropicResponseDecoder
from .schema import StrictTools, supported_schema

# The search by words; for the other one, models write regular expressions. The endpoint demands this name.
_TOOL_SEARCH: dict[str, Any] = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


def mark_breakpoints(
    body: dict[str, Any], wanted: bool | CacheLifetime | None, capabilities: ModelCapabilities
) -> None:
    """Mark the body's breakpoints if caching is on.

    The conversation is marked from its second turn on: most steps take one response, and then nobody would
    read what the first request pays a quarter more to write.

    Args:
        body: The body with its `tools`, `system` and `messages`, whose lists change.
        wanted: The setting `prompt_caching`.
        capabilities: The capabilities of the model, which decide when nothing is set.
    """
    if not (capabilities.prompt_caching if wanted is None else wanted):
        return
    # The mark alone means five minutes.
    mark = {"type": "ephemeral", "ttl": "1h"} if wanted == "1h" else {"type": "ephemeral"}
    _mark_last(body.get("tools", []), mark)
    _mark_last(body.get("system", []), mark)
    messages: list[dict[str, Any]] = body["messages"]
    before_response = _position_before_last_response(messages)
    if before_response is None:
        return
    for position in {len(messages) - 1, before_response}:
        if messages[position]["role"] == "user":  # responses go back as they are
            _mark_last(messages[position]["content"], mark)


def _position_before_last_response(messages: list[dict[str, Any]]) -> int | None:
    """The position of the message before the last response; None when there is none."""
    for position in range(len(messages) - 1, 0, -1):
        if messages[position]["role"] == "assistant":
            return position - 1
    return None


def _mark_last(blocks: list[Block], mark: dict[str, str]) -> None:
    for position in range(len(blocks) - 1, -1, -1):
        block = blocks[position]
        # The endpoint refuses a mark on these.
        if block.get("type") not in THINKING and not block.get("defer_loading"):
            blocks[position] = {**block, "cache_control": mark}
            return


_RESERVED = frozenset({"messages", "model", "stop_sequences", "system", "tool_choice", "tools"})
_REFUSED = frozenset({"seed"})

# Settings that the body holds under another name, or not at all.
_TRANSLATED = frozenset(
    {
        "betas",
        "max_tokens",
        "output_config",
        "parallel_tool_calls",
        "prompt_caching",
        "reasoning_effort",
        "stop",
        "stream",
        "strict_tools",
        "thinking",
        "thinking_budget_tokens",
    }
)


def encode_body(
    request: ModelRequest, *, model_name: str, capabilities: ModelCapabilities, predict_version: str = ""
) -> bytes:
    """The body of an Anthropic Messages request.

    Args:
        request: The request.
        model_name: The model's name at the endpoint.
        capabilities: The capabilities of the model.
        predict_version: See `EndpointRules`; with it, the body does not name the model.

    Raises:
        ConfigurationError: A setting is bad, not JSON, or has a name that only the library writes; the tool
            choice does not fit the tools, the thinking or the model; the response format's schema leaves the
            subset of the endpoint; or a message holds content, or the settings a native tool, that the
            protocol cannot carry.
    """
    refuse_reserved_settings(request.settings, _RESERVED)
    refuse_settings(request.settings, _REFUSED, protocol="Anthropic Messages")
    settings = checked_settings(request.settings, AnthropicSettings)
    plan = plan_thinking(settings, capabilities)
    named = {"anthropic_version": predict_version} if predict_version else {"model": model_name}
    body: dict[str, Any] = {**named, "max_tokens": plan.max_tokens}
    body |= _encode_settings(settings, plan)
    if output_config := _encode_output_config(request, settings, plan):
        body["output_config"] = output_config
    native = native_tools_of(request.settings)
    body |= encode_container(native, request.messages)
    body |= _encode_tools(request, settings, plan, capabilities)
    if system := text_block(request.system_prompt):
        body["system"] = system
    body["messages"] = encode_messages(request.messages)
    if plan.has_fixed_budget:
        body["messages"] = close_foreign_loops(body["messages"])
    mark_breakpoints(body, settings.get("prompt_caching"), capabilities)
    return request_json(merge_extra_body(body, request.settings))


def _encode_settings(settings: Mapping[str, Any], plan: ThinkingPlan) -> dict[str, Any]:
    encoded: dict[str, Any] = {"stream": settings.get("stream", True)}
    encoded |= {name: value for name, value in settings.items() if name not in _TRANSLATED}
    if (stop := settings.get("stop")) is not None:
        encoded["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if plan.config is not None:
        encoded["thinking"] = plan.config
    return encoded


def _encode_output_config(
    request: ModelRequest, settings: Mapping[str, Any], plan: ThinkingPlan
) -> dict[str, Any]:
    own: object = settings.get("output_config", {})
    if not isinstance(own, Mapping):
        raise ConfigurationError("Model setting 'output_config' must be a mapping.")
    if "format" in own:
        raise ConfigurationError(
            "Model setting 'output_config.format' is written by the library; leave it out."
        )
    encoded: dict[str, Any] = {**own}
    if plan.effort is not None:
        encoded["effort"] = plan.effort
    if request.response_format is not None:
        schema = supported_schema(request.response_format.schema)
        encoded["format"] = {"type": "json_schema", "schema": schema}
    return encoded


def _encode_tools(
    request: ModelRequest, settings: Mapping[str, Any], plan: ThinkingPlan, capabilities: ModelCapabilities
) -> dict[str, Any]:
    check_tool_choice(request)
    choice = _encode_tool_choice(request.tool_choice, plan, capabilities)
    native = encode_native_tools(native_tools_of(request.settings), request.tools)
    if not request.tools and not native:
        return {}
    if settings.get("parallel_tool_calls") is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    # Native tools come first: a tool that a search finds then changes the end of the list alone.
    strict = _strict_tools(request) if settings.get("strict_tools") else None
    tools = [*native, *(_encode_tool(tool, strict) for tool in request.tools)]
    if any(tool.is_deferred for tool in request.tools):
        tools.append(_TOOL_SEARCH)
    encoded: dict[str, Any] = {"tools": tools}
    # "auto" is the default, and not every compatible server takes the field.
    return encoded if choice == {"type": "auto"} else encoded | {"tool_choice": choice}


def _strict_tools(request: ModelRequest) -> StrictTools:
    response_format = request.response_format
    return StrictTools(None if response_format is None else supported_schema(response_format.schema))


def _encode_tool(tool: ToolDefinition, strict: StrictTools | None) -> dict[str, Any]:
    # Nothing claims `strict` unasked: the endpoint compiles all strict schemas of a request into one grammar,
    # and refuses the request when that becomes too large, at an undocumented size.
    schema = tool.parameters if "type" in tool.parameters else {"type": "object", **tool.parameters}
    encoded: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if strict is not None and (enforced := strict.add(schema)) is not None:
        encoded |= {"strict": True, "input_schema": enforced}
    else:
        encoded["input_schema"] = schema
    return encoded | {"defer_loading": True} if tool.is_deferred else encoded


def _encode_tool_choice(
    choice: ToolChoice, plan: ThinkingPlan, capabilities: ModelCapabilities
) -> dict[str, Any]:
    """The tool choice as the endpoint takes it.

    Some models can never be forced to call a tool, and none while it is asked to think.
    """
    if isinstance(choice, NamedToolChoice):
        _refuse_unless_forced(choice, plan, capabilities)
        return {"type": "tool", "name": choice.name}
    if choice == "required":
        can_be_forced = capabilities.forced_tool_choice and not plan.is_asked_to_think
        return {"type": "any" if can_be_forced else "auto"}
    return {"type": choice}


def _refuse_unless_forced(
    choice: NamedToolChoice, plan: ThinkingPlan, capabilities: ModelCapabilities
) -> None:
    if not capabilities.forced_tool_choice:
        raise ConfigurationError(
            f"The model cannot be made to call a tool, so not {choice.name!r}; leave the choice to it."
        )
    if plan.is_asked_to_think:
        raise ConfigurationError(
            f"The Anthropic Messages protocol cannot demand the tool {choice.name!r} while the model thinks; "
            "leave the choice to the model, or turn thinking off with reasoning_effort='none'."
        )


_HEADERS = {**STREAM_HEADERS, "anthropic-version": "2023-06-01"}
_ALLOWS_HOPS = b'"fallbacks":'
_CACHES_FOR_AN_HOUR = b'"ttl":"1h"'
_FILES_BETA = "files-api-2025-04-14"
_EDITING_BETA = "context-management-2025-06-27"
_COMPACT_BETA = "compact-2026-01-12"


class AnthropicCodec:
    """Speaks Anthropic Messages. See `wire.codec.Codec`."""

    name = PROTOCOL_NAME
    settings_form: type[ModelSettings] = AnthropicSettings

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
        version = self.rules.predict_version
        body = encode_body(request, model_name=model_name, capabilities=capabilities, predict_version=version)
        betas = _betas(request)
        headers = _HEADERS | {"anthropic-beta": ",".join(betas)} if betas else _HEADERS
        path = _predict_path(request, model_name) if version else "/messages"
        return EncodedRequest(path=path, headers=headers, body=body)

    def max_tokens_of(self, settings: Mapping[str, Any], capabilities: ModelCapabilities) -> int:
        """The tokens that a response may hold; see `wire.codec.DemandsMaxTokens`."""
        return plan_thinking(checked_settings(settings, AnthropicSettings), capabilities).max_tokens

    def decoder(self, request: EncodedRequest | None = None) -> AnthropicResponseDecoder:
        """A decoder for one streamed response; see `wire.codec.Codec`."""
        sent = b"" if request is None else request.body
        return AnthropicResponseDecoder(
            holds_calls=_ALLOWS_HOPS in sent, caches_for_an_hour=_CACHES_FOR_AN_HOUR in sent
        )

    def decode_response(self, body: bytes, request: EncodedRequest | None = None) -> list[ModelEvent]:
        """The events of a response that was not streamed; see `wire.codec.Codec`."""
        return self.decoder(request).feed_whole(body)


def _predict_path(request: ModelRequest, model_name: str) -> str:
    method = "streamRawPredict" if request.settings.get("stream", True) else "rawPredict"
    return f"/{quote(model_name, safe='@')}:{method}"


def _betas(request: ModelRequest) -> list[str]:
    """The names of the beta features that the request asks for or that its content needs, each once."""
    settings = checked_settings(request.settings, AnthropicSettings)
    betas: list[str] = list(settings.get("betas", ()))
    for edit in _edits(settings):
        betas.append(_COMPACT_BETA if str(edit.get("type")).startswith("compact_") else _EDITING_BETA)
    if any(_is_file_of_provider(item) for item in _content_items(request)):
        betas.append(_FILES_BETA)
    return list(dict.fromkeys(betas))


def _edits(settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The edits of the conversation that the provider is asked for.

    Raises:
        ConfigurationError: They are malformed, or ask for a pause.
    """
    management: Mapping[str, Any] = settings.get("context_management") or {}
    edits: object = management.get("edits", [])
    if not _are_objects(edits):
        raise ConfigurationError("Model setting 'context_management.edits' must be a list of objects.")
    if any(each.get("pause_after_compaction") for each in edits):
        raise ConfigurationError(
            "Model setting 'context_management': a response that pauses after compaction cannot be "
            "continued; leave pause_after_compaction out."
        )
    return list(edits)


def _are_objects(value: object) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    return is_list_or_tuple(value) and all(map(is_json_mapping, value))


def _is_file_of_provider(item: UserContent) -> bool:
    return isinstance(item, UploadedFile) and item.provider_name in FILE_PROVIDERS


def _content_items(request: ModelRequest) -> Iterator[UserContent]:
    for message in request.messages:
        if isinstance(message, UserMessage):
            yield from message.content
        elif isinstance(message, ToolResultsMessage):
            for result in message.results:
                yield from result.content


def create_codec(rules: EndpointRules) -> AnthropicCodec:
    """The codec of this protocol; see `models.protocols`."""
    return AnthropicCodec(rules)
