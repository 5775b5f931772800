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
from .values import LinkedResource, PromptDescription, PromptText, ResourceContent, ResourceTemplate

__all__ = [
    "ConnectedServer",
    "LinkedResource",
    "McpError",
    "PromptDescription",
    "PromptText",
    "ResourceContent",
    "ResourceTemplate",
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
    "stdio",
]
