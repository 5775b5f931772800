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
    from .description import ServerArguments as ServerArguments
    from .errors import (
        McpError,
        ServerCallError as ServerCallError,
        ServerLostError as ServerLostError,
        ServerToolError as ServerToolError,
        ServerUnavailableError,
    )
    from .methods import ConnectedServer as ConnectedServer
    from .server import Server, http, stdio
    from .serving import serve, serve_stdio
    from .serving_http import McpApplication as McpApplication
    from .serving_tools import Served
    from .values import (
        LinkedResource as LinkedResource,
        PromptDescription as PromptDescription,
        PromptText as PromptText,
        ResourceContent as ResourceContent,
        ResourceTemplate as ResourceTemplate,
    )
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
            "server": (
                "Server",
                "http",
                "stdio",
            ),
            "values": (
                "LinkedResource",
                "PromptDescription",
                "PromptText",
                "ResourceContent",
                "ResourceTemplate",
            ),
            "serving": (
                "serve",
                "serve_stdio",
            ),
            "serving_http": ("McpApplication",),
            "serving_tools": ("Served",),
        },
    )

__all__ = [
    "McpError",
    "Served",
    "Server",
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
