"""Rules of endpoints for requests, one row each. Data only; `types.endpoint_rules` describes the fields.

An endpoint that refuses what others take gets a row here, and the codecs in `wire` and the checks in
`models.fitting` read it; nothing else distinguishes endpoints. A model that the table of models lacks
gets the rules of its endpoint all the same. `testing.model_server_rules` has the same rules from the side of
the server, written from the same sources; a test removes each rule from this table and expects that server
to refuse.

Few of the refusals could be tried with a key. `nighthawk-async models check --rules` tries those of an
endpoint with the user's key, and shows which of them hold today.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import structs

from ..types.endpoint_rules import NO_RULES, CallIdRule, EndpointRules, SettingRule, WebSocketRule
from .providers import PROVIDERS

_OPENAI_REFERENCE = "developers.openai.com/api/reference, read on 2026-11-30"
_SDK = "openai 3.57.0, types/chat/completion_create_params.py"


def _at_most(most: int) -> SettingRule:
    return SettingRule(setting="stop", most=most, reason=f"has more than the {most} texts that it takes")


def _cooler_than(highest: float, *models: str) -> SettingRule:
    reason = f"is above {highest:g}, the highest that it takes"
    return SettingRule(setting="temperature", above=highest, reason=reason, models=models or ("*",))


# The SDK's docstring names o3 and o4-mini; o3-mini was recorded to take it. Of GPT-5, chat models do.
_NO_STOP = SettingRule(
    setting="stop",
    models=("o3", "o3-20*", "o3-pro*", "o4-mini*", "gpt-5", "gpt-5-[!c]*"),
    reason="is not taken by this model",
)

_OPENAI_CHAT = EndpointRules(
    hosts=("api.openai.com",),
    call_ids=CallIdRule(pattern=r"[\s\S]{1,40}", length=40),
    setting_names=MappingProxyType({"max_tokens": "max_completion_tokens"}),
    refused_settings=(_NO_STOP, _at_most(4), _cooler_than(2)),
    max_tools=128,
    reasoning_form="none",
    ignores_unknown_fields=False,
    sources=MappingProxyType(
        {
            "call_ids": "\"Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with "
            'maximum length 40" (agno-agi/agno issue 5382, vercel/ai issue 5171)',
            "setting_names": f"{_SDK}: max_tokens is deprecated, and not compatible with the o-series",
            "refused_settings": f"{_SDK}: stop, temperature; {_OPENAI_REFERENCE}",
            "max_tools": f"{_SDK}: a maximum of 128 functions",
            "reasoning_form": "the message types of the SDK have no field for reasoning",
            "ignores_unknown_fields": '"Additional properties are not allowed" of the endpoint\'s validation',
        }
    ),
)
_OPENAI_RESPONSES = EndpointRules(
    hosts=("api.openai.com",),
    call_ids=CallIdRule(pattern=r"[\s\S]{1,64}", length=64),
    refused_settings=(
        SettingRule(setting="max_tokens", below=16, reason="is below 16, the lowest that it takes"),
        _cooler_than(2),
    ),
    max_tools=128,
    websocket=WebSocketRule(lanes=32, in_flight=16, has_steering=True),
    sources=MappingProxyType(
        {
            "websocket": "developers.openai.com/api/docs/guides/websocket-mode, read on 2026-11-30: 60 "
            "minutes, 16 responses in flight, 32 names of stream_id; response.steer: guides/steering there",
            "call_ids": "openai 3.57.0, types/responses/response_input_item.py: call_id, 1 to 64 characters",
            "refused_settings": "\"Invalid 'max_output_tokens': integer below minimum value. Expected a "
            f'value >= 16", recorded by others; {_OPENAI_REFERENCE}',
            "max_tools": "\"Invalid 'tools': array too long. Expected an array with maximum length 128\"",
        }
    ),
)

# Other servers of the protocol have other models, which may take more.
_ANY_CLAUDE = ("*claude*",)
_CLAUDE_4 = ("*claude-*-4-5*", "*claude-*-4-6*", "*claude-opus-4-1*")
_CLAUDE = EndpointRules(
    refused_settings=(
        SettingRule(
            setting="temperature",
            beside=("top_p",),
            models=_CLAUDE_4,
            reason="is not taken beside 'top_p' by this model; leave one of them out",
        ),
        SettingRule(
            setting="temperature",
            beside=("thinking",),
            models=_ANY_CLAUDE,
            unless=(1,),
            reason="may only be 1 while the model thinks; leave it out, or turn thinking off",
        ),
        SettingRule(
            setting="top_k",
            beside=("thinking",),
            models=_ANY_CLAUDE,
            reason="is not taken while the model thinks; leave it out, or turn thinking off",
        ),
        SettingRule(
            setting="top_p",
            beside=("thinking",),
            models=_ANY_CLAUDE,
            below=0.95,
            reason="must be at least 0.95 while the model thinks; leave it out, or turn thinking off",
        ),
        _cooler_than(1, *_ANY_CLAUDE),
    ),
    sources=MappingProxyType(
        {
            "refused_settings": "platform.claude.com/docs/en/build-with-claude/extended-thinking (feature "
            "compatibility), /about-claude/models/migration-guide (one of temperature and top_p), and the "
            "reference of the Messages API (temperature from 0 to 1)",
        }
    ),
)

_ONLY_IN_CACHE = "is not taken beside {}: they belong into the cached content, so create it with them"
_GEMINI = EndpointRules(
    refused_settings=(
        SettingRule(
            setting="cached_content", beside=("tools",), reason=_ONLY_IN_CACHE.format("tools of the request")
        ),
        SettingRule(
            setting="cached_content",
            beside=("system_prompt",),
            reason=_ONLY_IN_CACHE.format("a system prompt"),
        ),
        _at_most(5),
        _cooler_than(2),
    ),
    has_text_beside_results=False,
    sources=MappingProxyType(
        {
            "refused_settings": '"CachedContent can not be used with GenerateContent request setting '
            'system_instruction, tools or tool_config"; google-genai 3.6.1, types.py (stop_sequences, '
            "temperature); cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference",
            "has_text_beside_results": "pydantic-ai issue 4210: gemini-3.5-flash answers with nothing, "
            "others take the text for their own words; in a content of its own, every model reads it",
        }
    ),
)

_GROQ_SOURCE = "console.groq.com/docs/api-reference and /docs/reasoning, read on 2026-11-30"
_DEEPSEEK_SOURCE = "api-docs.deepseek.com/guides/thinking_mode, read on 2026-11-30"
_MISTRAL_SDK = "mistralai, models/chatcompletionrequest.py and assistantmessage.py"

_DEEPSEEK = EndpointRules(
    hosts=("api.deepseek.com",),
    forces_tools=False,
    refused_settings=(_at_most(16), _cooler_than(2)),
    max_tools=128,
    demands_reasoning=True,
    sources=MappingProxyType(
        {
            "forces_tools": 'HTTP 400 "Thinking mode does not support this tool_choice": V4 thinks unless '
            "told otherwise (deepseek-ai/DeepSeek-V3 issue 1376)",
            "refused_settings": "api-docs.deepseek.com/api/create-chat-completion (up to 16, at most 2)",
            "max_tools": "api-docs.deepseek.com/api/create-chat-completion: a maximum of 128 functions",
            "demands_reasoning": f'{_DEEPSEEK_SOURCE}; HTTP 400 "The reasoning_content in the thinking mode '
            'must be passed back to the API" (earendil-works/pi issue 3636)',
        }
    ),
)
_MISTRAL = EndpointRules(
    hosts=("api.mistral.ai",),
    call_ids=CallIdRule(pattern="[a-zA-Z0-9]{9}", length=9, has_prefix=False),
    setting_names=MappingProxyType({"seed": "random_seed"}),
    refused_settings=(_cooler_than(1.5),),
    has_stream_options=False,
    has_user_after_results=False,
    reasoning_form="thinking part",
    ignores_unknown_fields=False,
    sources=MappingProxyType(
        {
            "call_ids": 'HTTP 400 "Tool call id was … but must be a-z, A-Z, 0-9, with a length of 9" '
            "(code 3280; nearai/ironclaw issue 1241, anomalyco/opencode issue 1680)",
            "setting_names": f"{_MISTRAL_SDK}: random_seed",
            "refused_settings": f"{_MISTRAL_SDK}: temperature from 0 to 1.5",
            "has_stream_options": "HTTP 422 extra_forbidden for stream_options.include_usage, four threads "
            "of 2025; usage comes without it",
            "has_user_after_results": "HTTP 400 \"Unexpected role 'user' after role 'tool'\" (code 3230; "
            "datapizza-labs/datapizza-ai issue 98, avante-corp/avante.nvim issue 2562)",
            "reasoning_form": f"{_MISTRAL_SDK}: ThinkChunk; docs.mistral.ai/capabilities/reasoning",
            "ignores_unknown_fields": "HTTP 422 extra_forbidden for reasoning_content in a message",
        }
    ),
)
_GROQ = EndpointRules(
    hosts=("api.groq.com",),
    refused_settings=(_at_most(4), _cooler_than(2)),
    max_tools=128,
    reasoning_form="reasoning",
    ignores_unknown_fields=False,
    sources=MappingProxyType(
        {
            "refused_settings": f"{_GROQ_SOURCE}: up to 4 stop sequences, temperature from 0 to 2",
            "max_tools": f"{_GROQ_SOURCE}: a maximum of 128 functions",
            "reasoning_form": f"{_GROQ_SOURCE}: reasoning of an assistant message",
            "ignores_unknown_fields": "HTTP 400 \"property 'reasoning_content' is unsupported\" "
            "(janhq/jan issue 8136, tashfeenahmed/freellmapi issue 1070)",
        }
    ),
)
_XAI_SOURCE = "docs.x.ai/docs/guides/function-calling: a maximum of 128 functions"
_XAI = EndpointRules(hosts=("api.x.ai",), max_tools=128, sources=MappingProxyType({"max_tools": _XAI_SOURCE}))
_XAI_RESPONSES = structs.replace(
    _XAI,
    websocket=WebSocketRule(),
    sources={
        "max_tools": _XAI_SOURCE,
        "websocket": "docs.x.ai/developers/advanced-api-usage/websocket-mode, read on 2026-11-30; it names "
        "no stream_id",
    },
)
_OLLAMA = EndpointRules(
    forces_tools=False,
    sources=MappingProxyType({"forces_tools": "the code of its compatible endpoints ignores tool_choice"}),
)


def _of_azure(rules: EndpointRules) -> EndpointRules:
    """The rules of the same models on Azure, which speaks for each of its resources from a host of its own.

    `max_tokens` keeps its name there: deployments may be of models that know no other, and of any age.
    """
    return structs.replace(
        rules,
        hosts=("openai.azure.com", "services.ai.azure.com"),
        setting_names=NO_RULES.setting_names,
        sources={name: each for name, each in rules.sources.items() if name != "setting_names"},
    )


def _of_deepseek_messages() -> EndpointRules:
    """The Messages endpoint of DeepSeek: the same models think there, too."""
    return EndpointRules(
        hosts=("api.deepseek.com",),
        forces_tools=False,
        sources=MappingProxyType({"forces_tools": _DEEPSEEK.sources["forces_tools"]}),
    )


def _of_vertex(rules: EndpointRules) -> EndpointRules:
    """The rules of the same models on Vertex AI, where the model is a part of the path."""
    source = 'anthropic 2.14.0, lib/vertex/_client.py: anthropic_version is "vertex-2023-10-16"'
    return structs.replace(
        rules,
        predict_version="vertex-2023-10-16",
        sources=MappingProxyType({**rules.sources, "predict_version": source}),
    )


_DEEPSEEK_RESPONSES = EndpointRules(
    hosts=("api.deepseek.com",),
    forces_tools=False,
    refused_settings=(_cooler_than(2),),
    max_tools=128,
    sources=MappingProxyType(
        {name: _DEEPSEEK.sources[name] for name in ("forces_tools", "refused_settings", "max_tools")}
    ),
)
_MISTRAL_RESPONSES = EndpointRules(
    hosts=("api.mistral.ai",),
    refused_settings=(_cooler_than(1.5),),
    sources=MappingProxyType({"refused_settings": _MISTRAL.sources["refused_settings"]}),
)

ENDPOINT_RULES: Mapping[str, EndpointRules] = MappingProxyType(
    {
        "openai-chat": _OPENAI_CHAT,
        "openai-responses": _OPENAI_RESPONSES,
        "azure-chat": _of_azure(_OPENAI_CHAT),
        "azure": structs.replace(
            _of_azure(_OPENAI_RESPONSES),
            websocket=WebSocketRule(),
            sources={
                **_of_azure(_OPENAI_RESPONSES).sources,
                "websocket": "learn.microsoft.com/azure/foundry/openai/how-to/websockets, read on "
                "2026-11-30; it names no stream_id",
            },
        ),
        "anthropic": _CLAUDE,
        "azure-anthropic": _CLAUDE,
        "bedrock-anthropic": _CLAUDE,
        "bedrock-mantle-anthropic": _CLAUDE,
        "google": _GEMINI,
        "vertex": _GEMINI,
        "deepseek": _DEEPSEEK,
        "vertex-anthropic": _of_vertex(_CLAUDE),
        "snowflake-anthropic": _CLAUDE,
        "deepseek-anthropic": _of_deepseek_messages(),
        "deepseek-responses": _DEEPSEEK_RESPONSES,
        "mistral-responses": _MISTRAL_RESPONSES,
        "mistral": _MISTRAL,
        "groq": _GROQ,
        "xai": _XAI_RESPONSES,
        "xai-chat": _XAI,
        "ollama": _OLLAMA,
    }
)
"""The rules of the endpoints, by the names of their providers; the others have none."""

PROTOCOL_RULES: Mapping[str, EndpointRules] = MappingProxyType({"anthropic": _CLAUDE, "google": _GEMINI})
"""The rules of other servers of a protocol, by its name: those without which its models do not answer."""


def find_endpoint_rules(provider: str, *, protocol: str, host: str | None, is_own: bool) -> EndpointRules:
    """The rules of an endpoint.

    Args:
        provider: The provider of the model id.
        protocol: Its protocol.
        host: The host of the base URL.
        is_own: Whether the endpoint is that of the provider; otherwise the host decides.
    """
    if is_own and provider in ENDPOINT_RULES:
        return ENDPOINT_RULES[provider]
    for name, rules in ENDPOINT_RULES.items():
        is_there = any(f".{host}".endswith(f".{each}") for each in rules.hosts)
        if is_there and PROVIDERS[name].protocol == protocol:
            return rules
    return rules_of_protocol(protocol)


def rules_of_protocol(protocol: str) -> EndpointRules:
    """The rules of a server that is not known.

    Args:
        protocol: The protocol.
    """
    return PROTOCOL_RULES.get(protocol, NO_RULES)
