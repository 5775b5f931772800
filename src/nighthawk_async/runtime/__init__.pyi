"""Exports of `nighthawk_async.runtime`. Each name is loaded on first use."""

from .environment import (
    get_implicit_references,
    get_system_prompt_suffix_fragments,
    get_user_prompt_suffix_fragments,
)
from .steering import UndeliveredSteeringWarning
from .step_actor import StepActor, StepSnapshot
from .usage_meter import UsageMeter

__all__ = [
    "StepActor",
    "StepSnapshot",
    "UndeliveredSteeringWarning",
    "UsageMeter",
    "get_implicit_references",
    "get_system_prompt_suffix_fragments",
    "get_user_prompt_suffix_fragments",
]
