"""Exports of `nighthawk_async.runtime`. Each name is loaded on first use."""

from ..kernel.actor import StepActor
from ..kernel.environment import (
    get_implicit_references,
    get_system_prompt_suffix_fragments,
    get_user_prompt_suffix_fragments,
)
from ..kernel.step import UndeliveredSteeringWarning
from ..kernel.tool_sets import ForeignTool
from ..kernel.tools import Tool, ToolSet, make_tool_function
from ..kernel.usage_meter import StepSnapshot, UsageMeter

__all__ = [
    "ForeignTool",
    "StepActor",
    "StepSnapshot",
    "Tool",
    "ToolSet",
    "UndeliveredSteeringWarning",
    "UsageMeter",
    "get_implicit_references",
    "get_system_prompt_suffix_fragments",
    "get_user_prompt_suffix_fragments",
    "make_tool_function",
]
