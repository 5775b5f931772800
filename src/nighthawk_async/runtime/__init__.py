"""The part of the kernel that users import: step actors, tools, usage meters.

Public are the names exported here, and the modules `runtime.step_context` and `runtime.step_executor`
(specification 14.3). All other modules are private.
"""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from ..kernel.actor import StepActor as StepActor
    from ..kernel.environment import (
        get_current_step_actor,
        get_current_step_context,
        get_execution_ref,
        get_implicit_references as get_implicit_references,
        get_step_executor,
        get_system_prompt_suffix_fragments as get_system_prompt_suffix_fragments,
        get_usage_meter,
        get_user_prompt_suffix_fragments as get_user_prompt_suffix_fragments,
    )
    from ..kernel.step import UndeliveredSteeringWarning
    from ..kernel.tool_sets import ForeignTool
    from ..kernel.tools import Tool as Tool, ToolSet, make_tool_function as make_tool_function
    from ..kernel.usage_meter import StepSnapshot as StepSnapshot, UsageMeter as UsageMeter
    from ..types.json import JsonableValue
    from ..types.messages import DeferredTool as DeferredTool
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "..kernel.actor": ("StepActor",),
            "..kernel.environment": (
                "get_current_step_actor",
                "get_current_step_context",
                "get_execution_ref",
                "get_implicit_references",
                "get_step_executor",
                "get_system_prompt_suffix_fragments",
                "get_usage_meter",
                "get_user_prompt_suffix_fragments",
            ),
            "..kernel.step": ("UndeliveredSteeringWarning",),
            "..kernel.tool_sets": ("ForeignTool",),
            "..kernel.tools": (
                "Tool",
                "ToolSet",
                "make_tool_function",
            ),
            "..kernel.usage_meter": (
                "StepSnapshot",
                "UsageMeter",
            ),
            "..types.json": ("JsonableValue",),
            "..types.messages": ("DeferredTool",),
        },
    )

__all__ = [
    "ForeignTool",
    "JsonableValue",
    "ToolSet",
    "UndeliveredSteeringWarning",
    "get_current_step_actor",
    "get_current_step_context",
    "get_execution_ref",
    "get_step_executor",
    "get_usage_meter",
]
