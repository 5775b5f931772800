"""The names by which a step reaches functions and objects, and descriptions of a method's object.

The program's own are those that the step began with, its globals and the builtins; the model may choose
others.
"""

import builtins
import hashlib
import types
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from ...runtime.expression import runs_step_code
from ...runtime.step_context import StepContext
from ...runtime.tool_function import ToolScope
from ..people.digest import digest_action
from ..people.errors import UndigestibleArgumentError
from .callables import BOUND_TYPES, is_own_method, is_same_callable, layers_of, other_names_of
from .declared_methods import borrowed_by, declared_call, exported_names, is_callable_object

_MAX_TEXT = 200


def receiver_of(function: object) -> object | None:
    """The object that a method is called on, or that is called itself; None for what is none.

    A class is one when it has inherited the method, whose name is that of another class.
    """
    layers = layers_of(function)
    method = next((each for each in layers if isinstance(each, types.MethodType)), None)
    if method is not None:
        return None if _is_of_its_class(method) or not is_own_method(method) else method.__self__
    called = layers[-1]
    if isinstance(called, types.BuiltinFunctionType | types.MethodWrapperType):
        owner = called.__self__
        return None if isinstance(owner, type | types.ModuleType) else owner
    if not is_callable_object(called):
        return None
    declared = declared_call(called)
    is_argument = isinstance(declared, types.MethodType) and not is_own_method(declared)
    return None if is_argument else called


def _is_of_its_class(method: types.MethodType) -> bool:
    """Whether it is bound to the class that declares it."""
    owner = method.__self__
    return isinstance(owner, type) and any(
        isinstance(each, classmethod) and getattr(cast("object", each), "__func__", None) is method.__func__
        for each in cast("Mapping[str, object]", vars(owner)).values()
    )


def stable_text(receiver: object) -> str | None:
    """Return the text of an object, or the name of a class; None if it says nothing, or changes later.

    A long text is cut off, and what tells it from others is the beginning of its SHA-256.
    """
    if isinstance(receiver, type):
        return f"{receiver.__module__}.{receiver.__qualname__}"
    if type(receiver).__repr__ is object.__repr__ or runs_step_code(type(receiver)):
        return None
    try:
        text = repr(receiver)
    except Exception:  # `__repr__` of the program may raise anything, and people are asked all the same
        return None
    if " at 0x" in text:  # an address says nothing
        return None
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_MAX_TEXT]}… (SHA-256 {hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]})"


def fields_of(receiver: object) -> dict[str, object]:
    """The public attributes of an object that an approval can be bound to.

    Raises:
        UndigestibleArgumentError: It has attributes, maybe hidden ones of a type written in C, but none of
            these.
    """
    if runs_step_code(type(receiver)):
        raise UndigestibleArgumentError(
            f"nothing tells people what a {type(receiver).__qualname__} does: it runs code of the step"
        )
    attributes = _attributes(receiver)
    fields = {
        name: value
        for name, value in attributes.items()
        if not name.startswith("_") and _is_digestible(name, value)
    }
    if not fields and (attributes or _has_hidden_state(receiver)):
        raise UndigestibleArgumentError(
            f"nothing tells people which {type(receiver).__qualname__} it is; its class needs a __repr__"
        )
    return fields


def _attributes(receiver: object) -> Mapping[str, object]:
    """The instance attributes of an object, those in slots included, without asking its `__getattr__`."""
    attributes: dict[str, object] = {}
    for kind in type(receiver).__mro__:
        if "__slots__" not in vars(kind):  # what types written in C show tells no object from another
            continue
        for name, slot in tuple(vars(kind).items()):
            if isinstance(slot, types.MemberDescriptorType):
                with suppress(AttributeError):  # an empty slot
                    attributes[name] = slot.__get__(receiver)
    with suppress(AttributeError):
        attributes |= cast("Mapping[str, object]", object.__getattribute__(receiver, "__dict__"))
    return attributes


def _has_hidden_state(receiver: object) -> bool:
    """Whether a base of its class is written in C and has methods."""
    return any(
        isinstance(declared, types.MethodDescriptorType)
        for kind in type(receiver).__mro__[:-1]
        for declared in tuple(vars(kind).values())
    )


def _is_digestible(name: str, value: object) -> bool:
    try:
        digest_action("", {name: value})
    except UndigestibleArgumentError:
        return False
    return True


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
            written: The call as it is written.
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
        shown = ": ".join([*variables[:1], *([] if text is None else [text])])
        return shown or None, None if own or text is not None else receiver

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
