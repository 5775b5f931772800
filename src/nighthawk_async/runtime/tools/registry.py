"""Registration of tools in nested scopes (specification 8.3). Floor 3."""

from collections.abc import Mapping

from ...errors import ToolRegistrationError
from .function import ToolFunction

__all__ = ["GLOBAL_TOOLS", "OUTCOME_TOOL_NAME", "PROVIDED_TOOL_NAMES", "ToolScope"]

OUTCOME_TOOL_NAME = "nh_outcome"
PROVIDED_TOOL_NAMES = ("nh_eval", "nh_assign", "nh_exec", OUTCOME_TOOL_NAME)


class ToolScope:
    """Tools visible in one extent: the program, a run, a scope, or one call of a natural function.

    Args:
        parent: The surrounding extent; None for the program.
    """

    __slots__ = ("_parent", "_tools")

    def __init__(self, parent: "ToolScope | None") -> None:
        self._parent = parent
        self._tools: dict[str, ToolFunction] = {}

    def register(self, tool: ToolFunction, *, overwrite: bool) -> None:
        """Add a tool to this extent.

        Raises:
            ToolRegistrationError: The name belongs to a provided tool, or is taken and `overwrite` is false.
        """
        if tool.name in PROVIDED_TOOL_NAMES:
            raise ToolRegistrationError(f"{tool.name!r} is the name of a provided tool; choose another name.")
        if not overwrite and tool.name in self.visible():
            raise ToolRegistrationError(
                f"A tool named {tool.name!r} is visible here already; pass overwrite=True to replace it."
            )
        self._tools[tool.name] = tool

    def visible(self) -> Mapping[str, ToolFunction]:
        """Every tool of this extent and of those around it, in the order of registration."""
        scopes: list[ToolScope] = []
        scope: ToolScope | None = self
        while scope is not None:
            scopes.append(scope)
            scope = scope._parent
        return {name: tool for scope in reversed(scopes) for name, tool in scope._tools.items()}


GLOBAL_TOOLS = ToolScope(None)
"""Tools registered outside every run."""
