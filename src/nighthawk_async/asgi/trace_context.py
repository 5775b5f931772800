"""OpenTelemetry's context of a request, continued from its headers."""

from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter

from ..trace_context import find_trace_context, using_trace_context
from .protocol import AsgiScope, header_values

__all__ = ["continued_trace"]


class _Headers(Getter[Any]):
    def get(self, carrier: Any, key: str) -> list[str] | None:
        name = key.lower()
        values = [] if name == "baggage" else header_values(carrier, name.encode("latin-1"))
        is_refused = name == "traceparent" and len(values) > 1  # nobody can say which one counts
        return None if is_refused else values or None

    def keys(self, carrier: Any) -> list[str]:
        return [name.decode("latin-1") for name, _ in carrier.get("headers") or ()]


_HEADERS = _Headers()


class continued_trace:  # noqa: N801  (a context manager that reads as a function at its call)
    """Let what is traced in the `with` statement belong to the trace that the client names.

    Nothing else of what a client says is put in force, baggage above all. Where a span is current already,
    that of a server's own instrumentation, everything stays as it is.

    Args:
        asgi_scope: The connection.
    """

    __slots__ = ("_asgi_scope", "_context")

    def __init__(self, asgi_scope: AsgiScope) -> None:
        self._asgi_scope = asgi_scope

    def __enter__(self) -> None:
        is_traced = find_trace_context() is not None
        self._context = using_trace_context(None if is_traced else _named_by_client(self._asgi_scope))
        self._context.__enter__()

    def __exit__(self, *exc_details: object) -> None:
        self._context.__exit__(None, None, None)


def _named_by_client(asgi_scope: AsgiScope) -> Context | None:
    span = trace.get_current_span(propagate.extract(asgi_scope, Context(), getter=_HEADERS))
    return trace.set_span_in_context(span) if span.get_span_context().is_valid else None
