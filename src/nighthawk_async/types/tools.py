"""Tools as a model sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ToolDefinition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A tool offered through the provider's tool-calling interface.

    Args:
        name: ASCII, matching `^[A-Za-z_][A-Za-z0-9_]*$`.
        description: What the tool does, for the model.
        parameters: The JSON Schema of the arguments, an object schema.
        metadata: Anything the host attaches; never sent to a model.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
