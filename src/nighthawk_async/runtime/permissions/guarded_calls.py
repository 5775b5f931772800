"""What stands between the code of a step and the functions that it calls, when permissions are in force.

Code that people may be asked about is a coroutine (see `permissions.guarded_code`). It begins in the turn of
the step actor and, as long as nobody is asked, ends in it, like code without a guard. When it has to ask, it
pauses, and whoever wants its value goes on with it outside of the actor. Floor 3.
"""

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast

from ...errors import HookError
from ..expression import StepNamespace
from ..step_context import StepContext
from ..tools.registry import ToolScope
from .call import NO_ARGUMENTS, CallArguments, PermissionCall, arguments_of, describe_call
from .callables import called_function, is_data_callable
from .declared_methods import borrowed_by, smuggled_by
from .guarded_code import compile_guarded, is_coroutine_code
from .handed_over import callables_in, calls_its_arguments
from .paused_code import PausedCode
from .permissions import PermissionDecision, Permissions, decide, decide_for_any_arguments
from .refusals import refusal_of_asking, refusal_of_call, refusal_of_change, refusal_of_handing_over
from .step_names import StepNames

__all__ = ["CallGuard", "run_guarded"]

_UNSEEN = (eval, exec, compile)
"""Nothing sees what the code calls that they are given."""

_LOOKING_ON = (
    *(isinstance, issubclass, callable, getattr, hasattr, id, repr, str, format, type, print, hash, dir),
    *(vars, setattr),
)
"""Builtins that do not call what they are given."""


class CallGuard:
    """The guard of one step.

    Args:
        context: The state of the step.
        permissions: The sets in force, at least one.
        tools: The tools of the step.
        ask: Asks people about a call; raises `ToolBoundaryError` unless it is approved.
        report: Tells of decisions.
    """

    __slots__ = (
        "_ask",
        "_context",
        "_failure",
        "_names",
        "_permissions",
        "_report",
        "_tools",
        "is_in_turn",
        "may_wait",
    )

    def __init__(
        self,
        context: StepContext,
        permissions: Sequence[Permissions],
        *,
        tools: ToolScope,
        ask: Callable[[PermissionCall], Awaitable[None]],
        report: Callable[[PermissionCall, PermissionDecision], None],
    ) -> None:
        self._context = context
        self._permissions = permissions
        self._tools = tools
        self._names = StepNames(context, are_sought=any(each.looks_at_names for each in permissions))
        self._ask = ask
        self._report = report
        self.may_wait = any(each.may_ask for each in permissions)
        """Whether there may be somebody to wait for."""
        self.is_in_turn = False
        """Whether the step actor carries code out, so that what has to wait must pause."""
        self._failure: HookError | None = None

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
        call = self._check(written, function, args, kwargs)
        if call is not None:
            raise refusal_of_asking(call)
        return partial(function, *args, **kwargs)

    async def admit_waiting(
        self, written: str, function: object, /, *args: object, **kwargs: object
    ) -> object:
        """Admit a call, after asking people where that is needed; see `admit`."""
        if not callable(function):
            return function
        call = self._check(written, function, args, kwargs)
        if call is not None:
            if self.is_in_turn:
                await _Pause()
            await self._ask(call)
            if self._names.receiver(function)[0] != call.receiver:
                raise refusal_of_change(call)
        return partial(function, *args, **kwargs)

    def hand_over(self, function: object, /) -> object:
        """Admit that something is called by others, with arguments that nobody sees before.

        Raises:
            ToolBoundaryError: It is not plainly allowed.
        """
        if callable(function):
            for each in (function, *smuggled_by(function)):
                self._check_handing_over(cast("Callable[..., object]", each))
        return function

    def _check_handing_over(self, function: Callable[..., object]) -> None:
        is_calling = calls_its_arguments(function)
        if not is_calling and self._is_free(function):
            return
        call = self._describe("", function, NO_ARGUMENTS)
        default = "deny" if is_calling else _default_of(function)
        decision = self._decide(call, decide_for_any_arguments, default)
        if decision.verdict != "allow":
            raise refusal_of_handing_over(call, decision)

    def _check(
        self,
        written: str,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> PermissionCall | None:
        """Decide about a call; what to ask people about, None for nothing."""
        to_ask, is_free = None, self._is_free(function)
        if not is_free:
            call = self._describe(written, function, arguments_of(function, args, kwargs))
            decision = self._decide(call, decide, _default_of(function))
            if decision.verdict == "deny":
                raise refusal_of_call(call, decision)
            if decision.verdict == "ask":
                told, unclear = self._names.receiver(function)
                to_ask = replace(call, receiver=told, unclear_receiver=unclear)
            else:  # what allows a class of the model allows no function that it stands for
                for each in smuggled_by(function):
                    self._check_handing_over(cast("Callable[..., object]", each))
        if not any(function is each for each in _LOOKING_ON):
            given = (*args, *kwargs.values())
            # What is free and calls nothing at most keeps what it is given, so nothing inside is called.
            is_keeping = is_free and not calls_its_arguments(function)
            for each in given if is_keeping else callables_in(given):
                self.hand_over(each)
        return to_ask

    def raise_failure(self) -> None:
        """Fail the step when a rule or a hook failed, whatever the code of the step did about it.

        Raises:
            HookError: One did.
        """
        if self._failure is not None:
            raise self._failure

    def _decide(
        self, call: PermissionCall, how: Callable[..., PermissionDecision], default: Literal["deny"] | None
    ) -> PermissionDecision:
        """Decide about a call, and tell of it unless it is plainly allowed."""
        try:
            decision = how(self._permissions, call, default=default)
            if decision.verdict != "allow":
                self._report(call, decision)
        except HookError as error:
            self._failure = error
            raise
        return decision

    def _describe(
        self, written: str, function: Callable[..., object], arguments: CallArguments
    ) -> PermissionCall:
        names = self._names
        return describe_call(
            function,
            arguments,
            other_names=names.other_names(function, written, self._tools),
            is_own_name=lambda name: names.is_own_name(name, function),
        )

    def _is_free(self, function: Callable[..., object]) -> bool:
        """Whether permissions are not for a function: one of Python's own data types, or of the step's code.

        What the code of the step defines has guarded calls itself.
        """
        called = called_function(function)
        if isinstance(called, types.FunctionType) and called.__globals__ is self._context.step_locals:
            return True
        return is_data_callable(function) and not borrowed_by(function)


def _default_of(function: object) -> Literal["deny"] | None:
    """What happens to a function that no rule is about; None for the default of the permissions."""
    called = called_function(function)
    return "deny" if any(called is each for each in _UNSEEN) else None


class _Pause:
    """Ends the part of guarded code that is carried out in the actor's turn."""

    def __await__(self) -> Generator["_Pause", None, None]:
        yield self


def run_guarded(
    namespace: StepNamespace,
    guard: CallGuard,
    code: types.CodeType,
    text: str,
    mode: Literal["eval", "exec"],
) -> object:
    """Run code with a guard; see `StepNamespace.run`.

    Args:
        namespace: The names of the step; it knows the guard.
        guard: The guard.
        code: The code without a guard.
        text: Its text.
        mode: Whether it is an expression or statements.

    Returns:
        What `StepNamespace.run` gives, or `PausedCode` when it has to wait for people.
    """
    guarded = compile_guarded(text, filename=code.co_filename, mode=mode, may_wait=guard.may_wait)
    value = namespace.run(guarded)
    if is_coroutine_code(guarded) and not is_coroutine_code(code):
        with namespace.in_force():
            return _begin(cast("Coroutine[Any, Any, object]", value), guard)
    return value


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
