"""What `nighthawk_async.mcp` exports. Each name is loaded when it is first used."""

from .serving import serve, serve_stdio
from .serving_http import McpApplication
from .serving_tools import Served

__all__ = ["McpApplication", "Served", "serve", "serve_stdio"]
