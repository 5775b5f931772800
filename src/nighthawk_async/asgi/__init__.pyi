"""What `nighthawk_async.asgi` exports. Each name is loaded when it is first used."""

from .dashboard.application import Dashboard
from .event_stream import StreamResponse, stream_node, stream_response
from .event_stream_encoding import StreamEvent
from .event_stream_live import events_between
from .middleware import NighthawkMiddleware
from .problems import Problem, find_problem

__all__ = [
    "Dashboard",
    "NighthawkMiddleware",
    "Problem",
    "StreamEvent",
    "StreamResponse",
    "events_between",
    "find_problem",
    "stream_node",
    "stream_response",
]
