"""The spans of tools that a provider carries out by itself, below the span of the request."""

from collections.abc import Sequence

from opentelemetry.trace import Span, SpanKind

from ..telemetry_settings import get_settings
from ..types.native_tools import NativeCallFinished, NativeCallStarted
from .attributes import Attributes, redacted_json
from .spans import end_span, execution_attributes, start_span, using_span

_FAILED = "_OTHER"
"""The conventions' word for an error without a class."""


class NativeSpan:
    """The span of one native call, for as long as the response shows it.

    Args:
        call: The call.
        request: The span of its request.
        secrets: The secrets that are known.
    """

    def __init__(self, call: NativeCallStarted, request: Span, secrets: Sequence[str]) -> None:
        settings = get_settings()
        names = self._names = settings.names
        self._secrets = secrets
        attributes: Attributes = {
            names.operation: names.execute_tool,
            names.tool_name: call.name,
            names.tool_type: "datastore" if call.name == "file_search" else "extension",
            names.tool_call_id: call.id,
            "nighthawk.tool.native": True,
        }
        with using_span(request):
            self._span = start_span(
                f"{names.execute_tool} {call.name}",
                kind=SpanKind.INTERNAL,
                attributes={**attributes, **execution_attributes()},
            )
        self._shows_content = settings.spans_hold_content and self._span.is_recording()
        self._show(names.tool_arguments, call.arguments)

    def finish(self, event: NativeCallFinished) -> None:
        """End it with its result.

        Args:
            event: The end of the call.
        """
        self._show(self._names.tool_arguments, event.arguments)
        self._show(self._names.tool_result, event.result)
        self.end(_FAILED if event.is_error else None)

    def end(self, error_type: str | None) -> None:
        """End it.

        Args:
            error_type: The class of error; None when all went well.
        """
        end_span(self._span, self._names.error_type, error_type)

    def _show(self, name: str, text: str) -> None:
        if self._shows_content and text:
            self._span.set_attribute(name, redacted_json(text, self._secrets))
