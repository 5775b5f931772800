"""Natural functions behind HTTP: a middleware for any ASGI application, on Trio or asyncio. Floor 6."""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "dashboard.application": ("Dashboard",),
        "event_stream": ("StreamResponse", "stream_node", "stream_response"),
        "event_stream_live": ("events_between",),
        "event_stream_encoding": ("StreamEvent",),
        "middleware": ("NighthawkMiddleware",),
        "problems": ("Problem", "find_problem"),
    },
)
