"""Servers of the Model Context Protocol.

    files = nh.mcp.stdio("mcp-server-filesystem", "/data")
    async with nh.run(executor, servers={"files": files}): ...  # a name for every block inside

A server is an object that blocks name, and its tools are async methods. The package `mcp` does the protocol;
it is loaded at the first connection. `serve` makes a server of natural functions. See the page "MCP".
"""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from .access import (
        connect,
        get_prompt,
        list_prompts,
        list_resource_templates,
        list_resources,
        read_resource,
    )
    from .description import ServerArguments
    from .errors import McpError, ServerCallError, ServerLostError, ServerToolError, ServerUnavailableError
    from .methods import ConnectedServer
    from .server import Server, http, stdio
    from .serving import serve, serve_stdio
    from .serving_http import McpApplication
    from .serving_tools import Served
    from .values import LinkedResource, PromptDescription, PromptText, ResourceContent, ResourceTemplate
else:
    __getattr__, __dir__ = attach_exports(
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

__all__ = [
    "ConnectedServer",
    "LinkedResource",
    "McpApplication",
    "McpError",
    "PromptDescription",
    "PromptText",
    "ResourceContent",
    "ResourceTemplate",
    "Served",
    "Server",
    "ServerArguments",
    "ServerCallError",
    "ServerLostError",
    "ServerToolError",
    "ServerUnavailableError",
    "connect",
    "get_prompt",
    "http",
    "list_prompts",
    "list_resource_templates",
    "list_resources",
    "read_resource",
    "serve",
    "serve_stdio",
    "stdio",
]
