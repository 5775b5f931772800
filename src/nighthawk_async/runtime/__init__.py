"""The kernel: runs, steps, step actors and policies. Floor 3.

Public are the names exported here, and the modules `runtime.step_context` and `runtime.step_executor`
(specification 14.3). All other modules are private.
"""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "environment": (
            "get_implicit_references",
            "get_system_prompt_suffix_fragments",
            "get_user_prompt_suffix_fragments",
        ),
        "steering": ("UndeliveredSteeringWarning",),
        "tool_function": ("Tool", "make_tool_function"),
        "tool_scope": ("ToolSet",),
        "tool_sets": ("ForeignTool",),
        "step_actor": ("StepActor", "StepSnapshot"),
        "usage_meter": ("UsageMeter",),
    },
)
