"""The names by which a step reaches functions and objects.

The program's own are those that the step began with, its globals and the builtins; the model may choose
others.
"""

import builtins
from collections.abc import Mapping

from ...runtime.step_context import StepContext
from ...runtime.tool_function import ToolScope
from .callables import BOUND_TYPES, is_same_callable, layers_of, other_names_of
from .declared_methods import borrowed_by
from .exported_names import exported_names
from .receivers import receiver_of, stable_text

__all__ = ["StepNames"]

_MAX_EXPORTED = 500


class StepNames:
    """The names of one step.

    Args:
        context: The state of the step, which has just begun.
        are_sought: Whether it matters which other names a function has.
    """

    __slots__ = ("_are_sought", "_by_value", "_context", "_exported", "_initial", "_of_bound", "_size")

    def __init__(self, context: StepContext, *, are_sought: bool) -> None:
        self._context = context
        self._are_sought = are_sought
        self._initial: Mapping[str, object] = dict(context.step_locals)
        self._by_value: dict[int, list[str]] = {}
        self._of_bound: list[str] = []
        self._size = -1
        self._exported: dict[int, tuple[object, list[str]]] = {}

    def is_own_name(self, name: str, function: object) -> bool:
        """Whether a name without a module or class means a function, as the program wrote it."""
        scopes = (self._initial, self._context.step_globals, vars(builtins))
        scope = next((each for each in scopes if name in each), None)
        return scope is not None and any(is_same_callable(scope[name], each) for each in layers_of(function))

    def other_names(self, function: object, written: str, tools: ToolScope) -> tuple[str, ...]:
        """Names by which a function is reached, whoever chose them; none when they do not matter.

        They are those of `other_names_of`, those under which modules export it, and `variable.method`;
        for an object or a class also those of the functions that it declares to be called by.

        Args:
            function: The function.
            written: How the call is written.
            tools: The tools of the step.
        """
        if not self._are_sought:
            return ()
        borrowed = (name for each in borrowed_by(function) for name in self._names_of_one(each, "", tools))
        return (*self._names_of_one(function, written, tools), *borrowed)

    def _names_of_one(self, function: object, written: str, tools: ToolScope) -> tuple[str, ...]:
        layers = layers_of(function)
        by_tool = {name: tool.function for name, tool in tools.visible().items()}
        variables = {name: value for layer in layers for name, value in self._globals_like(layer)}
        names = other_names_of(function, written, by_tool, self._context.step_locals, variables)
        receiver, method = receiver_of(function), getattr(function, "__name__", None)
        owners = () if receiver is None or method is None else self._variables(receiver)
        exported = (name for layer in layers for name in self._exported_names(layer))
        return (*names, *(f"{owner}.{method}" for owner in owners), *exported)

    def receiver(self, function: object) -> tuple[str | None, object | None]:
        """Of which object a function is a method: as people are told, and itself when that may mean others.

        They are told a variable of the program and how it shows itself. A global alone means one object, and
        so does a text; a parameter alone does not.
        """
        receiver = receiver_of(function)
        if receiver is None:
            return None, None
        if isinstance(receiver, type):
            return stable_text(receiver), None
        own = [name for name, value in self._globals_like(receiver) if value is receiver]
        own = [name for name in own if name not in self._initial or self._initial[name] is receiver]
        variables, text = own or self._variables(receiver), stable_text(receiver)
        told = ": ".join([*variables[:1], *([] if text is None else [text])])
        return told or None, None if own or text is not None else receiver

    def _variables(self, value: object) -> list[str]:
        """The variables of the program that hold a value."""
        local = [name for name, each in self._initial.items() if each is value]
        return local + [name for name, each in self._globals_like(value) if each is value]

    def _exported_names(self, function: object) -> list[str]:
        """Those of `exported_names`, looked for once: there may be a thousand modules."""
        if id(function) not in self._exported:
            if len(self._exported) >= _MAX_EXPORTED:  # each access makes another object of a bound method
                self._exported.clear()
            self._exported[id(function)] = (function, exported_names(function))  # alive, its id is its own
        return self._exported[id(function)][1]

    def _globals_like(self, value: object) -> list[tuple[str, object]]:
        """The globals that hold a value, and those that are bound methods; found without looking at all."""
        variables = self._context.step_globals
        if len(variables) != self._size:
            self._look_at_globals()
        names = (*self._by_value.get(id(value), ()), *self._of_bound)
        return [(name, variables[name]) for name in names if name in variables]

    def _look_at_globals(self) -> None:
        variables = tuple(self._context.step_globals.items())  # other threads may change them meanwhile
        self._size = len(variables)
        self._by_value, self._of_bound = {}, []
        for name, value in variables:
            self._by_value.setdefault(id(value), []).append(name)
            if type(value) in BOUND_TYPES:
                self._of_bound.append(name)
