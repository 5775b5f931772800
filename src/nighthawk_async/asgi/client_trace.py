"""The trace that a client names in the headers of its request; imported where OpenTelemetry is loaded."""

from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter

from .protocol import AsgiScope, header_values


class _Headers(Getter[Any]):
    def get(self, carrier: Any, key: str) -> list[str] | None:
        name = key.lower()
        values = [] if name == "baggage" else header_values(carrier, name.encode("latin-1"))
        is_refused = name == "traceparent" and len(values) > 1  # it is ambiguous
        return None if is_refused else values or None

    def keys(self, carrier: Any) -> list[str]:
        return [name.decode("latin-1") for name, _ in carrier.get("headers") or ()]


_HEADERS = _Headers()


def find_client_trace(asgi_scope: AsgiScope) -> Context | None:
    """Return the context of the trace that the client names; None when it names none.

    Args:
        asgi_scope: The connection.
    """
    span = trace.get_current_span(propagate.extract(asgi_scope, Context(), getter=_HEADERS))
    return trace.set_span_in_context(span) if span.get_span_context().is_valid else None
