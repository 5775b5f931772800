"""Calls of tools by programs and models: in the tree, and at most once in all lives of a durable run."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from ..journal.effects import once, repeatable
from ..kernel.tool_sets import valid_tool_name
from ..observation import observed
from .tool_facts import ToolFacts

Call: TypeAlias = Callable[[ToolFacts, dict[str, object]], Awaitable[object]]


class Invocations:
    """Makes the calls of one server's tools.

    Args:
        server: The name of the server.
        call: Calls a tool.
    """

    def __init__(self, server: str, call: Call) -> None:
        self._server = server
        self._call = call
        self._effects: dict[str, Callable[[dict[str, object]], Awaitable[object]]] = {}

    async def invoke(self, class_name: str, tool: ToolFacts, arguments: dict[str, object]) -> object:
        """Call a tool as a method.

        Args:
            class_name: The class of the method.
            tool: The tool.
            arguments: The arguments by their own names.
        """
        name = f"{class_name}.{tool.python_name}"
        inputs: Mapping[str, object] = arguments
        with observed("function", name, inputs=lambda: inputs, attributes=self._attributes(tool)) as node:
            result = await self._effect_of(tool)(arguments)
            if node is not None:
                node.set_outputs({"return": result})
            return result

    def _attributes(self, tool: ToolFacts) -> Callable[[], Mapping[str, str | int | float | bool]]:
        return lambda: {"mcp.server": self._server, "mcp.tool": tool.name}

    def _effect_of(self, tool: ToolFacts) -> Callable[[dict[str, object]], Awaitable[object]]:
        effect = self._effects.get(tool.digest)
        if effect is None:

            async def call(arguments: dict[str, object]) -> object:
                return await self._call(tool, arguments)

            effect = self._effects[tool.digest] = as_effect(self._server, tool, call)
        return effect


def as_effect(server: str, tool: ToolFacts, call: Callable[[dict[str, object]], Any]) -> Any:
    """Return the calls of a tool as effects: repeatable ones where the tool says so.

    Args:
        server: The name of the server.
        tool: The tool.
        call: Calls the tool with its arguments.
    """
    call.__name__ = call.__qualname__ = valid_tool_name(f"{server}_{tool.name}")
    return repeatable(call) if tool.is_repeatable else once(call)
