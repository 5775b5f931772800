"""Exports of `nighthawk_async.runtime`. Each name is loaded on first use."""

from .environment import (
    get_implicit_references,
    get_system_prompt_suffix_fragments,
    get_user_prompt_suffix_fragments,
)
from .steering import UndeliveredSteeringWarning
from .step_actor import StepActor, StepSnapshot
from .tool_function import Tool, make_tool_function
from .tool_scope import ToolSet
from .tool_sets import ForeignTool
from .usage_meter import UsageMeter

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
