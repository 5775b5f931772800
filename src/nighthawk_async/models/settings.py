"""The model settings that steer the transport, checked. Floor 4.

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


class TransportSettings(BaseModel):
    """How requests are sent.

    Args:
        base_url: The URL below which the protocol's paths lie; None takes the environment's or the
            provider's.
        api_key: The API key; None takes the environment's.
        extra_headers: More headers.
        extra_body: More fields of the request's body, with the last word.
        capabilities: What the model can do, where the catalog does not know or is wrong.
        timeout_seconds: Seconds a request may take in all, its retries included; None for no limit.
        connect_timeout_seconds: Seconds until the connection is there.
        idle_timeout_seconds: Seconds without a sign of life, before the response begins and in its course;
            None for no limit.
        max_retries: How often a request that failed before its first event is sent again.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    base_url: _Url | None = None
    api_key: SecretStr | None = None
    extra_headers: dict[str, str] = Field(default_factory=dict[str, str])
    extra_body: dict[str, Any] = Field(default_factory=dict[str, Any], repr=False)
    capabilities: dict[str, Any] = Field(default_factory=dict[str, Any])
    timeout_seconds: _Seconds | None = 600.0
    connect_timeout_seconds: _Seconds = 5.0
    idle_timeout_seconds: _Seconds | None = 300.0
    max_retries: Annotated[int, Field(ge=0)] = 2

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
