"""Facts about providers: their URLs, their protocols, and the sources of their keys.

Source: the official SDKs (`openai`, `anthropic`, `google-genai`), read in November 2026: their base URLs,
environment variables, headers and retry rules. The other providers that speak their protocols are in
`presets`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from .coding_agents import CODING_AGENTS
from .presets import PRESETS
from .provider_facts import ProviderFacts, RetryRules

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
