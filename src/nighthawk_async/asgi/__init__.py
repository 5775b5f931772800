"""Natural functions behind HTTP: a middleware for any ASGI application, on Trio or asyncio."""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from .dashboard.application import Dashboard
    from .event_stream import StreamResponse, stream_node, stream_response
    from .event_stream_encoding import StreamEvent as StreamEvent
    from .event_stream_live import events_between
    from .middleware import NighthawkMiddleware
    from .problems import Problem as Problem, find_problem as find_problem
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "dashboard.application": ("Dashboard",),
            "event_stream": (
                "StreamResponse",
                "stream_node",
                "stream_response",
            ),
            "event_stream_live": ("events_between",),
            "event_stream_encoding": ("StreamEvent",),
            "middleware": ("NighthawkMiddleware",),
            "problems": (
                "Problem",
                "find_problem",
            ),
        },
    )

__all__ = [
    "Dashboard",
    "NighthawkMiddleware",
    "StreamResponse",
    "events_between",
    "stream_node",
    "stream_response",
]
