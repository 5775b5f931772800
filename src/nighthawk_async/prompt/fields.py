"""The public fields of an object, from sources that can be read without running its code.

Specification 8.2.2, object capability values: the instance's `__dict__` (which holds dataclass and pydantic
fields), slots, and class attributes that are plain values. Properties and other descriptors are never
evaluated.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from types import MemberDescriptorType
from typing import cast

from pydantic import BaseModel, RootModel

from .introspection import (
    class_dictionary,
    find_class_attribute,
    has_base,
    instance_dictionary,
    is_one_of,
    read_slot,
    resolution_order,
)

__all__ = [
    "class_fields",
    "is_descriptor",
    "is_framework_base",
    "is_model_machinery",
    "is_public_name",
    "object_fields",
    "shadows_instance",
]

_EXCEPTION_ARGUMENTS = BaseException.__dict__["args"]

_MAX_FIELDS_READ = 1_024
"""Entries read of one instance dictionary; far above what any limit shows."""

_FRAMEWORK_BASES: tuple[type, ...] = (object, BaseModel, RootModel)
"""Classes whose attributes are machinery that says nothing about the object at hand."""


def is_public_name(name: object) -> bool:
    """Tell whether a name can stand after a dot and does not start with an underscore."""
    return type(name) is str and name.isidentifier() and not name.startswith("_")


def is_framework_base(cls: type) -> bool:
    """Tell whether a class holds machinery only, and no member worth showing."""
    return is_one_of(cls, _FRAMEWORK_BASES)


def is_model_machinery(cls: type, name: str) -> bool:
    """Tell whether a class attribute configures a pydantic model rather than belonging to what it models."""
    return name in ("model_config", "model_post_init") and has_base(cls, BaseModel)


def is_descriptor(attribute: object) -> bool:
    """Tell whether reading an attribute from an instance runs code instead of giving the attribute itself."""
    return find_class_attribute(type(attribute), "__get__")[0]


def shadows_instance(cls: type, name: str) -> bool:
    """Tell whether a class attribute goes before the instance's of the same name, as a property does."""
    found, attribute = find_class_attribute(cls, name)
    if not found or type(attribute) is MemberDescriptorType:
        return False
    return any(find_class_attribute(type(attribute), method)[0] for method in ("__set__", "__delete__"))


def object_fields(value: object) -> dict[str, object]:
    """Collect what an instance itself holds under public names, in the order of definition.

    Args:
        value: Any object. Fields that cannot be read are left out; callable ones are included.

    Source: specification 8.2.2, "Field discovery uses safe sources".
    """
    cls = type(value)
    fields = _slot_fields(value, cls)
    if has_base(cls, BaseException) and find_class_attribute(cls, "args")[1] is _EXCEPTION_ARGUMENTS:
        # What an exception was raised with is no slot and yet all that most of them hold.
        fields["args"] = _EXCEPTION_ARGUMENTS.__get__(value, cls)
    for name, field in islice(instance_dictionary(value).items(), _MAX_FIELDS_READ):
        if is_public_name(name) and not shadows_instance(cls, name):
            fields[name] = field
    if has_base(cls, BaseModel):
        fields.update(_extra_model_fields(value, cls))
    return fields


def class_fields(cls: type) -> dict[str, object]:
    """Collect the public class attributes that are plain values: not callable, not computed on access.

    Args:
        cls: The class; what its bases define is included.
    """
    fields: dict[str, object] = {}
    seen: set[str] = set()
    for base in resolution_order(cls):
        if is_framework_base(base):
            continue
        for name, attribute in class_dictionary(base).items():
            if name not in seen and is_public_name(name) and not is_model_machinery(cls, name):
                seen.add(name)
                if not callable(attribute) and not is_descriptor(attribute):
                    fields[name] = attribute
    return fields


def _slot_fields(value: object, cls: type) -> dict[str, object]:
    fields: dict[str, object] = {}
    for base in reversed(resolution_order(cls)):
        namespace = class_dictionary(base)
        # A subclass that defines a name anew hides the slot.
        fields = {name: field for name, field in fields.items() if name not in namespace}
        for name in _slot_names(namespace):
            readable, field = read_slot(value, namespace.get(name))
            if readable:
                fields[name] = field
    return fields


def _slot_names(namespace: Mapping[str, object]) -> Iterable[str]:
    """Return the public names of a class's own slots, as declared where that can be known."""
    # Types written in C have members but no `__slots__`; those belong to the interpreter, not to the program.
    slots = namespace.get("__slots__")
    if slots is None:
        return ()
    declared = cast("Iterable[object]", slots) if is_one_of(type(slots), (tuple, list)) else namespace
    return [cast(str, name) for name in declared if is_public_name(name)]


def _extra_model_fields(value: object, cls: type) -> dict[str, object]:
    """Read what a pydantic model with `extra="allow"` was given beyond its fields."""
    _, descriptor = find_class_attribute(cls, "__pydantic_extra__")
    _, extra = read_slot(value, descriptor)
    if type(extra) is not dict:
        return {}
    named = cast("dict[object, object]", extra)
    return {
        cast(str, name): field
        for name, field in islice(named.items(), _MAX_FIELDS_READ)
        if is_public_name(name)
    }
