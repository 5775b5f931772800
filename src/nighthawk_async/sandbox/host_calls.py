"""Calls that code in a sandbox makes of the program, through the actor of its step.

Each is admitted as the calls of other code are: by the permissions of the step, which may ask people, and
with the arguments of natural functions checked. It is then a message to the actor, in the order of the calls;
what has to be awaited is awaited outside the actor, so that calls which the code makes together run together.
"""

import builtins
from collections.abc import Awaitable, Callable
from types import BuiltinFunctionType, MethodType, ModuleType
from typing import Any

from ..errors import ToolBoundaryError, ToolEvaluationError, ToolValidationError
from ..kernel.actor import Pending, StepActor
from ..kernel.assignment import with_checked_arguments
from ..kernel.calls import take_place
from ..kernel.commands import CallGuard
from ..kernel.environment import find_journal
from ..parallel.task_current import using_positions
from ..parallel.task_node import Positions
from ..policies.code_levels.class_makers import check_called, check_given
from ..policies.code_levels.members import SPECIAL, Members, is_private, makes_powers
from .crossing import HostObjects, Reference, is_async_call
from .errors import CrossingError
from .sessions import Crossed, HostError

_CATCHABLE = (ToolBoundaryError, ToolEvaluationError, ToolValidationError, CrossingError, TypeError)


class HostCalls:
    """The program, as the code of one step reaches it.

    Args:
        actor: The actor of the step.
        objects: The objects that were sent.
    """

    def __init__(self, actor: StepActor, objects: HostObjects) -> None:
        self._actor = actor
        self._objects = objects
        self.failures: list[BaseException] = []
        """The errors of calls, for the code to catch."""

    def is_async(self, target: Reference, method: str | None) -> bool:
        """Whether the calls of a function, class or method have to be awaited by the code."""
        try:
            function = self._function(target, method)
        except HostError:
            return False
        return is_async_call(function) and not isinstance(function, type)

    async def begin(
        self, target: Reference, method: str | None, args: list[Crossed], kwargs: dict[str, Crossed]
    ) -> Callable[[], Awaitable[Crossed]]:
        """Make a call, and return what waits for its result.

        Raises:
            HostError: It is refused.
        """
        function = self._function(target, method)
        written = target.name if method is None else f"{target.name}.{method}"
        positions = None if find_journal() is None else Positions(take_place("call"))
        try:
            given = [self._objects.received(each) for each in args]
            named = {name: self._objects.received(each) for name, each in kwargs.items()}
            for each in (*given, *named.values()):
                check_given(each, function)
            call = await self._admitted(self._actor.call_guard, written, function, given, named)
        except _CATCHABLE as error:
            raise self._failed(error) from error
        if positions is None:
            pending = self._actor.post_call(written, call)
        else:
            with using_positions(positions, is_own=True):
                pending = self._actor.post_call(written, call)

        async def finish() -> Crossed:
            if positions is None:
                return await self._result(pending)
            with using_positions(positions):
                return await self._result(pending)

        return finish

    async def attribute(self, target: Reference, name: str) -> Crossed:
        """Read a public attribute of an object.

        Raises:
            HostError: There is none, or it cannot cross.
        """
        pending = self._actor.post_call(f"{target.name}.{name}", lambda: self._read(target, name))
        return await self._crossed(pending)

    def _read(self, target: Reference, name: str) -> Crossed:
        """Read an attribute, in the actor's turn; an awaitable one crosses as an object."""
        return self._objects.sent(self._member(target, name))

    async def _admitted(
        self,
        guard: CallGuard | None,
        written: str,
        function: Callable[..., object],
        args: list[object],
        kwargs: dict[str, object],
    ) -> Callable[[], object]:
        if guard is not None:
            admitted: Any = await guard.admit_waiting(written, function, *args, **kwargs)
            return admitted
        made, positional, named = with_checked_arguments(function, tuple(args), kwargs)
        return lambda: made(*positional, **named)

    async def _result(self, pending: Pending[object]) -> Crossed:
        value = await self._crossed(pending)
        try:
            return self._objects.sent(value)
        except CrossingError as error:
            raise self._failed(error) from error

    async def _crossed(self, pending: Pending[object]) -> Any:
        try:
            return await self._actor.settle(pending)
        except ToolEvaluationError as error:
            cause = error.__cause__ or error
            raise (cause if isinstance(cause, HostError) else self._failed(cause)) from error
        except _CATCHABLE as error:
            raise self._failed(error) from error

    def _failed(self, error: BaseException) -> HostError:
        self.failures.append(error)
        return HostError(error)

    def _function(self, target: Reference, method: str | None) -> Callable[..., Any]:
        if method is None:
            found = self._objects.find(target.key)
            function: object = None if found is None else found[1]
        else:
            function = self._member(target, method)
        if not callable(function):
            raise HostError(TypeError(f"'{target.name}' object is not callable"))
        if _is_of_interpreter(function) or makes_powers(function) or makes_powers(_owner_of(function)):
            raise HostError(TypeError(f"{target.name} is not available in the sandbox"))
        try:
            return check_called(function)
        except ToolBoundaryError as error:
            raise self._failed(error) from error

    def _member(self, target: Reference, name: str) -> object:
        """A public attribute of an object.

        Raises:
            HostError: There is none.
        """
        found = self._objects.find(target.key)
        if found is None or is_private(name):
            raise HostError(AttributeError(f"'{target.name}' object has no attribute '{name}'"))
        try:
            owner = found[1]
            value = Members.special(owner, name) if name in SPECIAL else Members.member(getattr(owner, name))
        except AttributeError as error:
            raise HostError(error) from error
        except Exception as error:  # a property of the program may raise anything
            raise self._failed(error) from error
        if isinstance(owner, ModuleType) and getattr(value, "__module__", owner.__name__) != owner.__name__:
            raise HostError(AttributeError(f"'{name}' is not the module's own"))
        return value


def _owner_of(function: object) -> object:
    """The class or object of a bound method; None for other callables."""
    return function.__self__ if isinstance(function, MethodType) else None


def _is_of_interpreter(function: object) -> bool:
    """Whether a callable is one of Python's builtins, of which the sandbox has its own, or makes classes."""
    if isinstance(function, type):
        return issubclass(function, type) or function is object
    return isinstance(function, BuiltinFunctionType) and function.__self__ is builtins


def as_caught(error: BaseException) -> tuple[str, str]:
    """The class and the message with which code catches an error of the program: one of Python's own.

    A refusal is a `PermissionError`.
    """
    if isinstance(error, ToolBoundaryError):
        return "PermissionError", error.message
    kind = next((each for each in type(error).__mro__ if each.__module__ == "builtins"), Exception)
    if kind not in _CAUGHT:
        kind = RuntimeError
    text = str(error.args[0]) if kind is KeyError and len(error.args) == 1 else str(error)
    return kind.__name__, text if kind is type(error) else f"{type(error).__name__}: {text}".removesuffix(
        ": "
    )


_CAUGHT: frozenset[type] = frozenset(
    {Exception, ArithmeticError, OverflowError, ZeroDivisionError, LookupError, IndexError, KeyError}
    | {RuntimeError, NotImplementedError, RecursionError, AttributeError, NameError, ValueError}
    | {OSError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError}
    | {AssertionError, MemoryError, TimeoutError, TypeError}
)
