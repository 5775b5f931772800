"""The model settings that steer the transport, checked.

All other settings go into the request's body; `wire.transport_settings` names those that do not.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, ValidationError

from ..errors import ConfigurationError

__all__ = ["TransportSettings"]

# An empty URL is more likely a variable that was never filled than a wish for the provider's own.
_Url = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1)]


class TransportSettings(BaseModel):
    """Settings for sending requests.

    The limits of the whole request (600 seconds) and of the connection (5) and the two retries are those of
    the official SDKs. Half of the whole is given to the first event, since a reasoning model may think for
    minutes before it says anything, and to any silence after that.

    Args:
        base_url: The URL below which the protocol's paths lie; None takes the environment's or the
            provider's.
        api_key: The API key; None takes the environment's.
        extra_headers: More headers.
        extra_body: More fields of the request's body, with the last word.
        capabilities: What the model can do, where the catalog does not know or is wrong.
        timeout_seconds: Seconds a request may take in all from its first turn on, its retries included; None
            for no limit.
        queue_timeout_seconds: Seconds a request may wait for a turn to be sent; None for no limit.
        connect_timeout_seconds: Seconds until the connection is there.
        first_event_timeout_seconds: Seconds from sending a request to the first event of its response that
            is output; None for no limit. Holds for each attempt.
        idle_timeout_seconds: Seconds without a sign of life from then on; None for no limit.
        max_response_bytes: Bytes that the body of a response may have, everything in it counted; None for no
            limit. Holds for each attempt.
        max_retries: How often a request that failed before its first output event is sent again.
        max_concurrent_requests: Requests in flight at once with the same key at the same endpoint, within a
            run and on one event loop; None for no limit.
        requests_per_minute: Requests that may begin within a minute, likewise.
        tokens_per_minute: Tokens that requests may take within a minute, likewise.
        idempotency_header: The header in which the endpoint takes a key that is the same for all attempts at
            a request; None takes the provider's, if it has one.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    base_url: _Url | None = Field(default=None, repr=False)
    api_key: SecretStr | None = None
    extra_headers: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    extra_body: dict[str, Any] = Field(default_factory=dict[str, Any], repr=False)
    capabilities: dict[str, Any] = Field(default_factory=dict[str, Any])
    timeout_seconds: _Seconds | None = 600.0
    queue_timeout_seconds: _Seconds | None = None
    connect_timeout_seconds: _Seconds = 5.0
    first_event_timeout_seconds: _Seconds | None = 300.0
    idle_timeout_seconds: _Seconds | None = 300.0
    max_response_bytes: _Count | None = 64 * 1024 * 1024
    max_retries: Annotated[int, Field(ge=0)] = 2
    max_concurrent_requests: _Count | None = None
    requests_per_minute: _Count | None = None
    tokens_per_minute: _Count | None = None
    idempotency_header: str | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "TransportSettings":
        """The transport settings among all settings.

        Args:
            settings: All settings of a model or request.

        Raises:
            ConfigurationError: One of them has a bad value; the message names it and does not show the value.
        """
        try:
            return cls.model_validate({name: settings[name] for name in cls.model_fields if name in settings})
        except ValidationError as error:
            faults = [f"{'.'.join(map(str, each['loc']))!r}: {each['msg']}" for each in error.errors()]
            raise ConfigurationError(f"Bad model setting {'; '.join(faults)}.") from None
