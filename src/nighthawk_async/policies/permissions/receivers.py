"""Descriptions of a method's object that tell it from others."""

import hashlib
import types
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from ...runtime.step_code import runs_step_code
from ..people.digest import digest_action
from ..people.errors import UndigestibleArgumentError
from .callables import is_own_method, layers_of
from .declared_methods import declared_call, is_callable_object

__all__ = ["fields_of", "receiver_of", "stable_text"]

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
