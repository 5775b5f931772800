"""Object capability blocks: the methods and fields of an object (specification 8.2.2).

Its public fields are taken from sources that can be read without running its code: the instance's `__dict__`
(which holds dataclass and pydantic fields), slots, and class attributes that are plain values. Properties and
other descriptors are never evaluated.
"""

import functools
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from operator import is_, itemgetter
from types import MemberDescriptorType
from typing import Any, NamedTuple, TypeGuard, cast

from msgspec import Struct
from pydantic import BaseModel, RootModel

from ..configuration import StepContextLimits
from ..sealed_attributes import Sealed
from ..secret_names import HIDDEN, hides_value
from .callables import CallableDescription, callable_line, describe_callable, is_callable_object
from .plain_text import (
    FIELD_SHARE,
    ValueLine,
    class_dictionary,
    class_value,
    dictionary_descriptor,
    find_class_attribute,
    has_base,
    instance_dictionary,
    is_one_of,
    read_dictionary,
    read_slot,
    resolution_order,
    type_module,
    type_name,
)
from .types import TypeNames, is_library_module, is_of_library, is_standard

_FIRST = itemgetter(0)
_EXCEPTION_ARGUMENTS = BaseException.__dict__["args"]

_MAX_FIELDS_READ = 1_024
"""The number of entries read from one instance dictionary; far above any limit."""

_LABELS = ("name", "id", "key", "title", "label", "slug", "code", "number")

_FRAMEWORK_BASES: tuple[type, ...] = (object, BaseModel, RootModel)
"""Classes whose attributes are internals that do not describe the object."""


def is_public_name(name: object) -> TypeGuard[str]:
    """Whether a name can follow a dot and does not start with an underscore."""
    return type(name) is str and name.isidentifier() and not name.startswith("_")


def is_framework_base(cls: type) -> bool:
    """Whether a class has only internals, and no member worth showing."""
    return is_one_of(cls, _FRAMEWORK_BASES)


def is_model_machinery(cls: type, name: str) -> bool:
    """Whether a class attribute configures a pydantic model rather than being a part of its data."""
    return name in ("model_config", "model_post_init") and has_base(cls, BaseModel)


def is_descriptor(attribute: object) -> bool:
    """Whether reading an attribute from an instance runs code instead of returning the attribute itself."""
    return find_class_attribute(type(attribute), "__get__")[0]


def shadows_instance(cls: type, name: str) -> bool:
    """Whether a class attribute takes precedence over the instance's of the same name, as a property does.

    Those of slots do not, and sealed ones leave a copy in the instance to be shown.
    """
    found, attribute = find_class_attribute(cls, name)
    if not found or is_one_of(type(attribute), (MemberDescriptorType, Sealed)):
        return False
    return any(find_class_attribute(type(attribute), method)[0] for method in ("__set__", "__delete__"))


def object_fields(value: object) -> dict[str, object]:
    """Collect the public attributes of an instance itself, in the order of definition.

    Args:
        value: Any object. Fields that cannot be read are left out; callable ones are included.

    Source: specification 8.2.2, "Field discovery uses safe sources".
    """
    return ObjectReader(type(value)).fields(value)


class ObjectReader:
    """Reads objects of one class; what the class decides is found out once.

    Args:
        cls: The class. It must not change while the reader is used.
    """

    __slots__ = (
        *("_arguments", "_cls", "_dictionary", "_extra", "_is_public", "_label_slots", "_public_names"),
        "_slots",
    )

    def __init__(self, cls: type) -> None:
        self._cls = cls
        self._slots = _slots_of(cls)
        self._dictionary = dictionary_descriptor(cls)
        # The arguments of an exception are no slot, yet most exceptions hold nothing else.
        has_arguments = has_base(cls, BaseException) and class_value(cls, "args") is _EXCEPTION_ARGUMENTS
        self._arguments = _EXCEPTION_ARGUMENTS if has_arguments else None
        self._extra = class_value(cls, "__pydantic_extra__") if has_base(cls, BaseModel) else None
        self._is_public: dict[str, bool] = {}
        self._public_names: list[str] = []
        self._label_slots = tuple((name, class_value(cls, name)) for name in _LABELS)

    def fields(self, value: object) -> dict[str, object]:
        """Collect the public attributes of an object, in the order of definition.

        Args:
            value: An object of the class.
        """
        # Another thread may change the dictionary, but not while its items are listed.
        items = list(islice(self.dictionary(value).items(), _MAX_FIELDS_READ))
        names = self._public_names  # of the object before; they are not compared, or hashed
        if len(items) == len(names) and all(map(is_, map(_FIRST, items), names)):
            fields: dict[str, object] = dict(items)
        else:
            fields = self._shown(items)
        if self._slots or self._arguments is not None:
            fields = {**self._fields_beside(value), **fields}
        if self._extra is not None and (extra := read_slot(value, self._extra)[1]) is not None:
            fields.update(_extra_fields(extra))
        return fields

    def _shown(self, items: list[tuple[Any, object]]) -> dict[str, object]:
        """The public fields of a dictionary."""
        fields = {name: field for name, field in items if self._is_shown(name)}
        if len(fields) == len(items):
            self._public_names = list(fields)
        return fields

    def _fields_beside(self, value: object) -> dict[str, object]:
        """The public fields in slots, and the arguments of an exception."""
        fields: dict[str, object] = {}
        for name, slot in self._slots:
            readable, field = read_slot(value, slot)
            if readable:
                fields[name] = field
        if self._arguments is not None:
            fields["args"] = self._arguments.__get__(value, self._cls)
        return fields

    def dictionary(self, value: object) -> Mapping[Any, object]:
        """The `__dict__` of an object of the class; empty when it has none that is readable without code."""
        return {} if self._dictionary is None else read_dictionary(value, self._dictionary, self._cls)

    def labels(self, value: object) -> Iterator[tuple[str, object]]:
        """Read those fields of an object that may name it, the best first.

        Args:
            value: An object of the class.
        """
        dictionary = self.dictionary(value)
        for name, slot in self._label_slots:
            label = dictionary.get(name)
            if label is None and slot is not None:
                yield name, read_slot(value, slot)[1]
            elif label is not None and self._is_shown(name):
                yield name, label

    def _is_shown(self, name: object) -> bool:
        """Whether an entry of the instance dictionary is a public attribute."""
        if type(name) is not str:
            return False
        known = self._is_public.get(name)
        if known is None:
            known = is_public_name(name) and not shadows_instance(self._cls, name)
            if len(self._is_public) < _MAX_FIELDS_READ:
                self._is_public[name] = known
        return known


def class_fields(cls: type) -> dict[str, object]:
    """Collect the public class attributes that are plain values: not callable, not computed on access.

    Args:
        cls: The class; attributes of its bases are included.
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


def _slots_of(cls: type) -> tuple[tuple[str, object], ...]:
    """The public slots of a class and of its bases, which come first."""
    slots: dict[str, object] = {}
    for base in reversed(resolution_order(cls)):
        namespace = class_dictionary(base)
        # A subclass that defines a name anew hides the slot.
        slots = {name: slot for name, slot in slots.items() if name not in namespace}
        slots.update((name, namespace.get(name)) for name in _slot_names(namespace))
    return tuple(slots.items())


def _slot_names(namespace: Mapping[str, object]) -> Iterable[str]:
    """Return the public names of a class's own slots, as declared where that can be known."""
    # Types written in C have members but no `__slots__`; those belong to the interpreter, not to the program.
    slots = namespace.get("__slots__")
    if slots is None:
        return ()
    declared = cast("Iterable[object]", slots) if is_one_of(type(slots), (tuple, list)) else namespace
    return [name for name in declared if is_public_name(name)]


def _extra_fields(extra: object) -> dict[str, object]:
    """The public entries of the extra data of a pydantic model with `extra="allow"`."""
    named = cast("dict[object, object]", extra if type(extra) is dict else {})
    entries = list(islice(named.items(), _MAX_FIELDS_READ))
    return {name: field for name, field in entries if is_public_name(name)}


_CACHING_WRAPPER_TYPE = type(functools.lru_cache(lambda: None))


class ObjectMembers(Struct, frozen=True, kw_only=True):
    """The public members of an object that are shown, in the order of their names.

    Args:
        methods: Names and descriptions of the methods shown, and at last of those behind Python's syntax.
        omitted_methods: The number of further ones.
        properties: Names and types of the properties shown, with their comments.
        omitted_properties: The number of further ones.
        fields: Names and values of the fields shown.
        omitted_fields: The number of further ones.
        call: The description of calls of the object itself; None when it cannot be called.
        type_text: The type of the object.
    """

    methods: tuple[tuple[str, CallableDescription], ...]
    omitted_methods: int
    properties: tuple[tuple[str, str], ...] = ()
    omitted_properties: int = 0
    fields: tuple[tuple[str, object], ...]
    omitted_fields: int
    call: CallableDescription | None = None
    type_text: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of the object but its class."""
        return not (self.methods or self.properties or self.fields or self.omitted_methods)


def readable_fields(value: object) -> dict[str, object]:
    """Collect the public fields of an object, its own and its class's, except those that are only called.

    Args:
        value: Any object.
    """
    own = object_fields(value)
    fields = {name: field for name, field in class_fields(type(value)).items() if name not in own}
    fields.update((name, field) for name, field in own.items() if not callable(field) or _has_fields(field))
    return fields


def _has_fields(field: object) -> bool:
    """Whether something that can be called holds data as well."""
    return is_callable_object(field) and bool(object_fields(field))


def find_members(
    value: object, *, limits: StepContextLimits, names: TypeNames | None = None
) -> ObjectMembers:
    """Find the members of an object that its block shows.

    Args:
        value: The object. No code of it runs; properties and other descriptors are left out.
        limits: The numbers of methods and fields to show.
        names: The names by which the block writes types; None for their own names.
    """
    held = readable_fields(value)
    fields = sorted(held.items(), key=itemgetter(0))
    call = describe_callable(value, names=names) if callable(value) else None
    special = special_methods(type(value))
    if call is not None:
        special.pop("__call__", None)  # the call has a line of its own
    methods = [*sorted(_methods(value).items(), key=itemgetter(0)), *special.items()]
    properties = sorted(class_properties(type(value), hidden=held).items(), key=itemgetter(0))
    return ObjectMembers(
        methods=tuple(
            (name, method.described(names)) for name, method in methods[: limits.object_max_methods]
        ),
        omitted_methods=max(0, len(methods) - limits.object_max_methods),
        properties=tuple(
            (name, each.described(names)) for name, each in properties[: limits.object_max_fields]
        ),
        omitted_properties=max(0, len(properties) - limits.object_max_fields),
        fields=tuple(fields[: limits.object_max_fields]),
        omitted_fields=max(0, len(fields) - limits.object_max_fields),
        call=call,
        type_text=_type_text(value, names, is_opaque=bool(methods) and not fields),
    )


def _type_text(value: object, names: TypeNames | None, *, is_opaque: bool) -> str:
    """The name of the class; of a generator the type of its items too, of a library's object the module."""
    cls = type(value)
    made_by = generator_function(value, names)
    signature = None if made_by is None else describe_callable(made_by, names=names).signature
    _, _, returned = (signature or "").partition(") -> ")
    if returned not in ("", "Any", "..."):
        return returned
    module = type_module(cls)
    is_public = module != "builtins" and not any(part.startswith("_") for part in module.split("."))
    return f"{module}.{type_name(cls)}" if is_opaque and is_public and is_standard(cls) else type_name(cls)


def generator_function(value: object, names: TypeNames | None) -> types.FunctionType | None:
    """The function whose call made a generator, where its name leads to it; None for any other value.

    Args:
        value: Any value.
        names: The names of the block; None without.
    """
    generator: Any = value
    if type(value) is types.GeneratorType:
        code, frame = generator.gi_code, generator.gi_frame
    elif type(value) is types.AsyncGeneratorType:
        code, frame = generator.ag_code, generator.ag_frame
    else:
        return None
    visible = None if names is None else names.looked_up(code.co_name)
    known = None if frame is None else frame.f_globals.get(code.co_name)
    for function in (visible, known):
        if type(function) is types.FunctionType and function.__code__ is code:
            return function
    return None


def object_lines(
    name: str,
    value: object,
    members: ObjectMembers,
    *,
    ambiguous_signatures: Collection[str | None],
    hoisted_fields: Collection[str],
    limits: StepContextLimits,
    show_secrets: bool = False,
    as_specified: bool = False,
) -> Iterator[str | ValueLine]:
    """Render the block of an object, line by line.

    Args:
        name: The object's top-level name.
        value: The object.
        members: The members that `find_members` found.
        ambiguous_signatures: Signature texts that occur more than once in the section.
        hoisted_fields: Fields that appear elsewhere in the section as inline content; they keep their slot
            here.
        limits: The limit of a field's preview.
        show_secrets: Whether to show values with secret names.
        as_specified: Whether methods without signature are named so.
    """
    if members.call is not None and members.call.signature is not None:
        is_ambiguous = members.call.signature in ambiguous_signatures
        yield callable_line(name, members.call, is_ambiguous=is_ambiguous)
    yield f"{name}: object = {members.type_text}"
    yield from method_lines(name, members, ambiguous_signatures, as_specified=as_specified)
    for each, described in members.properties:
        yield f"{name}.{each}: {described}"
    if members.omitted_properties:
        yield f"{name}.<properties>: <snipped {members.omitted_properties} public properties>"
    for field, content in members.fields:
        if field not in hoisted_fields:
            is_hidden = not show_secrets and hides_value(field, content)
            yield ValueLine(
                name=f"{name}.{field}",
                start=f"{name}.{field}: {type_name(type(content))} = ",
                value=HIDDEN if is_hidden else content,
                share=FIELD_SHARE,
                max_tokens=limits.object_field_value_max_tokens,
            )
    if members.omitted_fields:
        yield f"{name}.<fields>: <snipped {members.omitted_fields} public fields>"


def find_functions(
    module: types.ModuleType, *, limits: StepContextLimits, names: TypeNames | None = None
) -> ObjectMembers:
    """Find the public functions of a module: those of its `__all__`, else those it defines itself.

    Args:
        module: The module. No code of it runs. No functions of libraries are found, because models know
            those.
        limits: The number of functions to show.
        names: The names by which the block writes types; None for their own names.
    """
    held: Mapping[str, Any] = {} if is_library_module(module) else instance_dictionary(module)
    listed = held.get("__all__")
    if type(listed) in (list, tuple):
        public = {name for name in cast("list[object]", listed) if type(name) is str}
    else:
        own = held.get("__name__")
        public = {
            name
            for name, each in held.items()
            if is_public_name(name) and _is_function(each) and each.__module__ == own
        }
    functions = sorted((name, held[name]) for name in public if name in held and _is_function(held[name]))
    shown = functions[: limits.object_max_methods]
    return ObjectMembers(
        methods=tuple((name, describe_callable(function, names=names)) for name, function in shown),
        omitted_methods=len(functions) - len(shown),
        fields=(),
        omitted_fields=0,
    )


def _is_function(value: object) -> bool:
    return is_one_of(type(value), _FUNCTION_TYPES)


def method_lines(
    name: str,
    members: ObjectMembers,
    ambiguous_signatures: Collection[str | None],
    *,
    as_specified: bool = False,
) -> Iterator[str]:
    """Render the methods of an object, or the functions of a module, line by line.

    Args:
        name: The top-level name.
        members: The found members.
        ambiguous_signatures: Signature texts that occur more than once in the section.
        as_specified: Whether methods without signature are named so.
    """
    for method, description in members.methods:
        is_ambiguous = description.signature in ambiguous_signatures
        yield callable_line(
            f"{name}.{method}", description, is_ambiguous=is_ambiguous, as_specified=as_specified
        )
    if members.omitted_methods:
        yield f"{name}.<methods>: <snipped {members.omitted_methods} public methods>"


class Method(NamedTuple):
    """A callable as a method. Only those that are shown are described."""

    function: Callable[..., object]
    is_bound: bool = False

    def described(self, names: TypeNames | None) -> CallableDescription:
        """The description of the method."""
        return describe_callable(self.function, is_bound=self.is_bound, names=names)


def _methods(value: object) -> dict[str, Method]:
    """Find the methods by name."""
    own = object_fields(value)
    methods = class_methods(type(value), hidden=own)
    for name, field in own.items():
        if callable(field):
            methods[name] = Method(field)
    return methods


def class_methods(
    cls: type, *, hidden: Collection[str] = (), bases: Iterable[type] | None = None
) -> dict[str, Method]:
    """Find the public methods of the instances of a class by name.

    Args:
        cls: The class.
        hidden: Names that have another meaning on an instance.
        bases: The classes whose methods count; None for all from which it inherits.
    """
    methods: dict[str, Method] = {}
    seen = set(hidden)
    for base in resolution_order(cls) if bases is None else bases:
        if is_framework_base(base):
            continue
        for name, attribute in class_dictionary(base).items():
            if name not in seen and is_public_name(name) and not is_model_machinery(cls, name):
                seen.add(name)
                if (method := _method(attribute)) is not None:
                    methods[name] = method
    return methods


class Property(NamedTuple):
    """An attribute that is computed when it is read; nothing here reads it."""

    getter: Callable[..., object] | None
    can_be_set: bool = False

    def described(self, names: TypeNames | None) -> str:
        """The type and a comment, as in `int  # property`."""
        description = CallableDescription(signature=None)
        if self.getter is not None:
            description = describe_callable(self.getter, is_bound=True, names=names)
        _, _, returned = (description.signature or "").partition(") -> ")
        comment = f"property{', can be set' if self.can_be_set else ''}"
        return f"{returned or '...'}  # {comment}{': ' if description.summary else ''}{description.summary}"


def class_properties(
    cls: type, *, hidden: Collection[str] = (), bases: Iterable[type] | None = None
) -> dict[str, Property]:
    """Find the public properties of the instances of a class by name.

    Args:
        cls: The class.
        hidden: Names that have another meaning on an instance.
        bases: The classes whose properties count; None for all that the program itself defines.
    """
    properties: dict[str, Property] = {}
    seen = set(hidden)
    for base in _own_bases(cls) if bases is None else bases:
        for name, attribute in class_dictionary(base).items():
            if name not in seen and is_public_name(name):
                seen.add(name)
                if (found := _property(attribute)) is not None:
                    properties[name] = found
    return properties


def special_methods(cls: type, bases: Iterable[type] | None = None) -> dict[str, Method]:
    """Find the methods behind Python's syntax that a class defines: `len(x)`, `for … in x`, `x[…]`, `x(…)`.

    Args:
        cls: The class.
        bases: The classes whose methods count; None for all that the program itself defines.
    """
    methods: dict[str, Method] = {}
    for base in _own_bases(cls) if bases is None else bases:
        for name in _SPECIAL_METHODS:
            attribute = class_dictionary(base).get(name)
            if name not in methods and type(attribute) is types.FunctionType:
                methods[name] = Method(attribute, is_bound=True)
    return {name: methods[name] for name in _SPECIAL_METHODS if name in methods}


_SPECIAL_METHODS = (
    "__call__",
    "__len__",
    "__iter__",
    "__aiter__",
    "__getitem__",
    "__setitem__",
    "__contains__",
)

_getter_of = property.__dict__["fget"].__get__
_setter_of = property.__dict__["fset"].__get__


def _own_bases(cls: type) -> list[type]:
    return [base for base in resolution_order(cls) if not is_framework_base(base) and not is_of_library(base)]


def _property(attribute: object) -> Property | None:
    """A class attribute as a property; None when it is none."""
    kind = type(attribute)
    if kind is functools.cached_property:
        getter: object = instance_dictionary(attribute).get("func")
        return Property(getter if callable(getter) else None)
    if has_base(kind, property):
        getter = _getter_of(attribute)
        return Property(getter if callable(getter) else None, can_be_set=_setter_of(attribute) is not None)
    return None


def _method(attribute: object) -> Method | None:
    """A class attribute as a method; None when it is none or a descriptor hides it."""
    kind = type(attribute)
    if is_one_of(kind, _BOUND_KINDS):
        return Method(cast("Callable[..., object]", attribute), is_bound=True)
    if kind is staticmethod:
        return Method(cast("staticmethod[..., Any]", attribute).__func__)
    if kind is classmethod:
        function = cast("classmethod[Any, ..., Any]", attribute).__func__
        return Method(function, is_bound=True) if callable(function) else None
    return Method(attribute) if callable(attribute) and not is_descriptor(attribute) else None


_FUNCTION_TYPES: tuple[type, ...] = (types.FunctionType, types.BuiltinFunctionType, _CACHING_WRAPPER_TYPE)

_BOUND_KINDS: tuple[type, ...] = (
    types.FunctionType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    _CACHING_WRAPPER_TYPE,
)
