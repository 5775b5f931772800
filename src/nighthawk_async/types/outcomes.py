"""How a step ends (specification 8.4). Floor 0."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "OUTCOME_KINDS",
    "BreakStepOutcome",
    "ContinueStepOutcome",
    "OutcomeKind",
    "PassStepOutcome",
    "RaiseStepOutcome",
    "ReturnStepOutcome",
    "StepOutcome",
]

OutcomeKind: TypeAlias = Literal["pass", "return", "break", "continue", "raise"]

OUTCOME_KINDS: tuple[OutcomeKind, ...] = ("pass", "return", "break", "continue", "raise")
"""Every outcome kind, in the order in which prompts and errors list them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassStepOutcome:
    """Success without a change of control flow."""

    kind: Literal["pass"] = "pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnStepOutcome:
    """Return from the surrounding function.

    Args:
        return_expression: A Python expression over the step's names, whose value is returned.
    """

    kind: Literal["return"] = "return"
    return_expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakStepOutcome:
    """Leave the surrounding loop."""

    kind: Literal["break"] = "break"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueStepOutcome:
    """Go on with the next iteration of the surrounding loop."""

    kind: Literal["continue"] = "continue"


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseStepOutcome:
    """Fail.

    Args:
        raise_message: The message of the exception.
        raise_error_type: The name of the exception type, one of those the block allows; without it the step
            raises `ExecutionError`.
    """

    kind: Literal["raise"] = "raise"
    raise_message: str
    raise_error_type: str | None = None


StepOutcome: TypeAlias = (
    PassStepOutcome | ReturnStepOutcome | BreakStepOutcome | ContinueStepOutcome | RaiseStepOutcome
)
"""The single, unambiguous result of executing a natural block."""
