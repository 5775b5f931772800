"""Telling providers of the trace that a request belongs to."""

from collections.abc import Mapping
from types import MappingProxyType

from opentelemetry import trace

__all__ = ["trace_headers"]

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def trace_headers() -> Mapping[str, str]:
    """The headers by which a server can continue the trace of the current span; none where there is no trace.

    Of a trace that nobody records, as a sampler or a client has decided, they say so. By default these are
    those of W3C Trace Context; `opentelemetry.propagate` can be told otherwise.
    """
    if not trace.get_current_span().get_span_context().is_valid:
        return _NO_HEADERS
    from opentelemetry import (  # here, because it looks for propagators among all that is installed
        baggage,
        propagate,
    )

    from ..runtime.telemetry_settings import get_settings  # here, because most requests belong to no trace

    if not get_settings().propagates:
        return _NO_HEADERS
    carrier: dict[str, str] = {}
    propagate.inject(carrier, baggage.clear())  # which holds what is no business of a provider's
    return {name.lower(): value for name, value in carrier.items()}
