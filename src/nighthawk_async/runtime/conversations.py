"""The conversation of the last step of a task, and the past that the steps of a scope begin with.

A context variable holds the last step: nothing else follows the code of the caller alone, so that tasks that
run at the same time never see each other's. A task keeps one conversation at most: the next step replaces it.
"""

from contextvars import ContextVar

from msgspec import Struct

from ..types.messages import Message
from ..types.outcomes import OutcomeKind
from .error_text import describe_error
from .usage_meter import UsageMeter


class Past(Struct, frozen=True, kw_only=True, eq=False):
    """Messages that the steps of a scope begin with.

    Args:
        messages: The messages, oldest first; every call has its result.
        model: The id of the model whose provider content they hold.
    """

    messages: tuple[Message, ...]
    model: str


class Conversation(Struct, frozen=True, kw_only=True, eq=False):
    """The conversation of a step with its model.

    Args:
        model: The id of the model; empty for an agent of the program's own.
        system_prompt: The system prompt.
        messages: All messages, oldest first. The last calls may lack results.
        tools: The names of the tools that were offered, without the one that delivers the outcome.
    """

    model: str
    system_prompt: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...]


class LastStep:
    """The facts of one step that are kept for its task, until the task begins another one.

    The `with` statement holds the step. It refers neither to the values of the step nor to its error.

    Args:
        step_id: The block.

    Attributes:
        has_ended: Whether the step has ended.
        conversation: The conversation of its last attempt; None if its executor reported none.
        usage_meter: The usage of its last attempt; None if it could not be prepared.
        outcome: The kind of its outcome; None if it has none.
        error: Its error, in words; None if it did not fail.
    """

    __slots__ = ("conversation", "error", "has_ended", "outcome", "step_id", "usage_meter")

    def __init__(self, step_id: str) -> None:
        self.step_id = step_id
        self.has_ended = False
        self.conversation: Conversation | None = None
        self.usage_meter: UsageMeter | None = None
        self.outcome: OutcomeKind | None = None
        self.error: str | None = None

    def begin_attempt(self, usage_meter: UsageMeter) -> None:
        """Forget the attempt before; an attempt begins.

        Args:
            usage_meter: Its usage.
        """
        self.conversation = None
        self.usage_meter = usage_meter

    def __enter__(self) -> "LastStep":
        _last_step.set(self)
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        self.has_ended = True
        if exc is not None:
            self.outcome = None
            self.error = "cancelled" if "Cancelled" in type(exc).__name__ else describe_error(exc)
        _last_step.set(self)  # an executor may have run other steps in the same context


_last_step: ContextVar[LastStep | None] = ContextVar("nighthawk_async_last_step", default=None)


def find_last_step() -> LastStep | None:
    """Return the step that the task of the caller ran last, in progress or not; None for none."""
    return _last_step.get()
