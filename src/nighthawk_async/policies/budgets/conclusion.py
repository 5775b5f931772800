"""Telling a model that its budget has room for one more answer only. Pure."""

from dataclasses import replace

from ...ports import Model
from ...runtime.step import Step
from ...runtime.step_context import StepContext
from ...runtime.tool_function import OUTCOME_TOOL_NAME
from ...types.messages import UserMessage
from ...types.model import ModelRequest, NamedToolChoice

__all__ = ["CONCLUSION_TOKENS", "concluding_request"]

_NOTE = (
    "The budget for this work is nearly spent: this is the last answer that there is room for. Begin nothing "
    "new. Set what is still to be set, with what you know, and end the block in this answer."
)
_THINKING = ("reasoning_effort", "thinking", "thinking_budget_tokens")
CONCLUSION_TOKENS = len(_NOTE)
"""More tokens than the note can have."""


def concluding_request(request: ModelRequest, model: Model, step: Step | None) -> ModelRequest:
    """The request with a message that says so.

    When nothing is left to be set, only the tool that ends the block may be called, where the model can be
    held to that.

    Args:
        request: The request.
        model: The model.
        step: The step; None for a request outside steps.
    """
    request = replace(request, messages=(*request.messages, UserMessage(content=(_NOTE,))))
    is_offered = any(tool.name == OUTCOME_TOOL_NAME for tool in request.tools)
    can_be_held = (
        request.tool_choice == "required"
        and model.capabilities.forced_tool_choice
        and not any(
            request.settings.get(name) for name in _THINKING
        )  # some never name a tool while they think
    )
    if is_offered and can_be_held and step is not None and _is_all_set(step.context):
        return replace(request, tool_choice=NamedToolChoice(name=OUTCOME_TOOL_NAME))
    return request


def _is_all_set(context: StepContext) -> bool:
    """Whether every write binding has a value."""
    return all(
        name in context.assigned_names or name in context.initial_values for name in context.write_names
    )
