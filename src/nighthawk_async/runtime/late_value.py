"""The return value of a commit that is inspected before its return expression is evaluated.

What hooks and oversight are shown of such a commit has no return value yet. Whoever reads it all the same
wants to decide about the value: what it answers does not count, and it is asked again once there is one. So
everybody who decides without the value has decided before the expression does anything.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from dataclasses import fields, replace
from typing import Any, NoReturn, TypeVar, cast

from ..errors import NighthawkError
from ..types.unset import UNSET, Unset

__all__ = [
    "ask_early",
    "described",
    "raise_unknown",
    "reveal",
    "shown",
    "value_of",
    "wants_value",
    "with_changes",
]

Answer = TypeVar("Answer")
Subject = TypeVar("Subject")

_FIELD = "return_value"


class _Question:
    """One question about a commit, and whether who was asked has read the value that it does not have.

    Args:
        subject: What was shown.
        outer: The question during which this one is asked; None for none.
    """

    __slots__ = ("outer", "subject", "wants_value")

    def __init__(self, subject: object, outer: "_Question | None") -> None:
        self.subject = subject
        self.outer = outer
        self.wants_value = False


_question: ContextVar[_Question | None] = ContextVar("nighthawk_async_commit_question", default=None)


def shown(subject: Subject, return_value: object) -> Subject:
    """Give what shows a commit its return value, or none when that is UNSET.

    Args:
        subject: A fresh object with the slot `return_value`, whose `__getattr__` is `raise_unknown`.
        return_value: The value; UNSET when the expression is not evaluated yet.
    """
    object.__delattr__(subject, _FIELD)
    if return_value is not UNSET:
        reveal((subject,), return_value)
    return subject


def reveal(subjects: Iterable[object], return_value: object) -> None:
    """Give what was shown without a return value the one that there is now.

    Args:
        subjects: What was shown; what has a value keeps it.
        return_value: The value.
    """
    for subject in subjects:
        if not _has_value(subject):
            object.__setattr__(subject, _FIELD, return_value)


def with_changes(subject: Subject, **changes: object) -> Subject:
    """The same with other fields; without a return value when it has none.

    Args:
        subject: A frozen data class.
        changes: The fields that are others.
    """
    late = getattr(type(subject), "__getattr__", None) is raise_unknown and not _has_value(subject)
    if not late:
        return cast("Subject", replace(cast("Any", subject), **changes))
    return shown(cast("Subject", replace(cast("Any", subject), **{_FIELD: None, **changes})), UNSET)


def raise_unknown(subject: object, name: str) -> NoReturn:
    """Raise the error of objects without a return value yet, as their `__getattr__`."""
    if name != _FIELD:
        raise AttributeError(f"{type(subject).__name__!r} object has no attribute {name!r}")
    question = _question.get()
    while question is not None and question.subject is not subject:
        question = question.outer
    if question is not None:
        question.wants_value = True
    raise NighthawkError(
        "The return expression of this commit is not evaluated; see commit.outcome.return_expression."
    )


def value_of(subject: object) -> object:
    """Return the return value of what shows a commit; UNSET while it has none."""
    return object.__getattribute__(subject, _FIELD) if _has_value(subject) else UNSET


def described(subject: object) -> str:
    """Return the `__repr__` of objects with a late return value: logging them does not ask for the value."""
    names = [each.name for each in fields(cast("Any", subject)) if each.repr]
    texts = [f"{name}={getattr(subject, name)!r}" for name in names if name != _FIELD]
    value = repr(getattr(subject, _FIELD)) if _has_value(subject) else "<not evaluated>"
    texts.append(f"{_FIELD}={value}")
    return f"{type(subject).__qualname__}({', '.join(texts)})"


def wants_value() -> bool:
    """Whether who is being asked has read a return value that is not there yet."""
    question = _question.get()
    return question is not None and question.wants_value


async def ask_early(subject: object, ask: Callable[[], Awaitable[Answer]]) -> Answer | Unset:
    """Ask about a commit that may have no return value yet.

    Args:
        subject: What is shown.
        ask: Asks.

    Returns:
        The answer; UNSET when it has to be asked again, because the value was wanted.

    Raises:
        Exception: What asking raises, unless the value was wanted.
    """
    question = _Question(subject, _question.get())
    token = _question.set(question)
    try:
        answer = await ask()
    except Exception:
        if question.wants_value:
            return UNSET
        raise
    finally:
        _question.reset(token)
    return UNSET if question.wants_value else answer


def _has_value(subject: object) -> bool:
    try:
        object.__getattribute__(subject, _FIELD)
    except AttributeError:
        return False
    return True
