"""OpenTelemetry's conventions for generative AI: spans, attributes and metrics.

The spans of specification 10.1 are in `spans`. Below `nighthawk.step_executor` are
`invoke_agent`, and below that `chat` for each model request and `execute_tool` for each tool call.
"""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from ..telemetry_settings import (
        ContentCapture as ContentCapture,
        SemanticConventions as SemanticConventions,
        configure_telemetry,
    )
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "..telemetry_settings": (
                "ContentCapture",
                "SemanticConventions",
                "configure_telemetry",
            )
        },
    )

__all__ = [
    "configure_telemetry",
]
