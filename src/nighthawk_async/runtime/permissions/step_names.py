"""The names by which a step reaches functions and objects. Floor 3.

The program's own are those that the step began with, its globals and the builtins; the model may choose
others.
"""

from collections.abc import Mapping

from ..step_context import StepContext
from ..tools.registry import ToolScope
from .callables import other_names_of, receiver_of

__all__ = ["StepNames"]

_MAX_TEXT = 200


class StepNames:
    """The names of one step.

    Args:
        context: The state of the step, which has just begun.
    """

    __slots__ = ("_context", "_initial")

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._initial: Mapping[str, object] = dict(context.step_locals)

    def other_names(self, function: object, written: str, tools: ToolScope) -> tuple[str, ...]:
        """Names by which a function is reached, whoever chose them; see `other_names_of`.

        Args:
            function: The function.
            written: How the call is written.
            tools: The tools of the step.
        """
        context = self._context
        by_tool = {name: tool.function for name, tool in tools.visible().items()}
        names = other_names_of(function, written, by_tool, context.step_locals, context.step_globals)
        receiver, method = receiver_of(function), getattr(function, "__name__", None)
        owners = () if receiver is None else self._variables(receiver)
        return (*names, *(f"{owner}.{method}" for owner in owners))

    def receiver(self, function: object) -> str | None:
        """Of which object a function is a method: a variable of the program, or how it shows itself."""
        receiver = receiver_of(function)
        if receiver is None:
            return None
        if variables := self._variables(receiver):
            return variables[0]
        if type(receiver).__repr__ is object.__repr__:
            return None
        try:
            text = repr(receiver)
        except Exception:  # `__repr__` of the program may raise anything, and people are asked all the same
            return None
        if " at 0x" in text:  # an address says nothing, and is another one in the next run
            return None
        return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"

    def _variables(self, value: object) -> list[str]:
        """The variables of the program that hold a value."""
        scopes = (self._initial, self._context.step_globals)
        return [name for scope in scopes for name, each in tuple(scope.items()) if each is value]
