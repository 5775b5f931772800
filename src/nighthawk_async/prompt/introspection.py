"""Looking at Python objects without running any of their code.

`isinstance`, `getattr`, `len` and `iter` may all call user code (`__class__`, `__getattribute__`,
descriptors, metaclasses). The functions here read types, instance dictionaries and slots through the
interpreter's own descriptors instead, and ignore anything that cannot be read that way.
"""

from collections.abc import Mapping
from types import GetSetDescriptorType, MappingProxyType, MemberDescriptorType
from typing import Any, cast

from .plain_text import single_line

_TYPE_NAME_CHARACTERS = 80

_name_of_type = type.__dict__["__name__"].__get__
_module_of_type = type.__dict__["__module__"].__get__
_order_of_type = type.__dict__["__mro__"].__get__
_dictionary_of_type = type.__dict__["__dict__"].__get__


def type_name(cls: type) -> str:
    """Return a class's own name, on one line and of bounded length."""
    return single_line(_name_of_type(cls), _TYPE_NAME_CHARACTERS)


def type_module(cls: type) -> str:
    """Return the name of the module where a class is defined; empty when that is no text."""
    module = _module_of_type(cls)
    return module if type(module) is str else ""


def resolution_order(cls: type) -> tuple[type, ...]:
    """Return the method resolution order of a class, bypassing its metaclass."""
    return _order_of_type(cls)


def class_dictionary(cls: type) -> MappingProxyType[str, object]:
    """Return the class's own namespace, bypassing its metaclass."""
    return _dictionary_of_type(cls)


def has_base(cls: type, base: type) -> bool:
    """Whether a class is another or inherits from it; virtual subclasses do not count."""
    # By identity, because `in` would call the metaclass's `__eq__`.
    for candidate in _order_of_type(cls):  # noqa: SIM110  (half the time of `any`, and called for every value)
        if candidate is base:
            return True
    return False


def is_one_of(cls: type, classes: tuple[type, ...]) -> bool:
    """Whether a class is one of several, without calling its metaclass's `__eq__`."""
    return any(cls is candidate for candidate in classes)


def find_class_attribute(cls: type, name: str) -> tuple[bool, object]:
    """Find an attribute along the method resolution order, without binding it.

    Returns:
        Whether there is one, and the attribute as stored in the class's dictionary.
    """
    for base in _order_of_type(cls):
        namespace = _dictionary_of_type(base)
        if name in namespace:
            return True, namespace[name]
    return False, None


def instance_dictionary(value: object) -> Mapping[Any, object]:
    """Return the `__dict__` of an instance; empty when it has none that is readable without running code."""
    cls = type(value)
    found, descriptor = find_class_attribute(cls, "__dict__")
    if not found or type(descriptor) not in (GetSetDescriptorType, MemberDescriptorType):
        return {}
    dictionary: object = cast("GetSetDescriptorType", descriptor).__get__(value, cls)
    return cast("dict[Any, object]", dictionary) if type(dictionary) is dict else {}


def read_slot(value: object, descriptor: object) -> tuple[bool, object]:
    """Read a slot of an instance.

    Returns:
        Whether the slot is set and readable, and its value.
    """
    if type(descriptor) is not MemberDescriptorType:
        return False, None
    try:
        return True, descriptor.__get__(value, type(value))
    except (AttributeError, TypeError):
        return False, None
