"""The codec of the Gemini API.

The endpoint takes JSON Schema in `parametersJsonSchema` and `responseJsonSchema`, but supports only a part of
it. It ignores unknown keywords at best, so they are replaced by equivalents if possible, and left out
otherwise: the schema then allows more, and the model's answer is validated against the real type anyway. So a
property that leads back to its own object is never required, and a list of itself becomes a list of anything:
the endpoint follows recursive references only inside optional properties.

Source: the description of `response_json_schema` in `types.py` of the official SDK, and "JSON Schema support"
in the provider's documentation of structured output.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import quote

from ...errors import ConfigurationError
from ...types.endpoint_rules import NO_RULES, EndpointRules
from ...types.json import is_json_mapping, is_list_or_tuple
from ...types.messages import MultimodalContent, ToolDefinition
from ...types.model import (
    GoogleSettings,
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    ModelSettings,
    NamedToolChoice,
)
from ..codec import STREAM_HEADERS, UNKNOWN_CAPABILITIES, EncodedRequest
from ..json_text import check_tool_choice, refuse_deferred_tools, request_json
from ..native_tools import native_tools_of
from ..transport_settings import checked_settings, merge_extra_body, refuse_reserved_settings
from .contents import PROTOCOL, encode_contents, find_refusal
from .native_tools import encode_native_tool
from .response import GoogleResponseDecoder

_KEPT = frozenset(
    {
        "$anchor",
        "$id",
        "description",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "propertyOrdering",
        "required",
        "title",
        "type",
    }
)
_FORMATS = frozenset({"date", "date-time", "double", "float", "int32", "int64", "time"})
_ENUMERABLE = frozenset({"integer", "number", "string"})
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "prefixItems")
_SINGLE_SCHEMAS = ("items", "additionalProperties")
_ARGUMENT_KEYWORDS = (
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "patternProperties",
    "properties",
)
_NAMED_SCHEMAS = {"$defs": "$defs", "definitions": "$defs", "properties": "properties"}


def adapted_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON Schema in the form that the endpoint supports.

    Args:
        schema: A JSON Schema; it stays as it is.
    """
    adapted = _adapted(schema)
    targets = {f"#/$defs/{name}": each for name, each in adapted.get("$defs", {}).items()} | {"#": adapted}
    own = {name: set(_references(each)) for name, each in targets.items()}
    cycles = {name: _reached(name, own) for name in own}
    if not any(name in reached for name, reached in cycles.items()):
        return adapted
    definitions = {
        name: _without_cycles(each, f"#/$defs/{name}", cycles, is_optional=False)
        for name, each in adapted.pop("$defs", {}).items()
    }
    adapted = _without_cycles(adapted, "#", cycles, is_optional=False)
    return adapted | ({"$defs": definitions} if definitions else {})


def _adapted_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    adapted = {name: value for name, value in schema.items() if name in _KEPT}
    if schema.get("format") in _FORMATS:
        adapted["format"] = schema["format"]
    for name, theirs in _NAMED_SCHEMAS.items():
        if is_json_mapping(named := schema.get(name)):
            adapted[theirs] = {key: _adapted(each) for key, each in named.items()}
    for name in _LISTS_OF_SCHEMAS:
        if is_list_or_tuple(members := schema.get(name)):
            adapted[name] = [_adapted(each) for each in members]
    if "items" in schema:
        adapted["items"] = _adapted(schema["items"])
    if "additionalProperties" in schema:
        additional: object = schema["additionalProperties"]
        adapted["additionalProperties"] = additional if isinstance(additional, bool) else _adapted(additional)
    _adapt_values(schema, adapted)
    _adapt_bounds(schema, adapted)
    _adapt_references(schema, adapted)
    return adapted


def takes_nothing(schema: Mapping[str, Any]) -> bool:
    """Whether an object schema describes arguments of which there are none.

    Args:
        schema: A JSON Schema.
    """
    return not any(schema.get(name) for name in _ARGUMENT_KEYWORDS)


def _adapted(schema: object) -> dict[str, Any]:
    """The schema inside another; one that is no object, `True` or `False`, becomes one for any value."""
    return _adapted_object(schema) if is_json_mapping(schema) else {}


def _adapt_values(schema: Mapping[str, Any], adapted: dict[str, Any]) -> None:
    """Write listed values, and a constant, as an enumeration, which holds only texts and numbers."""
    listed: object = [schema["const"]] if "const" in schema else schema.get("enum")
    if not is_list_or_tuple(listed):
        return
    plain = [value for value in listed if _type_of(value) in _ENUMERABLE]
    others = sorted({_type_of(value) for value in listed} - _ENUMERABLE)
    if "array" in others or "object" in others:
        return
    members: list[dict[str, Any]] = [{"type": each} for each in others]
    if plain:
        types = sorted({_type_of(value) for value in plain})
        members.insert(0, {"enum": plain, "type": types if len(types) > 1 else types[0]})
    if len(members) == 1:
        declared = {"type": schema["type"]} if "type" in schema else {}
        adapted.update(members[0] | declared)
    elif members and "anyOf" not in adapted:
        adapted.pop("type", None)
        adapted["anyOf"] = members


def _adapt_bounds(schema: Mapping[str, Any], adapted: dict[str, Any]) -> None:
    """Write exclusive bounds of integers as inclusive ones; those of other numbers are approximated."""
    for theirs, ours, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        bound: object = schema.get(theirs)
        if isinstance(bound, int | float) and not isinstance(bound, bool):
            is_integer = schema.get("type") == "integer" and isinstance(bound, int)
            adapted.setdefault(ours, bound + step if is_integer else bound)


def _adapt_references(schema: Mapping[str, Any], adapted: dict[str, Any]) -> None:
    """Keep a reference alone, as the endpoint wants it, with its sibling keywords in an enclosing schema."""
    all_of: object = schema.get("allOf")
    if isinstance(reference := schema.get("$ref"), str):
        member: dict[str, Any] = {"$ref": reference.replace("#/definitions/", "#/$defs/", 1)}
    elif is_list_or_tuple(all_of) and len(all_of) == 1:
        member = _adapted(all_of[0])
    else:
        return
    if all(name.startswith("$") for name in adapted):
        adapted.update(member)
    else:
        adapted.setdefault("anyOf", [member])


def _references(schema: Mapping[str, Any]) -> Iterator[str]:
    """The references in an adapted schema, those of its definitions left out."""
    if "$ref" in schema:
        yield schema["$ref"]
    for inner in (*schema.get("properties", {}).values(), *_parts(schema)):
        yield from _references(inner)


def _parts(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The schemas directly inside an adapted one, those of its properties left out."""
    for name in _LISTS_OF_SCHEMAS:
        yield from schema.get(name, ())
    for name in _SINGLE_SCHEMAS:
        if is_json_mapping(schema.get(name)):
            yield schema[name]


def _reached(name: str, references: Mapping[str, set[str]]) -> set[str]:
    """Return the definitions that a definition refers to, directly or not."""
    reached: set[str] = set()
    left = list(references[name])
    while left:
        each = left.pop()
        if each not in reached and each in references:
            reached.add(each)
            left.extend(references[each])
    return reached


def _without_cycles(
    schema: dict[str, Any], start: str, cycles: Mapping[str, set[str]], *, is_optional: bool
) -> dict[str, Any]:
    """An adapted schema in which every recursive reference is in an optional property."""
    if "$ref" in schema:
        leads_back = start in cycles.get(schema["$ref"], ())
        return {} if leads_back and not is_optional else schema
    changed = dict(schema)
    if properties := schema.get("properties"):
        changed["properties"] = {
            name: _without_cycles(each, start, cycles, is_optional=True) for name, each in properties.items()
        }
        changed["required"] = [
            name
            for name in schema.get("required", ())
            if not any(start in cycles.get(each, ()) for each in _references(properties.get(name, {})))
        ]
        if not changed["required"]:
            del changed["required"]
    for name in _LISTS_OF_SCHEMAS:
        if name in schema:
            changed[name] = [
                _without_cycles(each, start, cycles, is_optional=is_optional) for each in schema[name]
            ]
    for name in _SINGLE_SCHEMAS:
        if is_json_mapping(inner := schema.get(name)):
            changed[name] = _without_cycles(dict(inner), start, cycles, is_optional=is_optional)
    return changed


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"


def encode_body(
    request: ModelRequest, *, capabilities: ModelCapabilities, rules: EndpointRules = NO_RULES
) -> bytes:
    """The body of a `generateContent` or `streamGenerateContent` request.

    Args:
        request: The request.
        capabilities: The capabilities of the model.
        rules: The rules of the endpoint.

    Raises:
        ConfigurationError: A setting has a bad value or is unknown to the protocol, the request demands a
            tool call without offering the tool, or it holds content, or an option of a native tool, that the
            protocol cannot carry.
    """
    generation, body = encode_settings(request.settings, capabilities)
    if request.response_format is not None:
        generation["responseMimeType"] = "application/json"
        generation["responseJsonSchema"] = adapted_schema(request.response_format.schema)
    if generation:
        body["generationConfig"] = generation
    if request.system_prompt:
        body["systemInstruction"] = {"parts": [{"text": request.system_prompt}]}
    body |= _encode_tools(request)
    # Models whose reasoning is set by a word are those from Gemini 3 on, which sign their calls.
    signs_calls = capabilities.reasoning and capabilities.reasoning_control == "effort"
    body["contents"] = encode_contents(
        request.messages,
        signs_calls=signs_calls,
        has_text_beside_results=rules.has_text_beside_results,
    )
    return request_json(merge_extra_body(body, request.settings))


def _encode_tools(request: ModelRequest) -> dict[str, Any]:
    check_tool_choice(request)
    refuse_deferred_tools(request, protocol="of the Gemini API")
    choice = request.tool_choice
    tools: list[dict[str, Any]] = [encode_native_tool(tool) for tool in native_tools_of(request.settings)]
    has_native = bool(tools)
    if request.tools:
        tools.append({"functionDeclarations": [_encode_tool(tool) for tool in request.tools]})
    if not tools:
        return {}
    config: dict[str, Any] = {}
    if request.tools and choice != "auto":
        config["functionCallingConfig"] = _encode_choice(choice, has_native=has_native)
    if request.tools and has_native:
        config["includeServerSideToolInvocations"] = True
    return {"tools": tools, "toolConfig": config} if config else {"tools": tools}


def _encode_tool(tool: ToolDefinition) -> dict[str, Any]:
    declaration: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if not takes_nothing(tool.parameters):  # the endpoint wants no schema if there is no parameter
        declaration["parametersJsonSchema"] = adapted_schema(tool.parameters)
    return declaration


def _encode_choice(choice: str | NamedToolChoice, *, has_native: bool) -> dict[str, Any]:
    if isinstance(choice, NamedToolChoice):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    if choice == "required" and has_native:
        return {"mode": "VALIDATED"}  # a model that must call a function uses no native tool
    return {"mode": "ANY" if choice == "required" else "NONE"}


GenerationSettings: TypeAlias = tuple[dict[str, Any], dict[str, Any]]
"""The fields of `generationConfig`, and those of the body itself."""

_RESERVED = frozenset(
    {
        "contents",
        "generationConfig",
        "generation_config",
        "model",
        "systemInstruction",
        "system_instruction",
        "toolConfig",
        "tool_config",
        "tools",
    }
)

_GENERATION_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "temperature": "temperature",
        "top_p": "topP",
        "top_k": "topK",
        "max_tokens": "maxOutputTokens",
        "stop": "stopSequences",
        "seed": "seed",
        "presence_penalty": "presencePenalty",
        "frequency_penalty": "frequencyPenalty",
    }
)
_BODY_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "safety_settings": "safetySettings",
        "cached_content": "cachedContent",
        "labels": "labels",
        "service_tier": "serviceTier",
    }
)
_ELSEWHERE = frozenset(
    {"include_thoughts", "parallel_tool_calls", "reasoning_effort", "stream", "thinking_budget_tokens"}
)

_LEVELS = frozenset({"minimal", "low", "medium", "high", "xhigh"})
_BUDGETS: Mapping[str, int] = MappingProxyType(
    {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576}
)


def encode_settings(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> GenerationSettings:
    """The settings as fields of `generationConfig` and of the body; unknown names are fields of the body.

    Args:
        settings: All settings of a request.
        capabilities: Determines whether reasoning is set by a word or by a number.

    Raises:
        ConfigurationError: A setting has a bad value, is one that only the library writes, or has no
            equivalent in the protocol.
    """
    refuse_reserved_settings(settings, _RESERVED)
    checked = checked_settings(settings, GoogleSettings)
    if checked.get("parallel_tool_calls") is False:
        raise ConfigurationError(
            "The Gemini protocol cannot forbid parallel tool calls; leave out the model setting "
            "'parallel_tool_calls'."
        )
    generation = {theirs: checked[ours] for ours, theirs in _GENERATION_NAMES.items() if ours in checked}
    if isinstance(stop := generation.get("stopSequences"), str):
        generation["stopSequences"] = [stop]
    if thinking := _encode_thinking(checked, capabilities):
        generation["thinkingConfig"] = thinking
    known = _ELSEWHERE | _GENERATION_NAMES.keys()
    body = {_BODY_NAMES.get(name, name): value for name, value in checked.items() if name not in known}
    if "cachedContent" in body:
        body["cachedContent"] = _resource_name(body["cachedContent"])
    return generation, body


def _encode_thinking(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> dict[str, Any]:
    effort, budget = settings.get("reasoning_effort"), settings.get("thinking_budget_tokens")
    if effort is not None and budget is not None:
        raise ConfigurationError(
            "The model settings 'reasoning_effort' and 'thinking_budget_tokens' exclude each other."
        )
    thinking: dict[str, Any] = {}
    if budget is not None:
        thinking["thinkingBudget"] = budget
    elif effort is not None and capabilities.reasoning_control == "budget":
        thinking["thinkingBudget"] = _budget(effort)
    elif effort is not None:
        thinking["thinkingLevel"] = _level(effort)
    if "include_thoughts" in settings:
        thinking["includeThoughts"] = settings["include_thoughts"]
    return thinking


def _budget(effort: str) -> int:
    if effort not in _BUDGETS:
        raise ConfigurationError(
            f"No number of tokens stands for the reasoning effort {effort!r}; known are "
            f"{', '.join(_BUDGETS)}. Give a number in the model setting 'thinking_budget_tokens'."
        )
    return _BUDGETS[effort]


def _level(effort: str) -> str:
    if effort not in _LEVELS:
        raise ConfigurationError(
            f"The Gemini protocol has no thinking level {effort!r}: the lowest is 'minimal', the highest "
            "'xhigh'."
        )
    return effort.upper()


def _resource_name(name: str) -> str:
    return name if "/" in name else f"cachedContents/{name}"


_WHOLE_HEADERS = {"accept": "application/json", "content-type": "application/json"}
_COLLECTIONS = ("models", "tunedModels")


class GoogleCodec:
    """Speaks the Gemini API. See `wire.codec.Codec`."""

    name = PROTOCOL
    settings_form: type[ModelSettings] = GoogleSettings

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
        body = encode_body(request, capabilities=capabilities, rules=self.rules)
        path = _model_path(model_name)
        if request.settings.get("stream") is False:
            return EncodedRequest(path=f"{path}:generateContent", headers=_WHOLE_HEADERS, body=body)
        # Without `alt=sse` the endpoint answers with a JSON array, which is complete only at its end.
        return EncodedRequest(path=f"{path}:streamGenerateContent?alt=sse", headers=STREAM_HEADERS, body=body)

    def decoder(self, request: EncodedRequest | None = None) -> GoogleResponseDecoder:
        """A decoder for one streamed response; see `wire.codec.Codec`."""
        return GoogleResponseDecoder()

    def decode_response(self, body: bytes, request: EncodedRequest | None = None) -> list[ModelEvent]:
        """The events of a response that was not streamed; see `wire.codec.Codec`."""
        return GoogleResponseDecoder().feed_whole(body)


def _model_path(model_name: str) -> str:
    """The path of a model, quoted so that no name leads elsewhere."""
    collection, separator, name = model_name.partition("/")
    if not separator or collection not in _COLLECTIONS:
        collection, name = "models", model_name
    return f"/{collection}/{quote(name, safe='')}"


def create_codec(rules: EndpointRules) -> GoogleCodec:
    """The codec of this protocol; see `models.protocols`."""
    return GoogleCodec(rules)
