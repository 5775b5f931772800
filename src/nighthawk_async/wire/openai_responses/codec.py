"""The codec of OpenAI Responses.

The provider's memory is not used: every request holds the whole conversation, and the provider is asked to
store nothing unless the setting `store` is set.
"""

from collections.abc import Mapping
from typing import Any

from ...errors import ConfigurationError
from ...types.endpoint_rules import NO_RULES, CallIdRule, EndpointRules
from ...types.json import is_json_mapping, is_list_or_tuple
from ...types.messages import MultimodalContent, ToolDefinition
from ...types.model import (
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    ModelSettings,
    NamedToolChoice,
    OpenAIResponsesSettings,
    ResponseFormat,
    ToolChoice,
)
from ...types.native_tools import NativeTool
from ..call_ids import fitting_id
from ..codec import STREAM_HEADERS, UNKNOWN_CAPABILITIES, EncodedRequest
from ..json_text import check_tool_choice, request_json
from ..native_tools import native_tools_of
from ..openai_schemas import are_strict_tools, is_strict_schema
from ..transport_settings import (
    checked_settings,
    default_cache_key,
    merge_extra_body,
    refuse_reserved_settings,
    refuse_settings,
)
from .input import PROTOCOL, encode_input, find_refusal
from .native_tools import encode_limit, encode_native_tool, included_results
from .response import ResponsesDecoder

# A stored conversation that the provider continues would hold every message twice.
_RESERVED = frozenset(
    {"conversation", "input", "instructions", "model", "previous_response_id", "tool_choice", "tools"}
)
_MISSING = frozenset({"seed", "stop"})
_ENCRYPTED_REASONING = "reasoning.encrypted_content"


def encode_body(
    request: ModelRequest,
    *,
    model_name: str,
    capabilities: ModelCapabilities,
    rules: EndpointRules = NO_RULES,
) -> bytes:
    """The body of a Responses request.

    Args:
        request: The request.
        model_name: The model's name at the endpoint.
        capabilities: The capabilities of the model: whether it reasons.
        rules: The rules of the endpoint.

    Raises:
        ConfigurationError: A setting is bad, not JSON, unknown to the protocol or has a name that only the
            library writes, the request demands a tool call without offering the tool, or it holds content
            or a native tool that the protocol cannot carry.
    """
    refuse_reserved_settings(request.settings, _RESERVED)
    refuse_settings(request.settings, _MISSING, protocol="OpenAI Responses")
    settings = checked_settings(request.settings, OpenAIResponsesSettings)
    body: dict[str, Any] = {"model": model_name, "stream": True, "store": False}
    body |= _encode_settings(settings, request.response_format)
    # The value in `extra_body` counts as well, since it takes precedence.
    is_stored = merge_extra_body({"store": body["store"]}, request.settings)["store"] is True
    native = native_tools_of(request.settings)
    wanted = included_results(native)
    if not is_stored and _reasons(settings, capabilities):
        wanted.append(_ENCRYPTED_REASONING)
    if wanted:
        body["include"] = _with_included(body.get("include"), wanted)
    body |= default_cache_key(request, model_name=model_name, capabilities=capabilities)
    body |= encode_limit(native, body.get("max_tool_calls"))
    if request.system_prompt:
        body["instructions"] = request.system_prompt
    body |= _encode_tools(request, native)
    body["input"] = encode_input(request.messages, is_stored=is_stored)
    if rules.call_ids is not None:
        body["input"] = [_with_fitting_id(item, rules.call_ids) for item in body["input"]]
    return request_json(merge_extra_body(body, request.settings))


def _with_fitting_id(item: dict[str, Any], rule: CallIdRule) -> dict[str, Any]:
    call_id = item.get("call_id")
    return {**item, "call_id": fitting_id(call_id, rule)} if isinstance(call_id, str) else item


def _encode_settings(settings: Mapping[str, Any], response_format: ResponseFormat | None) -> dict[str, Any]:
    """The settings under the protocol's names; unknown ones keep theirs."""
    body = dict(settings)
    reasoning = _object_setting(body, "reasoning")
    text = _object_setting(body, "text")
    if "format" in text:
        raise ConfigurationError("Model setting 'text.format' is written by the library; leave it out.")
    _move(body, "max_tokens", body, "max_output_tokens")
    _move(body, "reasoning_effort", reasoning, "effort")
    _move(body, "reasoning_summary", reasoning, "summary")
    _move(body, "verbosity", text, "verbosity")
    if response_format is not None:
        text["format"] = _encode_response_format(response_format)
    for name, value in (("reasoning", reasoning), ("text", text)):
        if value:
            body[name] = value
    return body


def _object_setting(body: dict[str, Any], name: str) -> dict[str, Any]:
    """Take one of the protocol's own objects, given as a setting under its own name, out of the body."""
    value: object = body.pop(name, {})
    if not is_json_mapping(value):
        raise ConfigurationError(f"Model setting {name!r} must be a mapping, not {type(value).__name__}.")
    return dict(value)


def _move(source: dict[str, Any], name: str, target: dict[str, Any], name_there: str) -> None:
    if name in source:
        target[name_there] = source.pop(name)


def _reasons(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> bool:
    """Whether the model is known to reason, or asked to.

    Models that do not reason refuse a request for encrypted reasoning with status 400.
    """
    is_asked = settings.get("reasoning_effort", "none") != "none" or "reasoning_summary" in settings
    return is_asked or capabilities.reasoning


def _with_included(include: object, wanted: list[str]) -> list[Any]:
    """Return the `include` list with more names in it: these parts are not returned otherwise."""
    if include is not None and not is_list_or_tuple(include):
        raise ConfigurationError(f"Model setting 'include' must be a list, not {type(include).__name__}.")
    given = [] if include is None else list(include)
    return [*given, *(name for name in wanted if name not in given)]


def _encode_tools(request: ModelRequest, native: tuple[NativeTool, ...]) -> dict[str, Any]:
    """The tools, native ones first: a tool that a search finds then changes the end of the list alone."""
    check_tool_choice(request)
    choice = request.tool_choice
    encoded = [
        *map(encode_native_tool, native),
        *map(_encode_tool, request.tools, are_strict_tools(request.tools)),
    ]
    if not encoded:
        return {}
    if any(tool.is_deferred for tool in request.tools):
        encoded.append({"type": "tool_search"})
    tools: dict[str, Any] = {"tools": encoded}
    # "auto" is every server's default, and some refuse it when given.
    return tools if choice == "auto" else tools | {"tool_choice": _encode_tool_choice(choice)}


def _encode_tool_choice(choice: ToolChoice) -> str | dict[str, Any]:
    return {"type": "function", "name": choice.name} if isinstance(choice, NamedToolChoice) else choice


def _encode_tool(tool: ToolDefinition, is_strict: bool) -> dict[str, Any]:
    encoded = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        # This protocol is strict by default, and refuses schemas that are not.
        "strict": is_strict,
    }
    return encoded | {"defer_loading": True} if tool.is_deferred else encoded


def _encode_response_format(response_format: ResponseFormat) -> dict[str, Any]:
    schema = response_format.schema
    return {
        "type": "json_schema",
        "name": response_format.name,
        "schema": schema,
        "strict": is_strict_schema(schema),
    }


class OpenAIResponsesCodec:
    """Speaks OpenAI Responses. See `wire.codec.Codec`."""

    name = PROTOCOL
    settings_form: type[ModelSettings] = OpenAIResponsesSettings

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
        return EncodedRequest(path="/responses", headers=STREAM_HEADERS, body=body)

    def decoder(self, request: EncodedRequest | None = None) -> ResponsesDecoder:
        """A decoder for one streamed response; see `wire.codec.Codec`."""
        return ResponsesDecoder()

    def decode_response(self, body: bytes, request: EncodedRequest | None = None) -> list[ModelEvent]:
        """The events of a response that was not streamed; see `wire.codec.Codec`."""
        return ResponsesDecoder().feed_whole(body)


def create_codec(rules: EndpointRules) -> OpenAIResponsesCodec:
    """The codec of this protocol; see `models.protocols`."""
    return OpenAIResponsesCodec(rules)
