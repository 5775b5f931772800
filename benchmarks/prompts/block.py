"""A block of the case, and the answer of a reader who makes no mistake."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .facts import Fact

__all__ = ["Answer", "Block", "aborts", "expressed", "goes_on", "returns", "sets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a step is answered: its outcome, and what has to be called before it.

    Data is given as JSON values. Where the library takes no data, the reader writes it as Python literals.

    Args:
        kind: The kind of the outcome.
        bindings: The values of write bindings, as data.
        value: The value to return as data; None with `has_value` false for none.
        has_value: Whether `value` is to be returned.
        expression: The Python expression whose value is returned.
        assignments: Expressions for names or fields, which must be Python as they call something.
        evaluations: Expressions that change objects in place.
        first: Expressions whose results have to be read before anything can be said. They cost a response.
        raise_message: The message of an exception.
        raise_error_type: The name of its type.
    """

    kind: Literal["pass", "return", "break", "continue", "raise"] = "pass"
    bindings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    value: Any = None
    has_value: bool = False
    expression: str | None = None
    assignments: Mapping[str, str] = field(default_factory=dict[str, str])
    evaluations: Sequence[str] = ()
    first: Sequence[str] = ()
    raise_message: str | None = None
    raise_error_type: str | None = None

    @property
    def responses(self) -> int:
        """How many responses it takes."""
        return 2 if self.first else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A natural function with inputs, and what there is to know of a right answer.

    Args:
        name: Its name, a few words joined by hyphens.
        what: What users do with such a block.
        call: Calls the natural function with fresh inputs; gives what is checked.
        is_right: Whether that is right. It may raise an error for what is not.
        facts: What an answer needs to know.
        answers: The right answers, one for each step in their order.
    """

    name: str
    what: str
    call: Callable[[], Awaitable[Any]]
    is_right: Callable[[Any], bool]
    facts: tuple[Fact, ...]
    answers: tuple[Answer, ...]

    @property
    def own_round_trips(self) -> int:
        """The most responses that one of its steps takes when nothing is missing."""
        return max(answer.responses for answer in self.answers)


def returns(value: object) -> Answer:
    """Return data."""
    return Answer(kind="return", value=value, has_value=True)


def expressed(expression: str, *, first: Sequence[str] = (), evaluations: Sequence[str] = ()) -> Answer:
    """Return the value of a Python expression."""
    return Answer(kind="return", expression=expression, first=first, evaluations=evaluations)


def sets(**bindings: object) -> Answer:
    """Set variables and go on."""
    return Answer(bindings=bindings)


def goes_on(
    kind: Literal["pass", "break", "continue"] = "pass",
    *,
    evaluations: Sequence[str] = (),
    assignments: Mapping[str, str] | None = None,
    **bindings: object,
) -> Answer:
    """End without a value, after calls of functions or methods."""
    return Answer(kind=kind, evaluations=evaluations, assignments=assignments or {}, bindings=bindings)


def aborts(message: str, error_type: str | None = None) -> Answer:
    """Raise an exception."""
    return Answer(kind="raise", raise_message=message, raise_error_type=error_type)
