"""Telling providers of the trace that a request belongs to. Floor 3."""

from collections.abc import Mapping
from types import MappingProxyType

from opentelemetry import trace

__all__ = ["trace_headers"]

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_KEPT_BACK = "baggage"  # whatever the application put there, which is no business of a provider's


def trace_headers() -> Mapping[str, str]:
    """The headers by which a server can continue the trace of the current span; none when none is recorded.

    By default these are those of W3C Trace Context; `opentelemetry.propagate` can be told otherwise.
    """
    if not trace.get_current_span().is_recording():
        return _NO_HEADERS
    from opentelemetry import propagate  # here, because it looks for propagators among all that is installed

    from .settings import get_settings  # here, because most requests belong to no trace

    if not get_settings().propagates:
        return _NO_HEADERS
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {name.lower(): value for name, value in carrier.items() if name.lower() != _KEPT_BACK}
