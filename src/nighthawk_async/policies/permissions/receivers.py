"""The names by which a step reaches functions and objects, and descriptions of a method's object.

The program's own names are the locals at the start of the step, its globals and the builtins; the model may
choose others.
"""

import builtins
import hashlib
import types
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from ...kernel.context import StepContext, runs_step_code
from ...kernel.tools import ToolScope
from ..people.digest import digest_action
from ..people.errors import UndigestibleArgumentError
from .callables import BOUND_TYPES, is_own_method, is_same_callable, layers_of, other_names_of
from .declared_methods import borrowed_by, declared_call, exported_names, is_callable_object

_MAX_TEXT = 200


def receiver_of(function: object) -> object | None:
    """Return the object of a method, or the callable object itself; None for other functions.

    It may be a class that inherits the method, because the name of the method names another class.
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
    """Return the text of an object, or the name of a class; None if the text says nothing or may change.

    A long text is cut off and ends with the beginning of its SHA-256, which distinguishes it from others.
    """
    if isinstance(receiver, type):
        return f"{receiver.__module__}.{receiver.__qualname__}"
    if type(receiver).__repr__ is object.__repr__ or runs_step_code(type(receiver)):
        return None
    try:
        text = repr(receiver)
    except Exception:  # the program's `__repr__` may raise anything, and people are asked anyway
        return None
    if " at 0x" in text:  # an address does not identify the object to people
        return None
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_MAX_TEXT]}… (SHA-256 {hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]})"


def fields_of(receiver: object) -> dict[str, object]:
    """The public attributes of an object that an approval can be bound to.

    Raises:
        UndigestibleArgumentError: It runs code of the step, or all its attributes are private, have no stable
            JSON form, or may be hidden in a type written in C.
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
    """Return the instance attributes of an object, slots included, without calling its `__getattr__`."""
    attributes: dict[str, object] = {}
    for kind in type(receiver).__mro__:
        if "__slots__" not in vars(kind):  # members of types written in C do not distinguish objects
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
        context: The state of the step, which has just started.
        are_needed: Whether a rule uses other names of a function.
    """

    __slots__ = ("_are_needed", "_by_value", "_context", "_exported", "_initial", "_of_bound", "_size")

    def __init__(self, context: StepContext, *, are_needed: bool) -> None:
        self._context = context
        self._are_needed = are_needed
        self._initial: Mapping[str, object] = dict(context.step_locals)
        self._by_value: dict[int, list[str]] = {}
        self._of_bound: list[str] = []
        self._size = -1
        self._exported: dict[int, tuple[object, list[str]]] = {}

    def is_own_name(self, name: str, function: object) -> bool:
        """Whether a name without a module or class refers to a function in the program."""
        scopes = (self._initial, self._context.step_globals, vars(builtins))
        scope = next((each for each in scopes if name in each), None)
        return scope is not None and any(is_same_callable(scope[name], each) for each in layers_of(function))

    def other_names(self, function: object, written: str, tools: ToolScope) -> tuple[str, ...]:
        """Return all names of a function, also those that the model chose; none when no rule needs them.

        They are those of `other_names_of`, those under which modules export it, and `variable.method`; for an
        object or a class also those of the functions that run when it is called.

        Args:
            function: The function.
            written: The callee as written.
            tools: The tools of the step.
        """
        if not self._are_needed:
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
        """Return a description of a method's object, and the object when the description may fit others.

        The description is a variable of the program, and the text of the object. A global or a text
        identifies one object; a parameter does not.
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
        """Return the variables of the program that hold a value."""
        local = [name for name, each in self._initial.items() if each is value]
        return local + [name for name, each in self._globals_like(value) if each is value]

    def _exported_names(self, function: object) -> list[str]:
        """Return `exported_names`, cached: there may be a thousand modules."""
        if id(function) not in self._exported:
            if len(self._exported) >= _MAX_EXPORTED:  # each access of a bound method makes a new object
                self._exported.clear()
            # The function is kept alive, so that its id stays unique.
            self._exported[id(function)] = (function, exported_names(function))
        return self._exported[id(function)][1]

    def _globals_like(self, value: object) -> list[tuple[str, object]]:
        """Return the globals that hold a value, and all bound methods, from an index."""
        variables = self._context.step_globals
        if len(variables) != self._size:
            self._index_globals()
        names = (*self._by_value.get(id(value), ()), *self._of_bound)
        return [(name, variables[name]) for name in names if name in variables]

    def _index_globals(self) -> None:
        variables = tuple(self._context.step_globals.items())  # other threads may change them meanwhile
        self._size = len(variables)
        self._by_value, self._of_bound = {}, []
        for name, value in variables:
            self._by_value.setdefault(id(value), []).append(name)
            if type(value) in BOUND_TYPES:
                self._of_bound.append(name)
