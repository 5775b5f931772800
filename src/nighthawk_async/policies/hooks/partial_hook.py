"""The callback of a function for the values of its steps, as a hook."""

from typing import cast

from ...errors import NighthawkError
from ...runtime.awaitable import await_value, is_awaitable
from ...runtime.error_text import callable_name
from ...types.partial_values import OnPartial, PartialValues
from .answers import HookFunction
from .policy import HookListener
from .registry import Hooks

__all__ = ["listener_of"]


def listener_of(on_partial: OnPartial) -> HookListener:
    """The listener that calls a callback; what the callback returns does not count.

    Args:
        on_partial: The callback.

    Raises:
        NighthawkError: It cannot be called.
    """
    if not callable(cast("object", on_partial)):
        raise NighthawkError(f"on_partial is a function of PartialValues, not {on_partial!r}.")

    async def call(partial: PartialValues) -> None:
        answer = on_partial(partial)
        if is_awaitable(answer):
            await await_value(answer)

    call.__qualname__ = callable_name(cast("HookFunction[PartialValues]", on_partial))
    hooks = Hooks()
    hooks.on(PartialValues, call)
    return HookListener(hooks)
