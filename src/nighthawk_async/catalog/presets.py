"""Providers and servers that speak the protocols of others. Data only.

The capabilities and prices of their models are unknown unless a row has `models_of`, or the table of models
covers them. Providers that serve several protocols have a row for each. Read on 2026-11-26.

Amazon Bedrock has an event stream of its own, which is left out: of the models that call tools, only Amazon's
cannot be reached through a compatible protocol (docs.aws.amazon.com/bedrock/latest/userguide,
models-api-compatibility).

None has `strict_places`: by their documentation, Azure enforces the schemas of tools only without parallel
calls, DeepSeek only at the URL of its beta, Groq those of responses alone, xAI all of them, claimed or not,
and Mistral none. For the others, none that describes it for tools was found.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .provider_facts import ProviderFacts, UrlPart

_CHAT = "openai-chat"
_RESPONSES = "openai-responses"
_MESSAGES = "anthropic"


def _preset(
    protocol: str,
    base_url: str,
    key_variable: str,
    *,
    base_url_variable: str = "",
    source: str,
    **others: Any,
) -> ProviderFacts:
    fields: dict[str, Any] = {
        "is_preset": True,
        "key_variables": (key_variable,),
        "version_path": "/v1" if protocol == _MESSAGES else "",
        **others,
    }
    return ProviderFacts(
        protocol=protocol, base_url=base_url, base_url_variable=base_url_variable, source=source, **fields
    )


_AZURE_SOURCE = (
    "learn.microsoft.com/azure/foundry/openai/api-version-lifecycle (the API v1), and openai 3.57.0 "
    "(AZURE_OPENAI_ENDPOINT, AZURE_OPENAI_API_KEY)"
)
_FOUNDRY_SOURCE = "anthropic 2.14.0, lib/foundry.py and foundry.md"
_BEDROCK_SOURCE = (
    "docs.aws.amazon.com/bedrock/latest/userguide/inference-responses-api.html, endpoints.html and "
    "inference-messages-api.html, openai 3.57.0 (providers/bedrock.py) and anthropic 2.14.0 (lib/bedrock)"
)
_MANTLE_SOURCE = f"{_BEDROCK_SOURCE}; for models that the endpoint bedrock-runtime lacks"
_VERTEX_SOURCE = (
    "google-genai 3.4.0 (_api_client.py: hosts and variables), and cloud.google.com/vertex-ai/generative-ai/"
    "docs/multimodal/call-vertex-using-openai-library"
)
_REGION = UrlPart(variables=("AWS_REGION", "AWS_DEFAULT_REGION"))
_AZURE_PARTS = MappingProxyType(
    {"endpoint": UrlPart(variables=("AZURE_OPENAI_ENDPOINT",), surplus="/openai/v1")}
)
_VERTEX_PARTS = MappingProxyType(
    {
        "host": UrlPart(
            variables=("GOOGLE_CLOUD_LOCATION",),
            default="global",
            form="{}-aiplatform.googleapis.com",
            special=MappingProxyType(
                {
                    "global": "aiplatform.googleapis.com",
                    "us": "aiplatform.us.rep.googleapis.com",
                    "eu": "aiplatform.eu.rep.googleapis.com",
                }
            ),
        ),
        "project": UrlPart(variables=("GOOGLE_CLOUD_PROJECT",)),
        "location": UrlPart(variables=("GOOGLE_CLOUD_LOCATION",), default="global"),
    }
)
_VERTEX_URL = "https://{host}/v1/projects/{project}/locations/{location}"


def _azure(protocol: str) -> ProviderFacts:
    return _preset(
        protocol,
        "{endpoint}/openai/v1",
        "AZURE_OPENAI_API_KEY",
        url_parts=_AZURE_PARTS,
        key_header="api-key",
        key_prefix="",
        credentials="azure",
        source=_AZURE_SOURCE,
    )


def _bedrock(protocol: str, host: str, path: str, source: str) -> ProviderFacts:
    return _preset(
        protocol,
        f"https://{host}{path}",
        "AWS_BEARER_TOKEN_BEDROCK",
        base_url_variable="AWS_BEDROCK_BASE_URL" if protocol != _MESSAGES else "",
        url_parts=MappingProxyType({"region": _REGION}),
        credentials="aws",
        source=source,
    )


_RUNTIME = "bedrock-runtime.{region}.amazonaws.com"
_MANTLE = "bedrock-mantle.{region}.api.aws"

_CLOUDS: Mapping[str, ProviderFacts] = {
    "azure": _azure(_RESPONSES),
    "azure-chat": _azure(_CHAT),
    "azure-anthropic": _preset(
        _MESSAGES,
        "https://{resource}.services.ai.azure.com/anthropic/v1",
        "ANTHROPIC_FOUNDRY_API_KEY",
        base_url_variable="ANTHROPIC_FOUNDRY_BASE_URL",
        url_parts=MappingProxyType({"resource": UrlPart(variables=("ANTHROPIC_FOUNDRY_RESOURCE",))}),
        key_header="x-api-key",
        key_prefix="",
        credentials="azure",
        credential_arguments=MappingProxyType({"scope": "https://ai.azure.com/.default"}),
        source=_FOUNDRY_SOURCE,
    ),
    "bedrock": _bedrock(_CHAT, _RUNTIME, "/openai/v1", _BEDROCK_SOURCE),
    "bedrock-responses": _bedrock(_RESPONSES, _RUNTIME, "/openai/v1", _BEDROCK_SOURCE),
    "bedrock-anthropic": _bedrock(_MESSAGES, _RUNTIME, "/anthropic/v1", _BEDROCK_SOURCE),
    "bedrock-mantle": _bedrock(_CHAT, _MANTLE, "/v1", _MANTLE_SOURCE),
    "bedrock-mantle-responses": _bedrock(_RESPONSES, _MANTLE, "/v1", _MANTLE_SOURCE),
    "bedrock-mantle-anthropic": _bedrock(_MESSAGES, _MANTLE, "/anthropic/v1", _MANTLE_SOURCE),
    "vertex": ProviderFacts(
        protocol="google",
        base_url=f"{_VERTEX_URL}/publishers/google",
        base_url_variable="",
        key_variables=(),
        url_parts=_VERTEX_PARTS,
        key_header="x-goog-api-key",
        key_prefix="",
        credentials="google",
        is_preset=True,
        models_of="google",
        source=_VERTEX_SOURCE,
    ),
    "vertex-chat": ProviderFacts(
        protocol=_CHAT,
        base_url=f"{_VERTEX_URL}/endpoints/openapi",
        base_url_variable="",
        key_variables=(),
        url_parts=_VERTEX_PARTS,
        credentials="google",
        is_preset=True,
        source=_VERTEX_SOURCE,
    ),
}

_OPENROUTER_SOURCE = "openrouter.ai/docs (Chat Completions, Responses and Anthropic Messages)"
_XAI_SOURCE = (
    "docs.x.ai/developers/model-capabilities/text/comparison, which recommends Responses, and quickstart"
)

_SERVICES: Mapping[str, ProviderFacts] = {
    "openrouter": _preset(
        _CHAT, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", source=_OPENROUTER_SOURCE
    ),
    "openrouter-responses": _preset(
        _RESPONSES, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", source=_OPENROUTER_SOURCE
    ),
    "openrouter-anthropic": _preset(
        _MESSAGES, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", source=_OPENROUTER_SOURCE
    ),
    "xai": _preset(_RESPONSES, "https://api.x.ai/v1", "XAI_API_KEY", source=_XAI_SOURCE),
    "xai-chat": _preset(_CHAT, "https://api.x.ai/v1", "XAI_API_KEY", source=_XAI_SOURCE),
    "mistral": _preset(
        _CHAT,
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        source="docs.mistral.ai/resources/migration-guides",
    ),
    "groq": _preset(
        _CHAT, "https://api.groq.com/openai/v1", "GROQ_API_KEY", source="console.groq.com/docs/openai"
    ),
    "groq-responses": _preset(
        _RESPONSES, "https://api.groq.com/openai/v1", "GROQ_API_KEY", source="console.groq.com/docs/openai"
    ),
    "deepseek": _preset(
        _CHAT,
        "https://api.deepseek.com",
        "DEEPSEEK_API_KEY",
        source="api-docs.deepseek.com/quick_start/your_first_api_call",
    ),
    "deepseek-anthropic": _preset(
        _MESSAGES,
        "https://api.deepseek.com/anthropic/v1",
        "DEEPSEEK_API_KEY",
        key_header="x-api-key",
        key_prefix="",
        source="api-docs.deepseek.com/guides/anthropic_api",
    ),
    "together": _preset(
        _CHAT,
        "https://api.together.ai/v1",
        "TOGETHER_API_KEY",
        base_url_variable="TOGETHER_BASE_URL",
        source="docs.together.ai/docs/inference/openai-compatibility",
    ),
    "fireworks": _preset(
        _CHAT,
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        source="docs.fireworks.ai/tools-sdks/openai-compatibility",
    ),
    "github": _preset(
        _CHAT,
        "https://models.github.ai/inference",
        "GITHUB_TOKEN",
        source="docs.github.com/rest/models/inference (a token with the permission models: read)",
    ),
}

_SERVERS: Mapping[str, ProviderFacts] = {
    "ollama": _preset(
        _CHAT,
        "http://localhost:11434/v1",
        "OLLAMA_API_KEY",
        base_url_variable="OLLAMA_BASE_URL",
        is_key_required=False,
        source="docs.ollama.com/api/openai-compatibility",
    ),
    "vllm": _preset(
        _CHAT,
        "http://localhost:8000/v1",
        "VLLM_API_KEY",
        base_url_variable="VLLM_BASE_URL",
        is_key_required=False,
        source="docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
    ),
    "llama-cpp": _preset(
        _CHAT,
        "http://localhost:8080/v1",
        "LLAMA_API_KEY",
        base_url_variable="LLAMA_CPP_BASE_URL",
        is_key_required=False,
        source="github.com/ggml-org/llama.cpp/tree/master/tools/server",
    ),
}

PRESETS: Mapping[str, ProviderFacts] = MappingProxyType({**_CLOUDS, **_SERVICES, **_SERVERS})
"""The presets by name, the first part of a model id."""
