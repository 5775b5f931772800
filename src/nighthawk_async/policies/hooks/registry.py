"""`Hooks`: functions that are called for events, in the order of their registration.

It holds no state of a run, so one object may be active in many runs at once. `hooks.calls` calls them.
"""

import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar, cast, overload

from ...errors import NighthawkError
from ...parallel import is_async_callable
from ...values.error_text import callable_name
from .rules import EVENT_RULES, HookAnswer, HookFunction

Event = TypeVar("Event")
Second = TypeVar("Second")
Third = TypeVar("Third")
Answer = TypeVar("Answer", bound=HookAnswer | Awaitable[HookAnswer])
_Hook: TypeAlias = Callable[[Event], Answer]


class Hooks:
    """Hooks by the type of their event.

    Example:
        hooks = Hooks()


        @hooks.on(BeforeToolCall)
        async def no_mail(event):
            return Veto("no mail today") if event.tool_name == "send_mail" else None


        async with scope(hooks=hooks):
            ...
    """

    __slots__ = ("_functions", "_lock")

    local_only_reason: ClassVar[str] = "hooks are called in the program. Give them to the scope (hooks=)."
    """The reason why it is no part of something else that crosses to a worker."""

    def __init__(self) -> None:
        self._functions: dict[type, tuple[HookFunction[Any], ...]] = {}
        self._lock = threading.Lock()

    # mypy joins several types into a common base type, so each of the first three has a parameter of its own.
    @overload
    def on(self, event_type: type[Event], /) -> Callable[[_Hook[Event, Answer]], _Hook[Event, Answer]]: ...

    @overload
    def on(  # type: ignore[overload-overlap]  # the class of an event is not a hook
        self, event_type: type[Event], second: type[Second], /
    ) -> Callable[[_Hook[Event | Second, Answer]], _Hook[Event | Second, Answer]]: ...

    @overload
    def on(
        self, event_type: type[Event], second: type[Second], third: type[Third], /
    ) -> Callable[[_Hook[Event | Second | Third, Answer]], _Hook[Event | Second | Third, Answer]]: ...

    @overload
    def on(  # type: ignore[overload-overlap]
        self, event_type: type[object], /, *more: type[object]
    ) -> Callable[[_Hook[Any, Answer]], _Hook[Any, Answer]]: ...

    @overload
    def on(self, event_type: type[Event], function: _Hook[Event, Answer], /) -> _Hook[Event, Answer]: ...

    def on(self, event_type: type, /, *more: Any) -> Any:
        """Register a hook.

        A hook that is registered while steps are running is called for later events.

        Args:
            event_type: The type of events for which it is called.
            more: Further types of events, for a decorator; or the function, which may be async.

        Returns:
            A decorator that returns the function unchanged; the function itself, when it was given.

        Raises:
            NighthawkError: A type is not an event, or the function cannot be called, or is async although its
                event allows only `def`.
        """
        is_decorator = not more or isinstance(more[-1], type)
        event_types = (event_type, *(more if is_decorator else more[:-1]))
        for each in event_types:
            if each not in EVENT_RULES:
                names = ", ".join(known.__name__ for known in EVENT_RULES)
                raise NighthawkError(f"{each!r} is no event that hooks are called for; those are: {names}.")
        return self._decorator(event_types) if is_decorator else self._register(event_types, more[-1])

    def functions_for(self, event_type: type) -> tuple[HookFunction[Any], ...]:
        """Return the hooks of an event, in the order of their registration."""
        return self._functions.get(event_type, ())

    def registered(self) -> dict[type, tuple[HookFunction[Any], ...]]:
        """Return the hooks of all events, by the types of these."""
        return dict(self._functions)

    def _decorator(self, event_types: Sequence[type]) -> Callable[[HookFunction[Any]], HookFunction[Any]]:
        return lambda function: self._register(event_types, function)

    def _register(self, event_types: Sequence[type], function: HookFunction[Any]) -> HookFunction[Any]:
        if not callable(cast("object", function)):
            raise NighthawkError(f"A hook is a function of an event, not {function!r}.")
        synchronous = [each.__name__ for each in event_types if EVENT_RULES[each].is_synchronous]
        if synchronous and is_async_callable(function):
            names = ", ".join(synchronous)
            raise NighthawkError(
                f"Nothing can await hook {callable_name(function)} at {names}: make it `def`."
            )
        with self._lock:
            for event_type in event_types:
                self._functions[event_type] = (*self._functions.get(event_type, ()), function)
        return function


def combined_hooks(inherited: Sequence[Hooks], hooks: Hooks | Sequence[Hooks]) -> tuple[Hooks, ...]:
    """Combine the hooks of enclosing scopes with those of an argument, each object once.

    Raises:
        NighthawkError: The argument is anything else.
    """
    given = (hooks,) if isinstance(hooks, Hooks) else hooks
    if not isinstance(cast("object", given), list | tuple) or not all(
        isinstance(cast("object", each), Hooks) for each in given
    ):
        raise NighthawkError(f"hooks must be a Hooks object, or a list of them, not {hooks!r}.")
    return tuple(dict.fromkeys((*inherited, *given)))
