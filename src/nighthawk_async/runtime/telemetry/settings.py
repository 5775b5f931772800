"""What telemetry shows, and under which names: one value for the whole program. Floor 3.

OpenTelemetry's providers belong to the whole program too, and so do its environment variables.
"""

import os
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from ...errors import ConfigurationError
from .names import BASELINE, LATEST, Names

__all__ = ["SemanticConventions", "TelemetrySettings", "configure_telemetry", "get_settings"]

SemanticConventions: TypeAlias = Literal["baseline", "latest"]
"""Version 1.41.1 of OpenTelemetry's conventions for generative AI, or what their repository says since."""

_NAMES: dict[str, Names] = {"baseline": BASELINE, "latest": LATEST}
_CAPTURING_WORDS = frozenset({"true", "1", "span_only", "span_and_event"})


class TelemetrySettings(Struct, frozen=True, kw_only=True):
    """What telemetry shows.

    Args:
        names: The names that it uses.
        captures_content: Whether spans hold messages, arguments and results.
        propagates: Whether providers are told of the trace.
    """

    names: Names
    captures_content: bool
    propagates: bool


_settings: TelemetrySettings | None = None


def get_settings() -> TelemetrySettings:
    """The settings in force; before `configure_telemetry`, what the environment variables say."""
    if _settings is None:
        configure_telemetry()
    assert _settings is not None
    return _settings


def configure_telemetry(
    *,
    semantic_conventions: SemanticConventions | None = None,
    capture_content: bool | None = None,
    propagate_context: bool = True,
) -> None:
    """Choose what OpenTelemetry's spans and metrics show, for the whole program.

    Call it before the first run. Without it, environment variables decide; each call replaces everything
    that an earlier one chose.

    Args:
        semantic_conventions: The version of the names of spans, attributes and metrics. `baseline` is v1.41.1
            of OpenTelemetry's conventions for generative AI, `latest` what the conventions' own repository
            says since. None for what `OTEL_SEMCONV_STABILITY_OPT_IN` says: `latest` when
            `gen_ai_latest_experimental` is among its values, else `baseline`.
        capture_content: Whether spans hold messages, system instructions, tool definitions, and the arguments
            and results of tool calls. They are whatever users and data say; keys of providers are redacted.
            None for what `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says; without it, they do not.
        propagate_context: Whether requests to providers carry the header `traceparent` while a span is
            recorded, so that a gateway or a server of your own can continue the trace.

    Raises:
        ConfigurationError: There are no such conventions.
    """
    global _settings
    if semantic_conventions is None:
        semantic_conventions = _conventions_of_environment()
    if semantic_conventions not in get_args(SemanticConventions):
        raise ConfigurationError(
            f"semantic_conventions must be one of {get_args(SemanticConventions)}, "
            f"not {semantic_conventions!r}."
        )
    if capture_content is None:
        word = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "")
        capture_content = word.strip().lower() in _CAPTURING_WORDS
    _settings = TelemetrySettings(
        names=_NAMES[semantic_conventions],
        captures_content=capture_content,
        propagates=propagate_context,
    )


def _conventions_of_environment() -> SemanticConventions:
    chosen = os.environ.get("OTEL_SEMCONV_STABILITY_OPT_IN", "").split(",")
    return "latest" if "gen_ai_latest_experimental" in map(str.strip, chosen) else "baseline"
