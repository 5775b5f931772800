"""Facts about providers: their URLs, their protocols, and the sources of their keys.

Source: the official SDKs (`openai`, `anthropic`, `google-genai`), read in November 2026: their base URLs,
environment variables, headers and retry rules.

`PRESETS` has the providers and servers that speak their protocols. The capabilities and prices of their
models are unknown unless a row has `models_of`, or the table of models covers them. Providers that serve
several protocols have a row for each. Read on 2026-11-26.

Amazon Bedrock has an event stream of its own, which is left out: of the models that call tools, only Amazon's
cannot be reached through a compatible protocol (docs.aws.amazon.com/bedrock/latest/userguide,
models-api-compatibility).

None has `strict_places`: by their documentation, Azure enforces the schemas of tools only without parallel
calls, DeepSeek only at the URL of its beta, Groq those of responses alone, xAI all of them, claimed or not,
and Mistral none. For the others, none that describes it for tools was found.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct, field

from .coding_agents import CODING_AGENTS


class RetryRules(Struct, frozen=True, kw_only=True):
    """A provider's rules for retries: the conditions, and the delays.

    Args:
        statuses: The HTTP statuses after which a request is sent again; None for 408, 409, 429 and everything
            from 500.
        first_delay_seconds: Seconds before the first retry; each further delay is twice as long.
        max_delay_seconds: The longest of these delays, in seconds.
        jitter_share: The share of a delay that random jitter may subtract.
        jitter_seconds: The seconds that random jitter may add to a delay.
        max_server_delay_seconds: The longest delay that the server may ask for, in seconds.
        server_jitter_share: The share of a server's delay that random jitter may add to it, so that refused
            requests do not all return at once. Nothing is subtracted: the server would refuse again.
        gives_up_beyond: Whether there is no retry when a server asks for a longer delay; otherwise there is
            one after the usual delay.
    """

    statuses: frozenset[int] | None = None
    first_delay_seconds: float = 0.5
    max_delay_seconds: float = 8.0
    jitter_share: float = 0.25
    jitter_seconds: float = 0.0
    max_server_delay_seconds: float = 120.0
    server_jitter_share: float = 0.25
    gives_up_beyond: bool = True


class UrlPart(Struct, frozen=True, kw_only=True):
    """A part of a base URL that the environment gives.

    Args:
        variables: The environment variables that hold it; the first one that is set counts.
        default: Its value when none is set; empty when one must be.
        form: The text that is put into the URL; `{}` stands for the value.
        special: The text for some values.
        surplus: The end of the value that is left out.
    """

    variables: tuple[str, ...]
    default: str = ""
    form: str = "{}"
    special: Mapping[str, str] = field(default_factory=dict[str, str])
    surplus: str = ""

    def text(self, environment: Mapping[str, str]) -> str:
        """The text for the URL; empty when no variable is set.

        Args:
            environment: Environment variables.
        """
        values = [environment.get(variable, "").strip() for variable in self.variables]
        value = next(filter(None, values), self.default).rstrip("/").removesuffix(self.surplus)
        return self.special.get(value, self.form.format(value)) if value else ""


class ProviderFacts(Struct, frozen=True, kw_only=True):
    """One provider.

    Args:
        protocol: The name of the wire codec.
        base_url: The base URL of its endpoint, unless settings or the environment name another. Names in
            braces stand for parts of it.
        base_url_variable: The environment variable that names another; empty for none.
        key_variables: The environment variables that hold the API key; the first one that is set counts.
        url_parts: The parts of the base URL.
        credentials: The function of `nh.credentials` that authenticates requests without a key; empty for
            none.
        credential_arguments: Its arguments.
        is_preset: Whether it speaks a protocol of another provider, and may have settings of its own.
        models_of: The provider whose table describes its models, prices apart; empty for a table of its own.
        source: The source of the facts.
        tokenizers: The library that has the tokenizers of its models; empty for none.
        has_batches: Whether its batch endpoint is that of its protocol.
        has_files: Whether its endpoint for files is that of its protocol.
        schema_rules: The module in `wire` with the rules of the endpoint for JSON Schemas; empty
            for none.
        strict_places: The places of schemas that the endpoint enforces, when they are in the strict subset
            and the rules of the model are known.
        key_header: The header that carries the key, in lower case.
        key_prefix: The text before the key in that header.
        is_key_required: Whether requests to a base URL beyond this machine need a key.
        version_path: The addition to a base URL whose path does not end in a version, such as `/v1`. Some
            SDKs write their base URLs without one.
        header_variables: Headers that are sent when an environment variable holds their value.
        retry_rules: The rules of retries.
        idempotency_header: The header in which the provider takes a key that is the same for all attempts at
            a request. None of the providers below documents one for requests to models, and their SDKs send
            none.
    """

    protocol: str
    base_url: str
    base_url_variable: str
    key_variables: tuple[str, ...]
    schema_rules: str = ""
    strict_places: frozenset[Literal["tool", "response"]] = frozenset()
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    is_key_required: bool = True
    version_path: str = ""
    header_variables: Mapping[str, str] = field(default_factory=dict[str, str])
    retry_rules: RetryRules = RetryRules()
    idempotency_header: str | None = None
    url_parts: Mapping[str, UrlPart] = field(default_factory=dict[str, UrlPart])
    credentials: Literal["", "aws", "azure", "google"] = ""
    credential_arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    is_preset: bool = False
    models_of: str = ""
    source: str = ""
    tokenizers: Literal["", "tiktoken"] = ""
    has_batches: bool = False
    has_files: bool = False

    def own_base_url(self, environment: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        """The base URL, and the environment variables that are missing in it, one for each part.

        Args:
            environment: Environment variables.
        """
        parts = {name: part.text(environment) for name, part in self.url_parts.items()}
        missing = [part.variables[0] for name, part in self.url_parts.items() if not parts[name]]
        filled = {name: text or "unset" for name, text in parts.items()}
        return self.base_url.format_map(filled), tuple(dict.fromkeys(missing))

    @property
    def key_variable(self) -> str:
        """The environment variable to name when there is no key; empty when a key cannot be set so."""
        return self.key_variables[-1] if self.key_variables else ""


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
    "vertex-anthropic": ProviderFacts(
        protocol=_MESSAGES,
        base_url=f"{_VERTEX_URL}/publishers/anthropic/models",
        base_url_variable="",
        key_variables=(),
        url_parts=_VERTEX_PARTS,
        schema_rules="anthropic.schema",
        credentials="google",
        is_preset=True,
        models_of="anthropic",
        source="anthropic 2.14.0, lib/vertex/_client.py (rawPredict and streamRawPredict)",
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

_SNOWFLAKE_SOURCE = "docs.snowflake.com/en/user-guide/snowflake-cortex/cortex-rest-api"
_SNOWFLAKE_URL = "https://{account}.snowflakecomputing.com/api/v2/cortex/v1"
_SNOWFLAKE_PARTS = MappingProxyType({"account": UrlPart(variables=("SNOWFLAKE_ACCOUNT",))})


def _snowflake(protocol: str) -> ProviderFacts:
    return _preset(
        protocol,
        _SNOWFLAKE_URL,
        "SNOWFLAKE_TOKEN",
        url_parts=_SNOWFLAKE_PARTS,
        source=_SNOWFLAKE_SOURCE,
    )


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
    "snowflake": _snowflake(_CHAT),
    "snowflake-anthropic": _snowflake(_MESSAGES),
    "mistral-responses": _preset(
        _RESPONSES,
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        source="docs.mistral.ai/inference/conversations (stateless: each request has the whole history)",
    ),
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
    "deepseek-responses": _preset(
        _RESPONSES,
        "https://api.deepseek.com",
        "DEEPSEEK_API_KEY",
        source="answers of the endpoint that others recorded; its reasoning goes back with them by itself",
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


ACCOUNT_HEADERS = frozenset(
    {
        "api-key",  # Azure
        "apikey",
        "authorization",
        "cf-aig-authorization",  # Cloudflare's gateway
        "helicone-auth",
        "ocp-apim-subscription-key",  # Azure's gateway
        "openai-organization",
        "openai-project",
        "proxy-authorization",
        "x-api-key",
        "x-auth-token",
        "x-goog-api-key",
        "x-portkey-api-key",
        "x-portkey-virtual-key",
    }
)
"""Headers that determine whose rate limits a request counts against, in lower case.

Listed one by one: a header that merely looks like a credential, such as `idempotency-key`, may differ for
each request, and no two requests would share a limit.
"""


def _openai(protocol: str) -> ProviderFacts:
    return ProviderFacts(
        protocol=protocol,
        strict_places=frozenset({"tool", "response"}),
        base_url="https://api.openai.com/v1",
        base_url_variable="OPENAI_BASE_URL",
        key_variables=("OPENAI_API_KEY",),
        tokenizers="tiktoken",
        has_batches=True,
        has_files=True,
        header_variables=MappingProxyType(
            {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
        ),
    )


PROVIDERS: Mapping[str, ProviderFacts] = MappingProxyType(
    {
        "openai-chat": _openai("openai-chat"),
        "openai-responses": _openai("openai-responses"),
        "anthropic": ProviderFacts(
            protocol="anthropic",
            base_url="https://api.anthropic.com/v1",
            base_url_variable="ANTHROPIC_BASE_URL",
            key_variables=("ANTHROPIC_API_KEY",),
            has_batches=True,
            has_files=True,
            schema_rules="anthropic.schema",
            key_header="x-api-key",
            key_prefix="",
            version_path="/v1",
            # Its SDK obeys any delay that the server asks for. Beyond two minutes an error is more useful.
            retry_rules=RetryRules(max_server_delay_seconds=120.0, gives_up_beyond=True),
        ),
        "google": ProviderFacts(
            protocol="google",
            base_url="https://generativelanguage.googleapis.com/v1beta",
            base_url_variable="GOOGLE_GEMINI_BASE_URL",
            key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            has_batches=True,
            has_files=True,
            key_header="x-goog-api-key",
            key_prefix="",
            version_path="/v1beta",
            # Its SDK ignores a delay that the server asks for; obeying it leads to fewer refused requests.
            retry_rules=RetryRules(
                statuses=frozenset({408, 429, 500, 502, 503, 504}),
                first_delay_seconds=1.0,
                max_delay_seconds=60.0,
                jitter_share=0.0,
                jitter_seconds=1.0,
                max_server_delay_seconds=60.0,
                gives_up_beyond=False,
            ),
        ),
        **PRESETS,
    }
)
"""The providers by name, the first part of a model id."""


def providers_in_words() -> str:
    """The known providers, as a part of an error's message; presets are left to the command line."""
    own = (name for name, facts in PROVIDERS.items() if not facts.is_preset)
    names = sorted([*own, *CODING_AGENTS, "local"])
    return f"known are {', '.join(names)}, and the presets that nighthawk-async models list shows"
