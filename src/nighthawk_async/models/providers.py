"""From a model id to a model: the provider, its endpoint, its key, what the model can do. Floor 4."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from ..catalog.models import MODELS, UNKNOWN_MODEL, ModelFacts
from ..catalog.providers import PROVIDERS, ProviderFacts
from ..configuration import ModelId, parse_model_id
from ..errors import MissingCredentialError, UnknownModelError
from ..ports import Model
from ..wire.codec import Codec
from ..wire.openai_chat import OpenAIChatCodec
from .capability_settings import overridden_capabilities
from .endpoint import Endpoint, check_header, parse_base_url
from .http_model import HttpModel
from .http_proxy import is_loopback
from .http_stream import PoolSource
from .run_pool import pool_of_run
from .settings import TransportSettings

__all__ = ["create_model"]

_CODECS: Mapping[str, Callable[[], Codec]] = MappingProxyType({"openai-chat": OpenAIChatCodec})
"""The protocols this version speaks."""

_LOCAL = "local"


def create_model(
    model_id: str,
    *,
    settings: Mapping[str, Any] = MappingProxyType({}),
    environment: Mapping[str, str] | None = None,
    pool_source: PoolSource = pool_of_run,
) -> Model:
    """The model of that id. Nothing is sent.

    Args:
        model_id: `provider:model`.
        settings: Settings of the model; `base_url` and `api_key` among them go before the environment.
        environment: Environment variables; None for the process's own.
        pool_source: Gives the connection pool for a request.

    Raises:
        UnknownModelError: The id is malformed, or no such provider is known or spoken by this version.
        MissingCredentialError: The provider's key is not set.
        ConfigurationError: A setting has a bad value.
    """
    parsed = parse_model_id(model_id)
    if parsed.provider == _LOCAL:
        from .local import create_local_model

        return create_local_model(parsed.name, settings=settings, pool_source=pool_source)
    facts = _provider_facts(parsed)
    transport = TransportSettings.from_settings(settings)
    model_facts = _model_facts(parsed)
    endpoint = _endpoint(parsed, facts, transport, os.environ if environment is None else environment)
    return HttpModel(
        codec=_CODECS[facts.protocol](),
        endpoint=endpoint,
        model_name=parsed.name,
        capabilities=overridden_capabilities(model_facts.capabilities, transport.capabilities),
        settings=settings,
        setting_names=model_facts.setting_names,
        pool_source=pool_source,
    )


def _provider_facts(model_id: ModelId) -> ProviderFacts:
    facts = PROVIDERS.get(model_id.provider)
    spoken = sorted([name for name, each in PROVIDERS.items() if each.protocol in _CODECS] + [_LOCAL])
    if facts is None:
        raise UnknownModelError(
            f"No provider is called {model_id.provider!r} (in {str(model_id)!r});"
            f" known are {', '.join(spoken)}."
        )
    if facts.protocol not in _CODECS:
        raise UnknownModelError(
            f"This version cannot speak to {model_id.provider!r} yet (in {str(model_id)!r})."
            " The provider 'openai-chat' reaches every endpoint compatible with OpenAI Chat Completions,"
            " through the setting base_url or the environment variable OPENAI_BASE_URL."
        )
    return facts


def _model_facts(model_id: ModelId) -> ModelFacts:
    name = str(model_id)
    return next((facts for facts in MODELS if fnmatchcase(name, facts.pattern)), UNKNOWN_MODEL)


def _endpoint(
    model_id: ModelId, facts: ProviderFacts, settings: TransportSettings, environment: Mapping[str, str]
) -> Endpoint:
    base_url = settings.base_url or environment.get(facts.base_url_variable, "").strip() or facts.base_url
    endpoint = Endpoint(model_id=str(model_id), base_url=parse_base_url(base_url), headers={})
    key = settings.api_key.get_secret_value() if settings.api_key else environment.get(facts.key_variable, "")
    key = key.strip()
    if key:
        check_header(facts.key_header, facts.key_prefix + key)
        return replace(endpoint, headers={facts.key_header: facts.key_prefix + key})
    brings_own = facts.key_header in {name.lower() for name in settings.extra_headers}
    if facts.is_key_required and not brings_own and not is_loopback(endpoint.base_url.hostname):
        raise MissingCredentialError(
            f"{model_id} needs an API key: set the environment variable {facts.key_variable}"
            " or the model setting api_key."
        )
    return endpoint
