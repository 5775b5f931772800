"""Calls of natural functions as policies see them, and the way of a call through those around it."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType, MappingProxyType
from typing import Any, Protocol, TypeAlias

from ..errors import HookError
from ..types.execution import ExecutionRef
from ..values.error_text import describe_error
from .commit import check_answer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionCall:
    """A call of a natural function.

    Args:
        function: The natural function, as its decorator has made it.
        arguments: Its arguments by name, defaults and the object of a method included, in a read-only
            mapping. Those of `*args` and `**options` are a tuple and a dictionary under these names.
        execution_ref: The run, the scope and the step that it is called in.
        parent: The call in the same run that it is part of; None if policies were around none.
    """

    function: FunctionType
    arguments: Mapping[str, Any]
    execution_ref: ExecutionRef
    parent: "FunctionCall | None" = field(default=None, repr=False)
    _commits: list[tuple[str, Mapping[str, Any]]] = field(
        default_factory=list[tuple[str, Mapping[str, Any]]], repr=False
    )

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @property
    def qualified_name(self) -> str:
        """The name of the function with the classes and functions that it is in."""
        return self.function.__qualname__

    @property
    def is_async(self) -> bool:
        """Whether the function is `async def`."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def committed(self) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """The commits of its own blocks so far, in order: the id of the step, and the values by name.

        They can be read after `proceed()`, also when it raised.
        """
        return tuple(self._commits)

    def changed(self, *, arguments: Mapping[str, Any]) -> "FunctionCall":
        """Return a copy with other values for some arguments, to proceed with; they are not validated."""
        return replace(self, arguments=MappingProxyType({**self.arguments, **arguments}))

    def note_commit(self, step_id: str, bindings: Mapping[str, Any]) -> None:
        """Note that a block of the call commits. Internal."""
        self._commits.append((step_id, MappingProxyType(dict(bindings))))


class AroundFunction(Protocol):
    """A policy around calls of natural functions."""

    async def around_function(self, call: FunctionCall, proceed: "FunctionProceed") -> Any:
        """See `policy.Policy.around_function`."""
        ...


Run: TypeAlias = Callable[[FunctionCall], Awaitable[Any]]
"""Runs the function of a call, and returns its validated value."""

_NOTHING = object()


class FunctionProceed:
    """Goes on with a call: to the policies inside of one, and to the function. It may be called once."""

    __slots__ = ("_call", "_fold", "_index", "_is_spent", "given")

    def __init__(self, fold: "FunctionFold", index: int, call: FunctionCall) -> None:
        self._fold = fold
        self._index = index
        self._call = call
        self._is_spent = False
        self.given: object = _NOTHING

    async def __call__(self, call: FunctionCall | None = None) -> Any:
        """Run the function.

        Args:
            call: The call, maybe changed with `FunctionCall.changed`; None for the one that was given.

        Returns:
            What the function returned, as policies inside give it.

        Raises:
            HookError: It was called before, or after `around_function` has returned; or the changed call is
                not acceptable.
            Exception: Any error of the function.
        """
        if self._is_spent:
            raise HookError(
                "A policy can call `proceed` once, inside `around_function`: it makes one call.",
                hook="proceed",
            )
        if call is not None and call is not self._call:
            call = _checked(call, self._call, self._fold.method_of(self._index))
        self._is_spent = True
        self.given = await self._fold.ask(self._index + 1, call or self._call)
        return self.given

    def close(self) -> None:
        """Refuse to go on from now on: the policy has returned. Internal."""
        self._is_spent = True


class FunctionFold:
    """The policies around one call.

    Args:
        policies: Those that override `around_function`, outermost first.
        run: Runs the function.
        check: Returns the validated form of a value that a policy returns instead of the function.
    """

    __slots__ = ("_check", "_policies", "_run")

    def __init__(
        self, policies: Sequence[AroundFunction], run: Run, check: Callable[[object], object]
    ) -> None:
        self._policies = policies
        self._run = run
        self._check = check

    async def ask(self, index: int, call: FunctionCall) -> Any:
        """Ask the policy at an index, around those behind it; the outermost one has the index 0."""
        if index == len(self._policies):
            return await self._run(call)
        proceed = FunctionProceed(self, index, call)
        try:
            answer: object = self._policies[index].around_function(call, proceed)
            if not inspect.isawaitable(answer):
                raise self._error(index, f"gave {answer!r}: it must be `async def`")
            value: object = await answer
        finally:
            proceed.close()
        return value if value is proceed.given else self._checked(value, index, call)

    def _checked(self, value: object, index: int, call: FunctionCall) -> object:
        """The validated form of a value of a policy's own."""
        if inspect.iscoroutine(value):
            value.close()
            raise self._error(index, f"returned {value!r}: an `await` is missing")
        try:
            return self._check(value)
        except Exception as error:
            what = f"answered for {call.qualified_name}(): {describe_error(error)}"
            raise self._error(
                index, what, f"gave no value that {call.qualified_name}() may return"
            ) from error

    def _error(self, index: int, what: str, without_content: str | None = None) -> HookError:
        method = self.method_of(index)
        error = HookError(f"{method} {what}", hook=method)
        return error.without_content(f"{method} {without_content or 'must be awaited'}")

    def method_of(self, index: int) -> str:
        """The name of a policy's method, for errors."""
        return f"{type(self._policies[index]).__qualname__}.around_function"


def _checked(call: FunctionCall, given: FunctionCall, method: str) -> FunctionCall:
    """Check a call that a policy wants made instead of another one, and return it.

    Raises:
        HookError: It is no call, that of another function, or has arguments that the function cannot have.
    """
    check_answer(call, FunctionCall, method)
    check_answer(call.arguments, Mapping, method)
    problem = _problem_of(call, given)
    if problem is not None:
        what = f"{method} changed the call of {given.qualified_name}(): {problem}"
        raise HookError(what, hook=method).without_content(what)
    return replace(given, arguments=MappingProxyType(dict(call.arguments)))


def _problem_of(call: FunctionCall, given: FunctionCall) -> str | None:
    """The reason why a changed call cannot be made; None for none."""
    if call.function is not given.function:
        return "it has another function"
    names, found = given.arguments.keys(), call.arguments.keys()
    if unknown := [name for name in found if name not in names]:
        return f"it has no argument {unknown[0]!r}"
    if missing := [name for name in names if name not in found]:
        return f"the argument {missing[0]!r} is missing"
    parameters = inspect.signature(given.function, follow_wrapped=False).parameters.values()
    named = {each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    for each in parameters:
        if each.kind is each.VAR_POSITIONAL and not isinstance(call.arguments[each.name], list | tuple):
            return f"the argument {each.name!r} is no list or tuple"
        if each.kind is each.VAR_KEYWORD and not _are_keywords(call.arguments[each.name], named):
            return f"the argument {each.name!r} is no dictionary of further arguments"
    return None


def _are_keywords(value: Any, taken: set[str]) -> bool:
    try:
        return taken.isdisjoint(dict[str, object](**value))
    except TypeError:  # no mapping, or its keys are no texts
        return False


def passed(call: FunctionCall) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call as its function takes them: those by position, and those by keyword."""
    code, arguments = call.function.__code__, call.arguments
    count, names = code.co_argcount, code.co_varnames
    end = count + code.co_kwonlyargcount
    by_position = [arguments[name] for name in names[:count]]
    by_keyword = {name: arguments[name] for name in names[count:end]}
    if code.co_flags & inspect.CO_VARARGS:
        by_position += arguments[names[end]]
        end += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        by_keyword |= arguments[names[end]]
    return tuple(by_position), by_keyword
