"""Guard between the code of a step and the functions that it calls, under permissions.

Code that people may be asked about is a coroutine (see `permissions.guarded_code`). It begins in the turn of
the step actor and, as long as nobody is asked, ends in it, like code without a guard. When it has to ask, it
pauses, and whoever wants its value goes on with it outside of the actor.
"""

import sys
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, cast

from ...runtime.blocking import PausedCode
from ...runtime.expression import StepNamespace
from ...runtime.step_context import StepContext
from ...runtime.tool_function import ToolScope
from .call import PermissionCall
from .call_checks import CallChecks
from .equivalents import without_operators
from .guarded_code import compile_guarded, is_coroutine_code, with_guard
from .internals import check_internals
from .permissions import PermissionDecision, Permissions
from .refusals import refusal_of_asking, refusal_of_change

__all__ = ["CallGuard"]


class CallGuard(CallChecks):
    """The guard of one step: what its code calls instead of calling.

    Args:
        context: The state of the step.
        permissions: The sets in force, at least one.
        tools: The tools of the step.
        ask: Asks people about a call; raises `ToolBoundaryError` unless it is approved.
        report: Tells of decisions.
    """

    __slots__ = ("_ask", "is_in_turn", "may_wait")

    def __init__(
        self,
        context: StepContext,
        permissions: Sequence[Permissions],
        *,
        tools: ToolScope,
        ask: Callable[[PermissionCall], Awaitable[None]],
        report: Callable[[PermissionCall, PermissionDecision], None],
    ) -> None:
        super().__init__(context, permissions, tools=tools, report=report)
        self._ask = ask
        self.may_wait = any(each.may_ask for each in permissions)
        """Whether there may be somebody to wait for."""
        self.is_in_turn = False
        """Whether the step actor carries code out, so that what has to wait must pause."""

    def run(
        self, namespace: StepNamespace, code: types.CodeType, text: str, mode: Literal["eval", "exec"]
    ) -> object:
        """Run code; see `call_guard.CallGuard.run`."""
        self.check_text(text, mode)
        guarded = compile_guarded(text, filename=code.co_filename, mode=mode, may_wait=self.may_wait)
        value = namespace.run(with_guard(guarded, self))
        if is_coroutine_code(guarded) and not is_coroutine_code(code):
            with namespace.in_force():
                return _begin(cast("Coroutine[Any, Any, object]", value), self)
        return value

    def admit(self, written: str, function: object, /, *args: object, **kwargs: object) -> object:
        """Admit a call where nothing can wait.

        Args:
            written: How the call is written; empty for what is no name.
            function: What is called.
            args: The positional arguments.
            kwargs: The keyword arguments.

        Returns:
            What to call, without arguments.

        Raises:
            ToolBoundaryError: The call is not permitted, or people would have to be asked.
            TypeError: The function cannot be called with these arguments.
            HookError: A rule, or a hook, failed.
        """
        if not callable(function):
            return function  # calling it raises what Python raises
        made = without_operators(function, args, kwargs)
        call = self.check(written, *made)
        if call is not None:
            raise refusal_of_asking(call)
        return _prepared(*made)

    async def admit_waiting(
        self, written: str, function: object, /, *args: object, **kwargs: object
    ) -> object:
        """Admit a call, after asking people where that is needed; see `admit`."""
        if not callable(function):
            return function
        made = without_operators(function, args, kwargs)
        call = self.check(written, *made)
        if call is not None:
            if self.is_in_turn:
                await _Pause()
            await self._ask(call)
            if self.names.receiver(made[0])[0] != call.receiver:
                raise refusal_of_change(call)
        return _prepared(*made)

    def check_text(self, text: str, mode: Literal["eval", "exec"]) -> None:
        """Admit code that is about to run, where it sees only what the block names.

        Raises:
            NameError: It needs a builtin that the block does not name.
            ToolBoundaryError: It reads an attribute that leads to names that the block does not name.
        """
        if self._context.visible_builtins is not None:
            check_internals(text, mode, self._context)

    def raising(self, error: object, /) -> object:
        """Admit that a class is called by `raise`."""
        if isinstance(error, type):
            self.admit("", error)
        return error

    def derive_all(self, bases: Iterable[object], /) -> tuple[object, ...]:
        """Admit that a class is derived from others."""
        return tuple(map(self.derive, bases))

    def unpack(self, mapping: object, /) -> object:
        """Admit that `**mapping` asks an object for its keys."""
        self.hand_over_keys(mapping)
        return mapping

    def unpack_for_class(self, mapping: object, /) -> dict[str, object]:
        """Admit the keyword arguments of a class, a metaclass among them."""
        self.hand_over_keys(mapping)
        keywords = dict(cast("Mapping[str, object]", mapping))
        self.hand_over(keywords.get("metaclass"))
        return keywords

    def attributes_of(self, owner: object, /) -> object:
        """Return the stand-in for an object whose attribute is assigned."""
        return _Assigned(self, owner)

    def keep_all(self) -> None:
        """Admit what the body of a class, which calls this, has defined."""
        self.keep_in_class(sys._getframe(1).f_locals)  # pyright: ignore[reportPrivateUsage]


class _Assigned:
    """Stands for an object while an attribute is assigned, so that the guard sees the value."""

    __slots__ = ("_guard", "_owner")

    def __init__(self, guard: CallGuard, owner: object) -> None:
        object.__setattr__(self, "_guard", guard)
        object.__setattr__(self, "_owner", owner)

    def __getattribute__(self, name: str) -> object:
        return getattr(object.__getattribute__(self, "_owner"), name)

    def __setattr__(self, name: str, value: object) -> None:
        owner = object.__getattribute__(self, "_owner")
        object.__getattribute__(self, "_guard").keep_attribute(owner, name, value)
        setattr(owner, name, value)


def _prepared(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Callable[[], object]:
    return partial(function, *args, **kwargs)


class _Pause:
    """Ends the part of guarded code that is carried out in the actor's turn."""

    def __await__(self) -> Generator["_Pause", None, None]:
        yield self


def _begin(coroutine: Coroutine[Any, Any, object], guard: CallGuard) -> object:
    """Run code in the actor's turn until it ends or has to wait."""
    guard.is_in_turn = True
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    finally:
        guard.is_in_turn = False
    return PausedCode(coroutine)
