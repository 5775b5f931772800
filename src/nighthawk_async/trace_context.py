"""OpenTelemetry's context, put in force for a while or carried to where something is carried out."""

from contextvars import Token
from types import TracebackType

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context


def find_trace_context() -> Context | None:
    """The trace context in force; None where there is no trace, recorded or not."""
    context = otel_context.get_current()
    return context if context and trace.get_current_span(context).get_span_context().is_valid else None


class using_trace_context:  # noqa: N801  (a context manager that reads as a function at its call)
    """Put a trace context in force for the extent of the `with` statement.

    It must not surround a `yield`: a generator may be closed in another context than that in which it began.
    So may a coroutine that nobody has ended. That other context stays as it is then, and nobody is told.

    Args:
        context: The context; None changes nothing.
    """

    __slots__ = ("_context", "_token")

    def __init__(self, context: Context | None) -> None:
        self._context = context
        self._token: Token[Context] | None = None

    def __enter__(self) -> None:
        if self._context is not None:
            self._token = otel_context.attach(self._context)

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is None:
            return
        try:
            self._token.var.reset(self._token)
        except ValueError:  # another context, with which `otel_context.detach` fills the log
            return
