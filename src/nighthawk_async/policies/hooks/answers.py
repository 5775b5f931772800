"""Answers of hooks to events."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from ...types.outcomes import Abort

__all__ = ["HookAnswer", "HookFunction", "Modify", "Veto"]

Event = TypeVar("Event")


@dataclass(frozen=True, slots=True)
class Veto:
    """Do not let it happen. The hooks that come later are not asked.

    Args:
        reason: Why. Reaches the model for a tool call; else it is the message of the `StepRejectedError` with
            which the step fails.
        guidance: What to do instead.
    """

    reason: str
    guidance: str | None = None


@dataclass(frozen=True, slots=True)
class Modify:
    """Let something else happen. The hooks that come later see the event with the new value.

    Args:
        value: What to put in the place of the field that the event's docstring names.
    """

    value: object


HookAnswer: TypeAlias = Veto | Modify | Abort | None
"""What a hook answers; None is to let it happen."""

HookFunction: TypeAlias = Callable[[Event], HookAnswer | Awaitable[HookAnswer]]
"""A hook: a function of an event, `def` or `async def`."""
