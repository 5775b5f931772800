"""Changes that a call makes to its arguments in place. Later lives skip the call, and would miss them.

Arguments are compared before and after the call by their digests. What has no stable form cannot be compared.

Other tasks may change an object meanwhile, which is no change of the call. So those changes of an async call
count that happen while its own code runs: not those of tasks and threads that it starts. In a stage, which
starts many, every change counts as long as no other call that is watched was given the object.
"""

import logging
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from functools import partial
from inspect import Parameter, Signature, isawaitable
from pathlib import PurePath
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, cast
from uuid import UUID

from ..natural.tree import CLOSURE_NAMES
from ..values.stable_digest import stable_digests
from .errors import JournalValueError

_FIXED = frozenset(
    {type(None), bool, int, float, complex, str, bytes, range, Decimal, UUID, type(...), type(NotImplemented)}
)
_FIXED_BASES = (date, time, timedelta, tzinfo, Enum, PurePath)
_CODE = (FunctionType, MethodType, BuiltinFunctionType, ModuleType, type, partial)
_NO_VALUES: Mapping[str, object] = {}

_LOGGER = logging.getLogger("nighthawk")

_lock = threading.Lock()  # calls are made in threads, too
_watched: dict[int, list["WatchedCall"]] = {}  # the calls in progress by the objects that they were given


def data_of(values: Mapping[str, object]) -> Mapping[str, object]:
    """Those values that a call may change in place: neither immutable data nor code."""
    return {name: value for name, value in values.items() if _may_change(value)}


def _may_change(value: object) -> bool:
    kind = type(value)
    if kind in _FIXED or isinstance(value, (*_FIXED_BASES, *_CODE)):
        return False
    if kind is tuple or kind is frozenset:
        return any(map(_may_change, cast("tuple[object, ...]", value)))
    return True


def changed_error(place: str, call: str, changed: Sequence[str]) -> JournalValueError:
    """The error of a call that has changed what later lives would not change.

    Args:
        place: The place of the call.
        call: The call, as the beginning of a sentence.
        changed: The names of what it has changed.
    """
    names = ", ".join(f"<{name}>" for name in changed)
    return JournalValueError(
        f"{place}: {call} has changed {names} in place. Later lives get its result alone, and would miss "
        "that: return what is new, or give it a copy. Another task that changes an object meanwhile counts, "
        "too. A tool that changes objects in memory alone is one for nighthawk_async.journal.every_life. "
        "State that does not count, such as that of a client, is named by "
        "nighthawk_async.journal.register(cls, identity=…).",
        place=place,
    )


def mutable_defaults(signature: Signature) -> Mapping[str, object]:
    """The defaults of a function, which all of its calls share."""
    given = ((each.name, each.default) for each in signature.parameters.values())
    return {name: default for name, default in given if default is not Parameter.empty}


def closure_of(function: Callable[..., Any]) -> Mapping[str, object]:
    """The present values of the variables that a function takes from the functions around it.

    Those of functions that it wraps, too; but code, as other functions are, has variables of its own.
    """
    values: dict[str, object] = {}
    for each in _wrapped(function):
        cells: tuple[CellType, ...] = getattr(each, "__closure__", None) or ()
        for name, cell in zip(each.__code__.co_freevars if cells else (), cells, strict=True):
            try:
                value: object = cell.cell_contents
            except ValueError:  # it has no value yet
                continue
            if name not in CLOSURE_NAMES and name != "__class__" and not isinstance(value, _CODE):
                values[name] = value
    return values


def _wrapped(function: Any) -> Iterator[Any]:
    seen: set[int] = set()
    while function is not None and id(function) not in seen:
        seen.add(id(function))
        if isinstance(function, partial):
            function = function.func
            continue
        function = getattr(function, "__func__", function)  # of a method
        yield function
        function = getattr(function, "__wrapped__", None)


class WatchedCall:
    """One call, and what it may change in place.

    Args:
        values: Its arguments by name.
        read_variables: Returns the present values of the variables around the function; None for none.
    """

    def __init__(
        self,
        values: Mapping[str, object],
        read_variables: Callable[[], Mapping[str, object]] | None = None,
    ) -> None:
        self._values = data_of(values)
        self._read_variables = read_variables
        self._before: Mapping[str, str] = {}
        self._at_step: Mapping[str, str] | None = None
        self._is_in_step = self._is_shared = self._is_followed = False
        self._own: set[str] = set()  # what its own code has changed since others have the objects, too
        self._objects: tuple[object, ...] = ()

    def begin(self) -> None:
        """Note what there is before the call."""
        variables = self._variables()
        if not self._values and not variables:
            return
        self._before = self._digests()
        self._objects = (*self._values.values(), *data_of(variables).values())
        with _lock:
            others = [other for each in self._objects for other in _watched.get(id(each), ())]
            for each in self._objects:
                _watched.setdefault(id(each), []).append(self)
        for other in others:
            other.note_shared()
            self.note_shared()

    def end(self) -> list[str]:
        """Return the names of what the call has changed."""
        if not self._before and not self._objects:
            return []
        with _lock:
            for each in self._objects:
                calls = _watched.get(id(each), [])
                if self in calls:
                    calls.remove(self)
                if not calls:
                    _watched.pop(id(each), None)
        self._objects = ()
        changed = self._differing(self._before)
        return [name for name in changed if name in self._own] if self._follows_steps else changed

    @property
    def _follows_steps(self) -> bool:
        return self._is_shared and self._is_followed

    def note_shared(self) -> None:
        """Note that another call has one of the objects, too; what has changed until now is its own."""
        if self._is_shared:
            return
        self._own.update(self._differing(self._before))
        self._is_shared = True
        if self._is_in_step:
            self._at_step = self._digests()

    def follow(self, call: Awaitable[Any], *, is_alone: bool = False) -> Awaitable[Any]:
        """Return what awaits the call and looks at what its own code changes.

        Args:
            call: The call.
            is_alone: Whether what other tasks change counts as well, until another call has the objects.
        """
        if not self._before and not self._objects:
            return call
        self._is_followed = True
        self._is_shared = self._is_shared or not is_alone
        return _FollowedCall(call, self)

    def begin_step(self) -> None:
        """Note that the code of the call goes on."""
        self._is_in_step = True
        self._at_step = self._digests() if self._is_shared else None

    def end_step(self) -> None:
        """Note that it waits, or has ended."""
        self._is_in_step = False
        if self._at_step is not None:
            self._own.update(self._differing(self._at_step))

    def _variables(self) -> Mapping[str, object]:
        return _NO_VALUES if self._read_variables is None else self._read_variables()

    def _digests(self) -> Mapping[str, str]:
        return stable_digests({**self._variables(), **self._values})

    def _differing(self, before: Mapping[str, str]) -> list[str]:
        after = self._digests()
        return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def telling_changes(call: Callable[[], Any], owner: object, name: str) -> Callable[[], Any]:
    """Return the call of a tool that says in the log that it has changed the object it is a method of.

    It is not refused as other effects are: many such objects only count their calls.

    Args:
        call: The call.
        owner: The object; None for none.
        name: The name of the tool's function.
    """
    if owner is None or not _may_change(owner):
        return call

    def call_watched() -> Any:
        watched = WatchedCall({"self": owner})
        watched.begin()
        try:
            result = call()
        except BaseException:
            watched.end()
            raise
        if isawaitable(result):
            return _told_later(result, watched, name)
        _tell(watched.end(), name)
        return result

    return call_watched


async def _told_later(call: Awaitable[Any], watched: WatchedCall, name: str) -> Any:
    try:
        return await watched.follow(call)
    finally:
        _tell(watched.end(), name)


def _tell(changed: Sequence[str], name: str) -> None:
    if changed:
        _LOGGER.warning(
            "the tool %s has changed its object in place; later lives of the run get its result alone, and "
            "miss that. A tool that changes objects in memory is one for nighthawk_async.journal.every_life.",
            name,
        )


class _FollowedCall(Awaitable[Any]):
    """A call that is awaited step by step."""

    __slots__ = ("_call", "_watched")

    def __init__(self, call: Awaitable[Any], watched: WatchedCall) -> None:
        self._call = call
        self._watched = watched

    def __await__(self) -> Generator[Any, Any, Any]:
        steps: Any = self._call.__await__()
        resume, given = steps.send, None
        while True:
            self._watched.begin_step()
            try:
                awaited = resume(given)
            except StopIteration as end:
                return end.value
            finally:
                self._watched.end_step()
            try:
                given = yield awaited
                resume = steps.send
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                given, resume = error, steps.throw
