"""The endpoint of a provider, and the presence of a key for it. Pure."""

from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qsl

from ..catalog.providers import ProviderFacts
from ..models.endpoint import is_loopback, parse_base_url, with_version
from ..models.time_limits import TransportSettings
from ..wire.redaction import is_secret_name


def active_base_url(
    provider: ProviderFacts, transport: TransportSettings, environment: Mapping[str, str]
) -> tuple[SplitResult, str]:
    """Return the address of a provider's requests, and the setting that gives it.

    Args:
        provider: The provider.
        transport: The model settings of the transport.
        environment: Environment variables.

    Raises:
        ConfigurationError: It is no URL.
    """
    variable = environment.get(provider.base_url_variable, "").strip()
    if transport.base_url:
        text, origin = transport.base_url, "the setting base_url"
    elif variable:
        text, origin = variable, f"the variable {provider.base_url_variable}"
    else:
        text, origin = provider.base_url, "the provider's own"
    return with_version(parse_base_url(text), provider.version_path), origin


def active_key(
    provider: ProviderFacts,
    transport: TransportSettings,
    environment: Mapping[str, str],
    base_url: SplitResult,
) -> tuple[bool, str]:
    """Whether requests carry a key, and its source or the way to set it.

    Args:
        provider: The provider.
        transport: The model settings that steer the transport.
        environment: Environment variables.
        base_url: The address of requests.
    """
    if transport.api_key is not None and transport.api_key.get_secret_value().strip():
        return True, "set (the setting api_key)"
    for variable in provider.key_variables:
        if environment.get(variable, "").strip():
            return True, f"set (the variable {variable})"
    query_names = [name for name, _ in parse_qsl(base_url.query)]
    for name in (*transport.extra_headers, *query_names):
        if is_secret_name(name):
            return True, f"set ({name})"
    if is_loopback(base_url.hostname):
        return False, "not set; a server on this machine needs none"
    return False, f"not set; set the variable {' or '.join(provider.key_variables)}, or the setting api_key"


def active_headers(
    provider: ProviderFacts, transport: TransportSettings, environment: Mapping[str, str]
) -> dict[str, str]:
    """The headers of a provider's requests that identify the caller, credentials included.

    Args:
        provider: The provider.
        transport: The model settings that steer the transport.
        environment: Environment variables.
    """
    keys = [environment.get(variable, "").strip() for variable in provider.key_variables]
    if transport.api_key is not None:
        keys.insert(0, transport.api_key.get_secret_value().strip())
    key = next(filter(None, keys), "")
    own = {name.strip().lower(): value for name, value in transport.extra_headers.items()}
    return {**({provider.key_header: provider.key_prefix + key} if key else {}), **own}


def shown_url(url: SplitResult) -> str:
    """A URL without its query, which may hold a credential.

    Args:
        url: The URL.
    """
    return url._replace(query="…" if url.query else "").geturl()
