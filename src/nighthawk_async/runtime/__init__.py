"""The part of the kernel that users import: step actors, tools, usage meters. Floor 4.

Public are the names exported here, and the modules `runtime.step_context` and `runtime.step_executor`
(specification 14.3). All other modules are private.
"""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "..kernel.actor": ("StepActor",),
        "..kernel.environment": (
            "get_implicit_references",
            "get_system_prompt_suffix_fragments",
            "get_user_prompt_suffix_fragments",
        ),
        "..kernel.step": ("UndeliveredSteeringWarning",),
        "..kernel.tool_sets": ("ForeignTool",),
        "..kernel.tools": ("Tool", "ToolSet", "make_tool_function"),
        "..kernel.usage_meter": ("StepSnapshot", "UsageMeter"),
    },
)
