"""Settings of telemetry: one value for the whole program.

OpenTelemetry's providers and environment variables are global to the program too.
"""

import os
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from .catalog.telemetry_names import BASELINE, LATEST, Names
from .errors import ConfigurationError

SemanticConventions: TypeAlias = Literal["baseline", "latest"]
"""Version 1.41.1 of OpenTelemetry's conventions for generative AI, or the latest from their repository."""

ContentCapture: TypeAlias = Literal["no_content", "span_only", "event_only", "span_and_event"]
"""The places that show content."""

_NAMES: dict[str, Names] = {"baseline": BASELINE, "latest": LATEST}
_CAPTURE_WORDS = {"true": "span_and_event", "1": "span_and_event"}


class TelemetrySettings(Struct, frozen=True, kw_only=True):
    """Settings of telemetry.

    Args:
        names: The conventions for names.
        spans_hold_content: Whether spans hold messages, arguments and results, and errors their quotations.
        events_hold_content: Whether the events of requests hold messages; without them, there are none.
        propagates: Whether requests to providers carry the trace context.
    """

    names: Names
    spans_hold_content: bool
    events_hold_content: bool
    propagates: bool


_settings: TelemetrySettings | None = None


def get_settings() -> TelemetrySettings:
    """The active settings; before `configure_telemetry`, those of the environment variables."""
    if _settings is None:
        configure_telemetry()
    assert _settings is not None
    return _settings


def shows_content() -> bool:
    """Whether spans hold content and texts that may quote it."""
    return get_settings().spans_hold_content


def configure_telemetry(
    *,
    semantic_conventions: SemanticConventions | None = None,
    capture_content: bool | ContentCapture | None = None,
    propagate_context: bool = True,
) -> None:
    """Configure what OpenTelemetry's spans and metrics show, for the whole program.

    Call it before the first run. Without it, environment variables decide; each call replaces all settings of
    an earlier one.

    Args:
        semantic_conventions: The version of the names of spans, attributes and metrics. `baseline` is v1.41.1
            of OpenTelemetry's conventions for generative AI, `latest` the current state of the
            conventions' own repository. None to follow `OTEL_SEMCONV_STABILITY_OPT_IN`: `latest` if
            `gen_ai_latest_experimental` is among its values, else `baseline`.
        capture_content: The places that show content: messages, system instructions, tool definitions, the
            arguments and results of tool calls, and quotations of these in errors. Spans (`span_only`), the
            event of each request in `latest` (`event_only`), both (`span_and_event`, or True), or none
            (`no_content`, or False). Content is whatever users and data contain; keys of providers are
            redacted. None to follow `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`; if that is not
            set, no place.
        propagate_context: Whether requests to providers carry the header `traceparent` if there is a trace,
            so that a gateway or a server of your own can continue it.

    Raises:
        ConfigurationError: There are no such conventions, or content cannot be shown there.
    """
    global _settings
    if semantic_conventions is None:
        semantic_conventions = _conventions_of_environment()
    if semantic_conventions not in get_args(SemanticConventions):
        raise ConfigurationError(
            f"semantic_conventions must be one of {get_args(SemanticConventions)}, "
            f"not {semantic_conventions!r}."
        )
    shown = _capture_of_environment() if capture_content is None else capture_content
    if isinstance(shown, bool):
        shown = "span_and_event" if shown else "no_content"
    if shown not in get_args(ContentCapture):
        raise ConfigurationError(
            f"capture_content must be True, False or one of {get_args(ContentCapture)}, not {shown!r}."
        )
    _settings = TelemetrySettings(
        names=_NAMES[semantic_conventions],
        spans_hold_content=shown in ("span_only", "span_and_event"),
        events_hold_content=shown in ("event_only", "span_and_event"),
        propagates=propagate_context,
    )


def _capture_of_environment() -> str:
    word = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().lower()
    word = _CAPTURE_WORDS.get(word, word)
    return word if word in get_args(ContentCapture) else "no_content"


def _conventions_of_environment() -> SemanticConventions:
    chosen = os.environ.get("OTEL_SEMCONV_STABILITY_OPT_IN", "").split(",")
    return "latest" if "gen_ai_latest_experimental" in map(str.strip, chosen) else "baseline"
