"""The conversation of the last step of a task, and the past that the steps of a scope begin with.

A task keeps the conversation of its last step alone. Tasks inherit copies of the context variables, so a step
also knows the task that ran it: other tasks do not see it, and do not keep its conversation alive.
"""

import weakref
from collections.abc import Sequence
from contextvars import ContextVar
from functools import partial

from msgspec import Struct

from ..parallel.event_loop import find_task
from ..types.messages import AssistantMessage, Message
from ..types.outcomes import OutcomeKind
from .error_text import describe_error
from .usage_meter import UsageMeter


def begins_turn(messages: Sequence[Message], index: int) -> bool:
    """Whether a message is a response that begins a turn, rather than go on after a pause of the provider.

    Args:
        messages: Messages, oldest first.
        index: The index of the message.
    """
    before = messages[index - 1] if index else None
    return isinstance(messages[index], AssistantMessage) and not isinstance(before, AssistantMessage)


class Past(Struct, frozen=True, kw_only=True, eq=False):
    """Messages that the steps of a scope begin with.

    Args:
        messages: The messages, oldest first; every call has its result.
        model: The id of the model whose provider content they hold.
    """

    messages: tuple[Message, ...]
    model: str


class KeptConversation(Struct, frozen=True, kw_only=True, eq=False):
    """The conversation of a step with its model, as its task keeps it.

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
    """The facts of one step that its task keeps until it begins another one.

    The `with` statement holds the step. Nothing here refers to the values of the step or to its error.

    Args:
        step_id: The block.

    Attributes:
        conversation: The conversation of its last attempt; None if its executor reported none.
        usage_meter: The usage of its last attempt; None if it could not be prepared.
        outcome: The kind of its outcome; None if it has none.
        error: Its error, in words; None if it did not fail.
    """

    __slots__ = ("__weakref__", "_task", "conversation", "error", "outcome", "step_id", "usage_meter")

    def __init__(self, step_id: str) -> None:
        task, before = find_task(), _last_step.get()
        if before is not None and before.is_of(task):
            before.conversation = None  # other contexts may still have it
        self.step_id = step_id
        self.conversation: KeptConversation | None = None
        self.usage_meter: UsageMeter | None = None
        self.outcome: OutcomeKind | None = None
        self.error: str | None = None
        self._task = weakref.ref(task, partial(_forget_conversation, weakref.ref(self)))

    def is_of(self, task: object) -> bool:
        """Whether a task ran it.

        Args:
            task: The task, as `parallel.event_loop.find_task` returns it.
        """
        return self._task() is task

    def begin_attempt(self, usage_meter: UsageMeter) -> None:
        """Forget the attempt before; an attempt begins.

        Args:
            usage_meter: Its usage.
        """
        self.conversation = None
        self.usage_meter = usage_meter

    def __enter__(self) -> "LastStep":
        _last_step.set(None)  # so that nothing that begins within the step inherits it
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if exc is not None:
            self.outcome = None
            self.error = "cancelled" if "Cancelled" in type(exc).__name__ else describe_error(exc)
        _last_step.set(self)


_last_step: ContextVar[LastStep | None] = ContextVar("nighthawk_async_last_step", default=None)


def find_last_step() -> LastStep | None:
    """Return the last step that the task of the caller has ended; None for none."""
    last = _last_step.get()
    return last if last is not None and last.is_of(find_task()) else None


def _forget_conversation(last: "weakref.ref[LastStep]", task: object) -> None:
    """Forget the conversation of a step whose task has ended."""
    step = last()
    if step is not None:
        step.conversation = None
