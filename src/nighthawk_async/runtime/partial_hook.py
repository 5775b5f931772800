"""The callback of a function for the values of its steps, as a hook. Floor 3."""

from typing import cast

from ..errors import NighthawkError
from ..types.partial_values import OnPartial, PartialValues
from .awaitable import await_value, is_awaitable
from .hooks.answers import HookFunction
from .hooks.registry import Hooks, hook_name

__all__ = ["hook_of"]


def hook_of(on_partial: OnPartial) -> Hooks:
    """The hooks that hold a callback and nothing else; what the callback returns does not count.

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

    call.__qualname__ = hook_name(cast("HookFunction[PartialValues]", on_partial))
    hooks = Hooks()
    hooks.on(PartialValues, call)
    return hooks
