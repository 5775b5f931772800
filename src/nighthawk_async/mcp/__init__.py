"""Natural functions as tools of MCP servers. Floor 6: on the package `mcp`, which is loaded on first use."""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "serving": ("serve", "serve_stdio"),
        "serving_http": ("McpApplication",),
        "serving_tools": ("Served",),
    },
)
