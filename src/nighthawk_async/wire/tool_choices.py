"""Whether the tool choice of a request fits the tools that it offers."""

from ..errors import ConfigurationError
from ..types.model import ModelRequest, NamedToolChoice

__all__ = ["check_tool_choice"]


def check_tool_choice(request: ModelRequest) -> None:
    """Refuse a request that demands a call which its tools do not allow.

    Args:
        request: The request.

    Raises:
        ConfigurationError: It demands a call and offers no tool, or not the one that it demands.
    """
    choice = request.tool_choice
    if not request.tools and choice not in ("auto", "none"):
        raise ConfigurationError("The request demands a tool call but offers no tool.")
    if isinstance(choice, NamedToolChoice) and all(tool.name != choice.name for tool in request.tools):
        raise ConfigurationError(f"The request demands the tool {choice.name!r} but does not offer it.")
