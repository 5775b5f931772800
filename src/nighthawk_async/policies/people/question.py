"""A question to a person, as its handler sees it."""

from dataclasses import dataclass, field

from ...runtime.validation import validate_value
from ...types.execution import ExecutionRef
from ...types.unset import UNSET

__all__ = ["Question"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """A question to a person. `ask_user` makes it.

    Args:
        id: What identifies the question.
        prompt: The text of the question. A model may have written it: show it as text, not as markup.
        schema: The type of the answer; `str` for any text.
        default: The value that stands for the answer when none comes in time; see `has_default`.
        attempt: The how manieth time it is asked, from 1.
        error: Why the last answer was refused; None when it is asked for the first time.
        execution_ref: Which run, scope and step asks; None outside a run.
    """

    id: str
    prompt: str
    schema: object = str
    default: object = field(default=UNSET)
    attempt: int = 1
    error: str | None = None
    execution_ref: ExecutionRef | None = None

    @property
    def has_default(self) -> bool:
        """Whether there is a default. A handler may give it as the answer."""
        return self.default is not UNSET

    def validate(self, answer: object) -> object:
        """The answer as who asks gets it, coerced as pydantic does; the default is taken as it is.

        Raises:
            ToolValidationError: It does not fit the schema.
        """
        if self.has_default and answer is self.default:
            return answer
        return validate_value(answer, self.schema, subject="the answer")
