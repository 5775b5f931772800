"""Data for hooks and oversight: read-only, and perhaps without a return value yet.

A commit is inspected before its return expression is evaluated, when it has no return value. Deciding code
that reads it wants to decide about the value: its answer is ignored, and it is asked again once there is one.
So all code that decides without the value has decided before the expression has any effect.

Read-only data behave otherwise like dictionaries and lists: JSON can represent them, and their copies are
plain.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import fields, replace
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

from ..errors import NighthawkError
from ..types.unset import UNSET, Unset

_Unfilled: TypeAlias = tuple[object, Any, int]  # a dictionary or list, its empty copy, its depth

_MAX_DEPTH = 10_000
_put, _append = vars(dict)["__setitem__"], vars(list)["append"]
"""The methods that fill read-only copies, whose own methods refuse."""


def read_only(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a mapping that cannot be changed in place; its values can.

    Args:
        mapping: Any mapping.
    """
    return _ReadOnlyDict(mapping)


def deeply_read_only(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a mapping that cannot be changed in place, nor can dictionaries and lists in it.

    It may be nested as deep as a JSON parser accepts, deeper than Python's recursion limit.

    Args:
        mapping: A mapping of JSON values.

    Raises:
        RecursionError: It contains itself, or is nested deeper than any parser accepts.
    """
    copy = _ReadOnlyDict()
    to_fill: list[_Unfilled] = [(mapping, copy, 1)]
    while to_fill:
        source, target, depth = to_fill.pop()
        if depth > _MAX_DEPTH:
            raise RecursionError(f"nested deeper than {_MAX_DEPTH:,} levels")
        if type(target) is _ReadOnlyDict:
            for name, member in cast("Mapping[object, object]", source).items():
                _put(target, name, _begin_copy(member, depth, to_fill))
        else:
            for member in cast("list[object]", source):
                _append(target, _begin_copy(member, depth, to_fill))
    return copy


def _begin_copy(member: object, depth: int, to_fill: list[_Unfilled]) -> object:
    """Return the read-only form of a member at a depth; copies are filled later."""
    is_mapping = isinstance(member, Mapping)
    if not is_mapping and not isinstance(member, list | tuple):
        return member
    copy = _ReadOnlyDict() if is_mapping else _ReadOnlyList()
    to_fill.append((cast("object", member), copy, depth + 1))
    return copy


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError(
        "data shown to hooks and oversight is read-only: answer Modify(…), or Rewrite(…), with a changed copy"
    )


def _read_only_type(plain: type, *names: str) -> Any:
    methods: dict[str, Any] = dict.fromkeys(names, _refuse)

    def reduce_to_plain(self: object) -> tuple[type, tuple[object]]:
        return plain, (plain(self),)

    methods["__reduce__"] = reduce_to_plain  # for copies and pickles
    return type(f"ReadOnly{plain.__name__.title()}", (plain,), {"__slots__": (), **methods})


_IN_BOTH = ("__setitem__", "__delitem__", "clear", "pop")
_ReadOnlyDict = _read_only_type(dict, *_IN_BOTH, "__ior__", "popitem", "setdefault", "update")
_ReadOnlyList = _read_only_type(
    list, *_IN_BOTH, "__iadd__", "__imul__", "append", "extend", "insert", "remove", "reverse", "sort"
)


Answer = TypeVar("Answer")
Subject = TypeVar("Subject")

_FIELD = "return_value"


class _Question:
    """One question about a commit; records whether the missing value was read.

    Args:
        subject: The object that was shown.
        outer: The question during which this one is asked; None for none.
    """

    __slots__ = ("outer", "subject", "wants_value")

    def __init__(self, subject: object, outer: "_Question | None") -> None:
        self.subject = subject
        self.outer = outer
        self.wants_value = False


_question: ContextVar[_Question | None] = ContextVar("nighthawk_async_commit_question", default=None)


def shown(subject: Subject, return_value: object) -> Subject:
    """Set the return value of an object that shows a commit; leave it missing if it is UNSET.

    Args:
        subject: A fresh object with the slot `return_value`, whose `__getattr__` is `raise_unknown`.
        return_value: The value; UNSET if the expression is not evaluated yet.
    """
    object.__delattr__(subject, _FIELD)
    if return_value is not UNSET:
        reveal((subject,), return_value)
    return subject


def reveal(subjects: Iterable[object], return_value: object) -> None:
    """Set the return value of objects that were shown without one.

    Args:
        subjects: The objects that were shown; those with a value keep it.
        return_value: The value.
    """
    for subject in subjects:
        if not _has_value(subject):
            object.__setattr__(subject, _FIELD, return_value)


def with_changes(subject: Subject, **changes: object) -> Subject:
    """Return a copy with other fields; without a return value if neither the object nor the changes have one.

    Args:
        subject: An object of a frozen data class.
        changes: The changed fields.
    """
    late = getattr(type(subject), "__getattr__", None) is raise_unknown and not _has_value(subject)
    if not late or _FIELD in changes:
        return cast("Subject", replace(cast("Any", subject), **changes))
    return shown(cast("Subject", replace(cast("Any", subject), **{_FIELD: None, **changes})), UNSET)


def raise_unknown(subject: object, name: str) -> NoReturn:
    """Raise the error of an object without a return value; serves as `__getattr__`."""
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
    """Return the return value of an object that shows a commit; UNSET while it has none."""
    return object.__getattribute__(subject, _FIELD) if _has_value(subject) else UNSET


def described(subject: object) -> str:
    """Return the `repr` of an object with a late return value; it does not count as reading the value."""
    names = [each.name for each in fields(cast("Any", subject)) if each.repr]
    texts = [f"{name}={getattr(subject, name)!r}" for name in names if name != _FIELD]
    value = repr(getattr(subject, _FIELD)) if _has_value(subject) else "<not evaluated>"
    texts.append(f"{_FIELD}={value}")
    return f"{type(subject).__qualname__}({', '.join(texts)})"


def wants_value() -> bool:
    """Whether the code being asked has read a return value that does not exist yet."""
    question = _question.get()
    return question is not None and question.wants_value


async def ask_early(subject: object, ask: Callable[[], Awaitable[Answer]]) -> Answer | Unset:
    """Ask about a commit that may have no return value yet.

    Args:
        subject: The object that is shown.
        ask: Asks for the answer.

    Returns:
        The answer; UNSET if the value was read, so that it has to be asked again.

    Raises:
        Exception: Any error of `ask`, unless the value was read.
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
