"""The settings of a request, merged and checked once for all requests that bring the same ones.

The executor passes the same settings with every request of every step, so only the first one pays.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from ..wire.redaction import find_secrets
from .endpoint import Endpoint, check_header
from .pacing_lane import PacingLimits
from .settings import TransportSettings
from .token_demand import response_tokens

__all__ = ["PreparedSettings", "SettingsMemory"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PreparedSettings:
    """The effective settings of a request to a model.

    Args:
        merged: All settings.
        endpoint: Where requests go, with the headers that the settings add.
        transport: How requests are sent.
        for_codec: All settings, as the endpoint calls them.
        pacing_limits: What the settings limit.
        pacing_key: Tells the endpoint and its credentials from others.
        response_tokens: The tokens that a response may hold; 0 when the settings do not say.
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


class SettingsMemory:
    """Prepares settings, and remembers the last ones.

    Args:
        endpoint: Where requests go.
        settings: Settings of every request; those of a request itself have the last word.
        setting_names: What the endpoint calls a setting that others call by the name on the left.
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
            pacing_key=endpoint.account(),
            response_tokens=response_tokens(settings),
            idempotency_header=idempotency_header,
        )


def _copy(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with mappings among them copied as well: headers may be changed in place."""
    return {
        name: {**value} if isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownVariableType]
        for name, value in settings.items()
    }
