"""Outcomes of a step (specification 8.4)."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .unset import UNSET

OutcomeKind: TypeAlias = Literal["pass", "return", "break", "continue", "raise"]
"""The ways in which a block may end (specification 8.4)."""

OUTCOME_KINDS: tuple[OutcomeKind, ...] = ("pass", "return", "break", "continue", "raise")
"""Every outcome kind, in the order in which prompts and errors list them."""


Reading: TypeAlias = Literal[
    "fence",
    "sentence",
    "json_text",
    "json_syntax",
    "no_kind",
    "kind",
    "binding_name",
    "binding_place",
    "extra_field",
    "choice",
    "statements",
    "code",
    "tool_name",
]
"""The forms of answers and calls that are read although they are not as they should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassStepOutcome:
    """Success without a change of control flow."""

    kind: Literal["pass"] = "pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnStepOutcome:
    """Return from the surrounding function, by an expression or with a value: exactly one of them.

    Args:
        return_expression: A Python expression over the step's names, whose value is returned; empty where
            there is a value.
        return_value: The value itself; `UNSET` where there is an expression.

    Raises:
        ValueError: There are both.
    """

    kind: Literal["return"] = "return"
    return_expression: str = ""
    return_value: object = UNSET

    def __post_init__(self) -> None:
        if self.return_expression and self.return_value is not UNSET:
            raise ValueError("a return outcome has a return_expression or a return_value, not both")


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakStepOutcome:
    """Leave the surrounding loop."""

    kind: Literal["break"] = "break"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueStepOutcome:
    """Continue with the next iteration of the surrounding loop."""

    kind: Literal["continue"] = "continue"


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseStepOutcome:
    """Fail, with a message or with an exception object: exactly one of them.

    Args:
        raise_message: The message of the exception; empty where there is an expression.
        raise_error_type: The name of the exception type, one of those the block allows; without it the step
            raises `ExecutionError`.
        raise_expression: A Python expression over the step's names, whose value is raised: an exception of a
            type that the block allows, or one that the program names. Empty where there is a message.

    Raises:
        ValueError: There is an expression, and a message or a type.
    """

    kind: Literal["raise"] = "raise"
    raise_message: str = ""
    raise_error_type: str | None = None
    raise_expression: str = ""

    def __post_init__(self) -> None:
        if self.raise_expression and (self.raise_message or self.raise_error_type is not None):
            raise ValueError(
                "a raise outcome has a raise_expression, or a raise_message and perhaps a raise_error_type"
            )


StepOutcome: TypeAlias = (
    PassStepOutcome | ReturnStepOutcome | BreakStepOutcome | ContinueStepOutcome | RaiseStepOutcome
)
"""The single, unambiguous result of executing a natural block."""


@dataclass(frozen=True, slots=True)
class Abort:
    """End the step with `StepAbortedError`. Its model is not informed, and the step is not retried.

    Args:
        reason: The reason, for the readers of the error.
    """

    reason: str
