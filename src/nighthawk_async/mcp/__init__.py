"""Servers of the Model Context Protocol. Floor 6.

    files = nh.mcp.stdio("mcp-server-filesystem", "/data")
    async with nh.run(executor, servers={"files": files}): ...  # a name for every block inside

A server is an object that blocks name, and its tools are async methods. The package `mcp` does the protocol;
it is loaded at the first connection. `serve` makes a server of natural functions. See the page "MCP".
"""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "access": (
            "connect",
            "get_prompt",
            "list_prompts",
            "list_resource_templates",
            "list_resources",
            "read_resource",
        ),
        "description": ("ServerArguments",),
        "errors": (
            "McpError",
            "ServerCallError",
            "ServerLostError",
            "ServerToolError",
            "ServerUnavailableError",
        ),
        "methods": ("ConnectedServer",),
        "server": ("Server", "http", "stdio"),
        "values": (
            "LinkedResource",
            "PromptDescription",
            "PromptText",
            "ResourceContent",
            "ResourceTemplate",
        ),
        "serving": ("serve", "serve_stdio"),
        "serving_http": ("McpApplication",),
        "serving_tools": ("Served",),
    },
)
