"""Attributes of spans and metrics for a model, a request and its usage, without content. Pure."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable
from urllib.parse import SplitResult

from ..catalog.telemetry_names import PROVIDERS, Names
from ..errors import ConfigurationError
from ..ports import HasSettings, Model
from ..runtime.request_bound import find_output_limit
from ..types.usage import Usage

__all__ = [
    "AttributeItem",
    "Attributes",
    "HasEndpoint",
    "SomeEndpoint",
    "error_attributes",
    "find_endpoint",
    "find_settings",
    "model_attributes",
    "settings_attributes",
    "usage_attributes",
]

AttributeItem: TypeAlias = str | bool | int | float | Sequence[str]
Attributes: TypeAlias = dict[str, AttributeItem]

_PORTS = {"http": 80, "https": 443}


class SomeEndpoint(Protocol):
    """The endpoint of a request."""

    @property
    def base_url(self) -> SplitResult:
        """The URL below which the protocol's paths lie."""
        ...

    def secrets(self) -> tuple[str, ...]:
        """The texts that must appear nowhere."""
        ...


@runtime_checkable
class HasEndpoint(Protocol):
    """A model with an endpoint, beside `ports.Model`."""

    def endpoint_of(self, settings: Mapping[str, Any]) -> SomeEndpoint:
        """Return the endpoint of a request with these settings.

        Raises:
            ConfigurationError: A setting is bad.
        """
        ...


def find_settings(model: Model | None, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that a request is sent with, as far as its model tells; see `HasSettings`.

    What stands in `extra_body` has the last word, as it has in what is sent.

    Args:
        model: The model; None for an agent of the user's own.
        settings: The settings of the request.
    """
    with suppress(ConfigurationError):  # which sending the request raises as well
        settings = model.settings_of(settings) if isinstance(model, HasSettings) else settings
    extra: object = settings.get("extra_body")
    return {**settings, **cast("Mapping[str, Any]", extra)} if isinstance(extra, Mapping) else settings


def find_endpoint(model: Model | None, settings: Mapping[str, Any]) -> SomeEndpoint | None:
    """Return the endpoint of a request; None when it is unknown, or a setting is bad and nothing is sent.

    Args:
        model: The model; None for an agent of the user's own.
        settings: The settings of the request.
    """
    try:
        return model.endpoint_of(settings) if isinstance(model, HasEndpoint) else None
    except ConfigurationError:  # which sending the request raises as well
        return None


def model_attributes(names: Names, model_id: str, endpoint: SomeEndpoint | None) -> Attributes:
    """Return the attributes known of a model before its request, by which samplers may decide.

    Args:
        names: The names to use.
        model_id: The model's id, `provider:name`.
        endpoint: Where the request goes, if that is known.
    """
    prefix, separator, name = model_id.partition(":")
    attributes: Attributes = {
        names.provider: PROVIDERS.get(prefix, prefix),
        names.request_model: name if separator else model_id,
    }
    if endpoint is not None and endpoint.base_url.hostname:
        url = endpoint.base_url
        attributes[names.server_address] = str(url.hostname)
        attributes[names.server_port] = url.port or _PORTS[url.scheme]
    return attributes


def settings_attributes(names: Names, settings: Mapping[str, Any]) -> Attributes:
    """Return the attributes of a request's settings. A setting of a wrong type is left out.

    Args:
        names: The names to use.
        settings: What `find_settings` gave.
    """
    attributes: Attributes = {}
    for setting, name in names.request_numbers:
        if (number := _number(settings.get(setting))) is not None:
            attributes[name] = float(number)
    for setting, name in names.request_integers:
        if (number := _number(settings.get(setting))) is not None:
            attributes[name] = int(number)
    if limit := find_output_limit(settings):
        attributes[names.request_max_tokens] = limit
    stop: object = settings.get("stop")
    texts = [stop] if isinstance(stop, str) else stop
    if isinstance(texts, list | tuple) and texts:
        attributes[names.request_stop] = [str(text) for text in cast("Sequence[object]", texts)]
    effort = settings.get("reasoning_effort")
    if names.request_reasoning is not None and isinstance(effort, str):
        attributes[names.request_reasoning] = effort
    return attributes


def error_attributes(names: Names, error_type: str | None) -> Attributes:
    """Return the attributes of an end.

    Args:
        names: The names to use.
        error_type: The class of the error that ended it; None when all went well.
    """
    return {} if error_type is None else {names.error_type: error_type}


def usage_attributes(names: Names, usage: Usage | None) -> dict[str, int]:
    """Return the attributes of usage; none when it is unknown. Unused kinds, such as caches, are left out.

    Args:
        names: The names to use.
        usage: The usage, if any was told.
    """
    if usage is None or not (usage.is_complete or usage.input_tokens or usage.output_tokens):
        return {}
    attributes = {names.input_tokens: usage.input_tokens, names.output_tokens: usage.output_tokens}
    parts = (
        (names.cache_read_tokens, usage.cache_read_tokens),
        (names.cache_write_tokens, usage.cache_write_tokens),
        (names.reasoning_tokens, usage.reasoning_tokens),
    )
    attributes.update((name, tokens) for name, tokens in parts if tokens)
    return attributes


def _number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None
