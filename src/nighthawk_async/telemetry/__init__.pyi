"""Exports of `nighthawk_async.telemetry`. Each name is loaded on first use."""

from ..telemetry_settings import ContentCapture, SemanticConventions, configure_telemetry

__all__ = [
    "ContentCapture",
    "SemanticConventions",
    "configure_telemetry",
]
