"""Which model settings steer the transport and never reach a request's body. Floor 1."""

from collections.abc import Mapping
from typing import Any

from ..errors import ConfigurationError

__all__ = ["TRANSPORT_SETTINGS", "body_settings", "extra_body"]

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
        "max_retries",
        "requests_per_minute",
        "timeout_seconds",
        "tokens_per_minute",
    }
)
"""The names of those settings."""


def body_settings(settings: Mapping[str, Any], *, reserved: frozenset[str]) -> dict[str, Any]:
    """The settings that go into the body, known and unknown ones alike; those that are None are left out.

    Args:
        settings: All settings of a request.
        reserved: Names of the body that only the library writes.

    Raises:
        ConfigurationError: A setting has a reserved name.
    """
    taken = sorted(reserved & settings.keys())
    if taken:
        raise ConfigurationError(f"Model setting {taken[0]!r} is written by the library; leave it out.")
    return {
        name: value
        for name, value in settings.items()
        if name not in TRANSPORT_SETTINGS and value is not None
    }


def extra_body(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the setting `extra_body` adds to the body as it is, with the last word over everything else.

    Args:
        settings: All settings of a request.

    Raises:
        ConfigurationError: It is not a mapping.
    """
    extra: object = settings.get("extra_body") or {}
    if not isinstance(extra, Mapping):
        raise ConfigurationError(f"Model setting 'extra_body' must be a mapping, not {type(extra).__name__}.")
    return extra  # pyright: ignore[reportUnknownVariableType]
