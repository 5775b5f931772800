"""Exports of `nighthawk_async.mcp`. Each name is loaded when it is first used."""

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
