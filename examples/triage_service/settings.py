"""What the environment says about the service. Everything has a default that works on one machine alone."""

import os
from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import nighthawk_async as nh

__all__ = ["Settings"]

Count = Annotated[int, Field(ge=1)]


class Settings(BaseModel):
    """What can be chosen without changing the program.

    Args:
        model: The model that carries the steps out, `provider:name`. Its key and its URL come from the
            environment variables of the provider.
        dashboard_token: What people have to know to cancel, steer and answer on the dashboard; None for a
            dashboard that only shows.
        max_requests: How many requests are worked on at once; further ones wait.
        max_waiting: How many may wait; further ones are refused.
        max_investigations: How many investigations go on at once; further ones are refused.
        max_batch_steps: How many tickets of one batch are worked on at once.
        journal: The address of the journal, in which requests with an idempotency key are recorded; None for
            no journal.
        shows_traces: Whether OpenTelemetry's spans are written to standard output.
    """

    model_config = ConfigDict(frozen=True)

    model: str = "local:smollm2-135m"
    dashboard_token: str | None = Field(default=None, repr=False)
    max_requests: Count = 500
    max_waiting: Count = 1_000
    max_investigations: Count = 20
    max_batch_steps: Count = 8
    journal: str | None = None
    shows_traces: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """The settings that environment variables make.

        Args:
            environment: The variables: NIGHTHAWK_MODEL, JOURNAL, TRIAGE_DASHBOARD_TOKEN, TRIAGE_MAX_REQUESTS
                and the like, and OpenTelemetry's own OTEL_TRACES_EXPORTER, of which `console` is understood.

        Raises:
            ConfigurationError: A variable has a bad value.
        """
        named = {name: environment.get(variable_of(name)) for name in cls.model_fields}
        named["model"] = environment.get("NIGHTHAWK_MODEL")
        named["journal"] = environment.get("JOURNAL")
        named["shows_traces"] = "true" if environment.get("OTEL_TRACES_EXPORTER") == "console" else None
        try:
            return cls.model_validate({name: value for name, value in named.items() if value})
        except ValidationError as error:
            faults = [f"{variable_of(str(each['loc'][0]))}: {each['msg']}" for each in error.errors()]
            raise nh.ConfigurationError("; ".join(faults)) from None


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return f"TRIAGE_{name.upper()}"
