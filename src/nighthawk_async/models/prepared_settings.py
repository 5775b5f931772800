"""The settings of requests to a model, checked and ready for use, and a request as it is to be sent."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from ..catalog.providers import RetryRules
from ..wire.codec import Codec, EncodedRequest
from ..wire.redaction import find_secrets
from .endpoint import Endpoint, check_header
from .fitting import response_tokens
from .pacing import Demand, PacingLimits
from .time_limits import TransportSettings


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PreparedSettings:
    """The effective settings of a request to a model.

    Args:
        merged: All settings.
        endpoint: The endpoint of requests, with the headers that the settings add.
        transport: The transport of requests.
        for_codec: All settings, under the endpoint's names.
        pacing_limits: The limits of the settings.
        pacing_key: Identifies the endpoint and its credentials.
        response_tokens: The tokens that a response may hold; 0 when the settings do not limit them.
        idempotency_header: The header that carries the key of a request.
    """

    merged: Mapping[str, Any]
    endpoint: Endpoint
    transport: TransportSettings
    for_codec: Mapping[str, Any]
    pacing_limits: PacingLimits
    pacing_key: Hashable
    response_tokens: int
    idempotency_header: str | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HttpRequestPlan:
    """One request: its content, its endpoint and its rules.

    Args:
        endpoint: The endpoint of the request.
        codec: Speaks the endpoint's protocol.
        encoded: The encoded request.
        settings: Time limits and retries.
        retry_rules: The provider's rules of retries.
        demand: The demand on the limits.
        pacing_key: Tells the requests that share limits from others.
    """

    endpoint: Endpoint
    codec: Codec
    encoded: EncodedRequest
    settings: TransportSettings
    retry_rules: RetryRules
    demand: Demand
    pacing_key: Hashable


class SettingsMemory:
    """Prepares settings, and caches the last ones.

    Args:
        endpoint: The address of requests.
        settings: Settings of every request; those of a request itself take precedence.
        setting_names: The endpoint's names of settings, by the names that others use.
        idempotency_header: The header in which the provider takes a key, when it has one.
    """

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        settings: Mapping[str, Any],
        setting_names: Mapping[str, str],
        idempotency_header: str | None,
    ) -> None:
        self._endpoint = endpoint
        self._settings = dict(settings)
        self._setting_names = setting_names
        self._idempotency_header = idempotency_header
        self._last: tuple[Mapping[str, Any], dict[str, Any], PreparedSettings] | None = None

    def prepare(self, settings: Mapping[str, Any]) -> PreparedSettings:
        """The settings of a request, ready for use.

        Args:
            settings: The request's own settings.

        Raises:
            ConfigurationError: One of them has a bad value.
        """
        if self._last is not None:
            source, copy, prepared = self._last
            if settings is source and settings == copy:  # the same object may hold other values by now
                return prepared
        prepared = self._prepare({**self._settings, **settings})
        self._last = (settings, _copy(settings), prepared)
        return prepared

    def _prepare(self, settings: dict[str, Any]) -> PreparedSettings:
        transport = TransportSettings.from_settings(settings)
        endpoint = self._endpoint.with_headers(transport.extra_headers).with_secrets(find_secrets(settings))
        idempotency_header = transport.idempotency_header or self._idempotency_header
        if idempotency_header is not None:
            check_header(idempotency_header, "key")
        return PreparedSettings(
            merged=settings,
            endpoint=endpoint,
            transport=transport,
            for_codec={self._setting_names.get(name, name): value for name, value in settings.items()},
            pacing_limits=PacingLimits(
                max_concurrent_requests=transport.max_concurrent_requests,
                requests_per_minute=transport.requests_per_minute,
                tokens_per_minute=transport.tokens_per_minute,
            ),
            pacing_key=_pacing_key(endpoint, transport.credentials),
            response_tokens=response_tokens(settings),
            idempotency_header=idempotency_header,
        )


def _pacing_key(endpoint: Endpoint, credentials: object) -> Hashable:
    """Identifies the endpoint and its credentials; each object with credentials counts as an account."""
    return endpoint.account() if credentials is None else (endpoint.account(), id(credentials))


def _copy(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with mappings among them copied as well: headers may be changed in place."""
    return {
        name: {**value} if isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownVariableType]
        for name, value in settings.items()
    }
