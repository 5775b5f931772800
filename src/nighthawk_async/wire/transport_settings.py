"""Model settings that control the transport and never reach a request's body."""

from collections.abc import Mapping
from typing import Any, cast

from ..errors import ConfigurationError

__all__ = ["TRANSPORT_SETTINGS", "merge_extra_body"]

TRANSPORT_SETTINGS = frozenset(
    {
        "api_key",
        "base_url",
        "capabilities",
        "connect_timeout_seconds",
        "extra_body",
        "extra_headers",
        "first_event_timeout_seconds",
        "idempotency_header",
        "idle_timeout_seconds",
        "max_concurrent_requests",
        "max_response_bytes",
        "max_retries",
        "queue_timeout_seconds",
        "requests_per_minute",
        "timeout_seconds",
        "tokens_per_minute",
    }
)
"""The names of those settings."""


def merge_extra_body(body: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A body with what the setting `extra_body` adds to it, which has the last word over everything else.

    Objects are merged at every depth; whatever else both hold is replaced.

    Args:
        body: A request's body; it stays as it is.
        settings: All settings of a request.

    Raises:
        ConfigurationError: The setting is not a mapping.
    """
    extra: object = settings.get("extra_body") or {}
    if not isinstance(extra, Mapping):
        raise ConfigurationError(f"Model setting 'extra_body' must be a mapping, not {type(extra).__name__}.")
    return _merged(body, cast("Mapping[str, Any]", extra))


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        former: object = merged.get(name)
        if isinstance(former, Mapping) and isinstance(value, Mapping):
            merged[name] = _merged(cast("Mapping[str, Any]", former), cast("Mapping[str, Any]", value))
        else:
            merged[name] = value
    return merged
