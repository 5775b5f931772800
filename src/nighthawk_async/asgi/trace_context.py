"""OpenTelemetry's context of a request, continued from its headers. Floor 5."""

from contextvars import Token
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.propagators.textmap import Getter

from ..runtime.tracing import leave_trace_context
from .protocol import AsgiScope, header_values

__all__ = ["continued_trace"]


class _Headers(Getter[Any]):
    def get(self, carrier: Any, key: str) -> list[str] | None:
        return header_values(carrier, key.lower().encode("latin-1")) or None

    def keys(self, carrier: Any) -> list[str]:
        return [name.decode("latin-1") for name, _ in carrier.get("headers") or ()]


_HEADERS = _Headers()


class continued_trace:  # noqa: N801  (a context manager that reads as a function at its call)
    """Let what is traced in the `with` statement belong to the trace that the client names.

    Where a span is current already, that of a server's own instrumentation, everything stays as it is.

    Args:
        asgi_scope: The connection.
    """

    __slots__ = ("_asgi_scope", "_token")

    def __init__(self, asgi_scope: AsgiScope) -> None:
        self._asgi_scope = asgi_scope
        self._token: Token[otel_context.Context] | None = None

    def __enter__(self) -> None:
        if not trace.get_current_span().get_span_context().is_valid:
            self._token = otel_context.attach(propagate.extract(self._asgi_scope, getter=_HEADERS))

    def __exit__(self, *exc_details: object) -> None:
        if self._token is not None:
            leave_trace_context(self._token)
