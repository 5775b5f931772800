"""Facts about providers: where they are, how they are spoken to, where their key comes from. Floor 1.

A row says nothing about whether this version speaks the protocol; `models.providers` knows that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["PROVIDERS", "ProviderFacts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFacts:
    """One provider.

    Args:
        protocol: The name of the wire codec.
        base_url: The base URL of its endpoint, unless settings or the environment name another.
        base_url_variable: The environment variable that names another.
        key_variable: The environment variable that holds the API key.
        key_header: The header that carries the key, in lower case.
        key_prefix: What stands before the key in that header.
        is_key_required: Whether requests to a base URL beyond this machine need a key.
    """

    protocol: str
    base_url: str
    base_url_variable: str
    key_variable: str
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    is_key_required: bool = True


PROVIDERS: Mapping[str, ProviderFacts] = MappingProxyType(
    {
        "openai-chat": ProviderFacts(
            protocol="openai-chat",
            base_url="https://api.openai.com/v1",
            base_url_variable="OPENAI_BASE_URL",
            key_variable="OPENAI_API_KEY",
        ),
        "openai-responses": ProviderFacts(
            protocol="openai-responses",
            base_url="https://api.openai.com/v1",
            base_url_variable="OPENAI_BASE_URL",
            key_variable="OPENAI_API_KEY",
        ),
        "anthropic": ProviderFacts(
            protocol="anthropic",
            base_url="https://api.anthropic.com/v1",
            base_url_variable="ANTHROPIC_BASE_URL",
            key_variable="ANTHROPIC_API_KEY",
            key_header="x-api-key",
            key_prefix="",
        ),
        "google": ProviderFacts(
            protocol="google",
            base_url="https://generativelanguage.googleapis.com/v1beta",
            base_url_variable="GOOGLE_GEMINI_BASE_URL",
            key_variable="GEMINI_API_KEY",
            key_header="x-goog-api-key",
            key_prefix="",
        ),
    }
)
"""The providers by name, the first part of a model id."""
