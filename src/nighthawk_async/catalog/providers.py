"""Facts about providers: their URLs, their protocols, and the sources of their keys.

Source: the official SDKs (`openai`, `anthropic`, `google-genai`), read in November 2026: their base URLs,
environment variables, headers and retry rules.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct, field

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


class ProviderFacts(Struct, frozen=True, kw_only=True):
    """One provider.

    Args:
        protocol: The name of the wire codec.
        base_url: The base URL of its endpoint, unless settings or the environment name another.
        base_url_variable: The environment variable that names another.
        key_variables: The environment variables that hold the API key; the first one that is set counts.
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

    @property
    def key_variable(self) -> str:
        """The environment variable to name when there is no key."""
        return self.key_variables[-1]


def _openai(protocol: str, *strict_places: Literal["tool", "response"]) -> ProviderFacts:
    return ProviderFacts(
        protocol=protocol,
        strict_places=frozenset(strict_places),
        base_url="https://api.openai.com/v1",
        base_url_variable="OPENAI_BASE_URL",
        key_variables=("OPENAI_API_KEY",),
        header_variables=MappingProxyType(
            {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
        ),
    )


PROVIDERS: Mapping[str, ProviderFacts] = MappingProxyType(
    {
        "openai-chat": _openai("openai-chat", "response"),
        "openai-responses": _openai("openai-responses", "tool", "response"),
        "anthropic": ProviderFacts(
            protocol="anthropic",
            base_url="https://api.anthropic.com/v1",
            base_url_variable="ANTHROPIC_BASE_URL",
            key_variables=("ANTHROPIC_API_KEY",),
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
    }
)
"""The providers by name, the first part of a model id."""
