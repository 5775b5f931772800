"""From a model id to a model: the provider, its endpoint, its key, the model's capabilities."""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import SplitResult, parse_qsl

from ..catalog.coding_agents import CODING_AGENTS
from ..catalog.endpoint_rules import find_endpoint_rules
from ..catalog.models import find_model_facts, find_schema_rules
from ..catalog.providers import PROVIDERS, ProviderFacts, providers_in_words
from ..configuration import ModelId, parse_model_id
from ..errors import ConfigurationError, MissingCredentialError, UnknownModelError
from ..kernel.environment import needs_endpoint
from ..ports import Model
from ..suggestions import did_you_mean
from ..types.endpoint_rules import EndpointRules
from ..types.model import Credentials
from ..wire.codec import Codec
from ..wire.redaction import is_secret_name
from ..wire.transport_settings import check_setting_names, checked_settings
from .debug_log import show_log
from .default_credentials import default_credentials, is_available
from .endpoint import Endpoint, check_header, is_loopback, parse_base_url, with_version
from .exchange import PoolSource
from .http_model import HttpModel
from .http_pool import pacer_of_run, pool_of_run
from .pacing import PacerSource
from .pricing import CurrentPrice
from .protocols import create_codec
from .time_limits import TransportSettings, overridden_capabilities

_LOCAL = "local"


def create_model(
    model_id: str,
    *,
    settings: Mapping[str, Any] = MappingProxyType({}),
    environment: Mapping[str, str] | None = None,
    pool_source: PoolSource = pool_of_run,
    pacer_source: PacerSource = pacer_of_run,
    rules: EndpointRules | None = None,
) -> Model:
    """The model of that id. Nothing is sent.

    Args:
        model_id: `provider:model`.
        settings: Settings of the model; `base_url` and `api_key` among them take precedence over the
            environment.
        environment: Environment variables; None for the process's own.
        pool_source: Provides the connection pool for a request.
        pacer_source: Provides the pacer for a request.
        rules: The rules of the endpoint for requests; None for those of the table.

    Raises:
        UnknownModelError: The id is malformed, no such provider is known, or it serves the model through
            another protocol alone.
        MissingCredentialError: The provider's key is not set; without it, answers can only be replayed.
        ConfigurationError: A setting has a bad value.
    """
    known_environment = os.environ if environment is None else environment
    show_log(known_environment)
    parsed = parse_model_id(model_id)
    if parsed.provider == _LOCAL:
        from .local import create_local_model

        return create_local_model(parsed.name, settings=settings, pool_source=pool_source)
    facts = _provider_facts(parsed)
    transport = TransportSettings.from_settings(settings)
    base_url = _base_url(parsed, facts, transport, known_environment)
    _check_way(parsed, facts, base_url, transport)
    if rules is None:
        rules = _find_rules(parsed, facts, base_url, transport)
    model_facts = find_model_facts(model_id, rules)
    codec = create_codec(facts.protocol, rules)
    price = CurrentPrice(base_url, parsed.name, model_facts.capabilities.price)
    check_setting_names(settings, codec.settings_form, may_have_others=not _is_own_endpoint(facts, base_url))
    checked_settings(settings, codec.settings_form)
    if transport.upload_media_above_bytes is not None:
        from .uploads import file_endpoint  # here, because few models have large media

        file_endpoint(model_id)  # refuses a provider without one
    endpoint, credentials = _endpoint(parsed, facts, base_url, transport, known_environment)
    return HttpModel(
        codec=codec,
        endpoint=endpoint,
        model_name=parsed.name,
        capabilities=overridden_capabilities(model_facts.capabilities, transport.capabilities),
        settings=_known_settings(model_id, codec)
        | dict(settings)
        | ({} if credentials is None else {"credentials": credentials}),
        setting_names={**rules.setting_names, **model_facts.setting_names},
        retry_rules=facts.retry_rules,
        idempotency_header=facts.idempotency_header,
        pool_source=pool_source,
        pacer_source=pacer_source,
        price_source=None if "price" in transport.capabilities else price.load,
    )


def _find_rules(
    model_id: ModelId, facts: ProviderFacts, base_url: SplitResult, settings: TransportSettings
) -> EndpointRules:
    """The rules of the endpoint, or those of the provider that the settings name.

    Raises:
        ConfigurationError: The settings name a provider that is not known, or of another protocol.
    """
    named = settings.endpoint_rules
    if named is None:
        is_own = facts.is_preset or _is_own_endpoint(facts, base_url)
        host = base_url.hostname
        return find_endpoint_rules(model_id.provider, protocol=facts.protocol, host=host, is_own=is_own)
    fitting = [name for name, each in PROVIDERS.items() if each.protocol == facts.protocol]
    if named not in fitting:
        raise ConfigurationError(
            f"{model_id}: the model setting 'endpoint_rules' is {named!r}; it names a provider with the same "
            f"protocol, one of {', '.join(sorted(fitting))}.{did_you_mean(named, fitting)}"
        )
    return find_endpoint_rules(named, protocol=facts.protocol, host=None, is_own=True)


def _known_settings(model_id: str, codec: Codec) -> dict[str, Any]:
    """The settings that follow from the catalog's facts about a model; those of users take precedence."""
    can_be_set = "strict_tools" in codec.settings_form.__optional_keys__
    is_enforced = "tool" in find_schema_rules(model_id).strict_places
    return {"strict_tools": True} if can_be_set and is_enforced else {}


def _provider_facts(model_id: ModelId) -> ProviderFacts:
    facts = PROVIDERS.get(model_id.provider)
    if facts is None:
        raise UnknownModelError(
            f"No provider is called {model_id.provider!r} (in {str(model_id)!r}); {providers_in_words()}."
            f"{_meant_model(model_id)}"
        )
    return facts


_PROVIDERS_OF_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("gpt", "chatgpt", "open-ai", "oai"), ("openai-responses", "openai-chat")),
        **dict.fromkeys(("gemini", "google-genai", "google_genai", "genai", "google-gla"), ("google",)),
        **dict.fromkeys(("vertexai", "vertex-ai", "google-vertex", "google_vertexai"), ("vertex",)),
        **dict.fromkeys(("aws", "amazon", "amazon-bedrock"), ("bedrock",)),
        **dict.fromkeys(("azure-openai", "azure_openai", "azureai"), ("azure",)),
        "claude": ("anthropic",),
        "grok": ("xai",),
    }
)
"""Our providers of the names that others use."""


def _meant_model(model_id: ModelId) -> str:
    """Return ` Did you mean …?` for a model id with an unknown provider; nothing if none is close."""
    name = model_id.provider.lower()
    known = [*PROVIDERS, *CODING_AGENTS, _LOCAL]
    meant = [name] if name in known else list(_PROVIDERS_OF_NAMES.get(name, ()))
    if not meant:
        meant = sorted((each for each in known if each.startswith(f"{name}-")), reverse=True)
    if meant:
        ids = [repr(f"{each}:{model_id.name}") for each in meant]
        return f" Did you mean {' or '.join(ids)}?"
    return did_you_mean(name, known)


def _check_way(
    model_id: ModelId, facts: ProviderFacts, base_url: SplitResult, settings: TransportSettings
) -> None:
    """Refuse a model that the provider serves only through another protocol.

    Other endpoints may serve anything, and a user who sets the capabilities of the model knows better.
    """
    other = find_model_facts(str(model_id)).only_through
    if other and _is_own_endpoint(facts, base_url) and not settings.capabilities:
        raise UnknownModelError(
            f"{model_id}: the provider serves this model through another protocol only; use "
            f"{other}:{model_id.name}. If that has changed, say what the model can do with the model setting "
            "capabilities, for example capabilities={'tools': True}."
        )


def _is_own_endpoint(facts: ProviderFacts, base_url: SplitResult) -> bool:
    """Whether a URL is that of the provider, not of another server with its protocol."""
    return not facts.is_preset and base_url.hostname == parse_base_url(facts.base_url).hostname


def _base_url(
    model_id: ModelId, facts: ProviderFacts, settings: TransportSettings, environment: Mapping[str, str]
) -> SplitResult:
    text = settings.base_url or environment.get(facts.base_url_variable, "").strip()
    if not text:
        text, missing = facts.own_base_url(environment)
        if missing and needs_endpoint():
            raise ConfigurationError(
                f"{model_id} needs a base URL: set the environment variable {' and '.join(missing)}, or the "
                "model setting base_url."
            )
        text = text if "://" in text else f"https://{text}"
    return with_version(parse_base_url(text), facts.version_path)


def _endpoint(
    model_id: ModelId,
    facts: ProviderFacts,
    base_url: SplitResult,
    settings: TransportSettings,
    environment: Mapping[str, str],
) -> tuple[Endpoint, Credentials | None]:
    """The endpoint with the key, and the credentials where there is none."""
    headers = _headers_from(environment, facts)
    credentials: Credentials | None = settings.credentials
    own_key = settings.api_key.get_secret_value().strip() if settings.api_key else ""
    if own_key and credentials is not None:
        raise ConfigurationError(
            f"{model_id} has both of the model settings api_key and credentials; leave one out."
        )
    if credentials is None:
        if key := own_key or _key_from(environment, facts):
            headers[facts.key_header] = facts.key_prefix + key
        elif _is_key_missing(base_url, facts, settings):
            credentials = _credentials_for(model_id, facts)
    for name, value in headers.items():
        check_header(name, value)
    return Endpoint(model_id=str(model_id), base_url=base_url, headers=headers), credentials


def _credentials_for(model_id: ModelId, facts: ProviderFacts) -> Credentials:
    """The credentials of a provider whose key is not set.

    Raises:
        MissingCredentialError: It has none, or their extra is not installed.
    """
    if facts.credentials and is_available(facts):
        return default_credentials(facts)
    way = f"the environment variable {facts.key_variable} or " if facts.key_variable else ""
    message = f"{model_id} needs an API key: set {way}the model setting api_key"
    if facts.credentials:
        message += f", or install the extra {facts.credentials!r} for nh.credentials.{facts.credentials}()"
    raise MissingCredentialError(f"{message}.")


def _headers_from(environment: Mapping[str, str], facts: ProviderFacts) -> dict[str, str]:
    found = {name: environment.get(variable, "").strip() for name, variable in facts.header_variables.items()}
    return {name: value for name, value in found.items() if value}


def _key_from(environment: Mapping[str, str], facts: ProviderFacts) -> str:
    keys = [environment.get(variable, "").strip() for variable in facts.key_variables]
    return next(filter(None, keys), "")


def _is_key_missing(base_url: SplitResult, facts: ProviderFacts, settings: TransportSettings) -> bool:
    if not facts.is_key_required or is_loopback(base_url.hostname) or _brings_key(base_url, settings):
        return False
    return needs_endpoint()  # nothing is sent while all answers are replayed


def _brings_key(base_url: SplitResult, settings: TransportSettings) -> bool:
    """Whether a header set by the user or the query of the base URL carries a credential.

    Azure calls its header `api-key`, and gateways have names of their own.
    """
    query_names = [name for name, _ in parse_qsl(base_url.query)]
    return any(is_secret_name(name) for name in (*settings.extra_headers, *query_names))
