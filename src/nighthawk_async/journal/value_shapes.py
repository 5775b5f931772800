"""Objects of the program's classes as their parts, and back, without calling the program's code.

A shape takes an object apart into everything that it holds: also private attributes, the set of fields that
were given, and values that a serializer would change. No validator, serializer or `__init__` is called.
"""

import types
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import fields as dataclass_fields, is_dataclass
from enum import Enum, Flag
from functools import cached_property
from inspect import getattr_static
from typing import Any

import msgspec
from pydantic import BaseModel, RootModel, Secret, SecretBytes, SecretStr, TypeAdapter

Parts = tuple[dict[str, object], dict[str, object]]
"""The fields of an object by name, and everything else that it holds."""

BASES: tuple[Any, ...] = (
    *(str, bytes, int, float, tuple, frozenset),
    *(OrderedDict, Counter, defaultdict, dict, list, set, deque),
)
"""The built-in types whose subclasses have a shape; those that are subclasses themselves come first."""

SECRETS: tuple[Any, ...] = (SecretStr, SecretBytes, Secret)
"""The classes of secrets of pydantic."""

_DICT: Any = dict
_TUPLE: Any = tuple
_DEFAULT: Any = defaultdict
_DEQUE: Any = deque
_ORDERED: Any = OrderedDict
_STRUCT: Any = msgspec.Struct
_IMMUTABLE: frozenset[Any] = frozenset({str, bytes, int, float, tuple, frozenset})
_ATTRS_HASH = "_attrs_cached_hash"
_UNSET = "unset"
_GIVEN = "given"
_EXTRA = "extra"
_PRIVATE = "private"


_set = object.__setattr__


class Shape(ABC):
    """The way in which the objects of a class are taken apart and made again.

    Args:
        kind: The class.
    """

    is_shared = True
    """Whether it matters that two parts of a value are the same object."""
    is_foreign = False
    """Whether code of others makes the object, so that it is compared by what it says itself."""

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind

    @abstractmethod
    def parts(self, value: Any) -> Parts:
        """Take an object apart."""

    @abstractmethod
    def build(self, fields: dict[str, Any], rest: Mapping[str, Any]) -> object:
        """Make an object of its parts."""


class ModelShape(Shape):
    """Pydantic models: their fields, which of them were given, and their extra and private attributes."""

    def __init__(self, kind: type[Any]) -> None:
        super().__init__(kind)
        self._names = kind.model_fields.keys()
        self._is_root = issubclass(kind, RootModel)  # which has no extra and no private attributes

    def parts(self, value: Any) -> Parts:
        """Take a model apart."""
        fields: dict[str, object] = value.__dict__
        names = fields.keys()
        if not names <= self._names:
            _check_cached(self.kind, names - self._names)
            fields = {name: each for name, each in fields.items() if name in self._names}
            names = fields.keys()
        rest: dict[str, object] = {}
        given: set[str] = value.__pydantic_fields_set__
        if len(given) != len(fields) or given != names:
            rest[_UNSET] = sorted(names - given)
            if not given <= names:
                rest[_GIVEN] = sorted(given - names)
        if value.__pydantic_extra__ is not None:
            rest[_EXTRA] = value.__pydantic_extra__
        if value.__pydantic_private__ is not None:
            rest[_PRIVATE] = value.__pydantic_private__
        return fields, rest

    def build(self, fields: dict[str, Any], rest: Mapping[str, Any]) -> object:
        """Make a model as a copy of it would be made."""
        model = object.__new__(self.kind)
        given = set(fields)
        if rest:
            given.difference_update(rest.get(_UNSET, ()))
            given.update(rest.get(_GIVEN, ()))
        _set(model, "__dict__", fields)
        _set(model, "__pydantic_fields_set__", given)
        if not self._is_root:
            _set(model, "__pydantic_extra__", rest.get(_EXTRA))
            _set(model, "__pydantic_private__", rest.get(_PRIVATE))
        return model


class AttributesShape(Shape):
    """Dataclasses and attrs classes: their attributes, in a dictionary or in slots."""

    def __init__(self, kind: type[Any]) -> None:
        super().__init__(kind)
        self._slots = slots_of(kind)
        self._own = {each.name for each in dataclass_fields(kind)} if is_dataclass(kind) else set[str]()

    def parts(self, value: Any) -> Parts:
        """Take an object apart."""
        held: dict[str, object] = getattr(value, "__dict__", {})
        fields = {name: each for name, each in held.items() if not self._is_derived(name)}
        for name in self._slots:
            if hasattr(value, name):
                fields[name] = getattr(value, name)
        if fields.get(_ATTRS_HASH) is not None:  # another one in each process
            fields[_ATTRS_HASH] = None
        return fields, {}

    def _is_derived(self, name: str) -> bool:
        return name not in self._own and (name == "__orig_class__" or is_cached(self.kind, name))

    def build(self, fields: dict[str, Any], rest: Mapping[str, Any]) -> object:
        """Make an object, also a frozen one, without its `__init__`."""
        return self._with_fields(object.__new__(self.kind), fields)

    def _with_fields(self, made: object, fields: Mapping[str, object]) -> object:
        for name, each in fields.items():
            if name in self._slots:
                _set(made, name, each)
            else:
                vars(made)[name] = each
        return made


class StructShape(Shape):
    """Structs of msgspec."""

    def parts(self, value: Any) -> Parts:
        """Take a struct apart."""
        fields = {name: getattr(value, name) for name in self.kind.__struct_fields__}
        more: dict[str, object] = getattr(value, "__dict__", {})
        return {**fields, **{name: each for name, each in more.items() if not is_cached(self.kind, name)}}, {}

    def build(self, fields: dict[str, Any], rest: Mapping[str, Any]) -> object:
        """Make a struct without its `__post_init__`."""
        names = self.kind.__struct_fields__
        made = _STRUCT.__copy__(self._empty)
        for name, each in fields.items():
            if name in names:
                msgspec.structs.force_setattr(made, name, each)
            else:
                vars(made)[name] = each
        return made

    @cached_property
    def _empty(self) -> object:
        """A struct of a subclass without the code of the class, which then is one of the class itself."""
        code = {"__post_init__": _do_nothing, "__module__": __name__}
        plain: Any = types.new_class(
            self.kind.__name__, (self.kind,), exec_body=lambda body: body.update(code)
        )
        made: Any = plain(**dict.fromkeys(self.kind.__struct_fields__))
        msgspec.structs.force_setattr(made, "__class__", self.kind)
        return made


class NamedTupleShape(Shape):
    """Named tuples."""

    def parts(self, value: Any) -> Parts:
        """Take a named tuple apart."""
        if getattr(value, "__dict__", None):
            raise TypeError(self.kind)
        return dict(zip(self.kind._fields, value, strict=True)), {}

    def build(self, fields: dict[str, Any], rest: Mapping[str, Any]) -> object:
        """Make a named tuple."""
        return _TUPLE.__new__(self.kind, [fields[name] for name in self.kind._fields])


class EnumShape(Shape):
    """Members of enumerations, by name; combinations of flags, by number."""

    is_shared = False

    def parts(self, value: Any) -> Parts:
        """Name a member."""
        member: Enum = value
        if member.name in self.kind.__members__:
            return {}, {"name": member.name}
        return {}, {"value": member.value}

    def build(self, fields: dict[str, Any], rest: Mapping[str, Any]) -> object:
        """Find a member."""
        return self.kind.__members__[rest["name"]] if "name" in rest else self.kind(rest["value"])


class SecretShape(Shape):
    """Secrets of pydantic, with their values."""

    def parts(self, value: Any) -> Parts:
        """Take a secret apart."""
        return {}, {"secret": value.get_secret_value()}

    def build(self, fields: dict[str, Any], rest: Mapping[str, Any]) -> object:
        """Make a secret."""
        return self.kind(rest["secret"])


class BuiltinShape(AttributesShape):
    """Subclasses of built-in types: the value of the built-in type, and attributes."""

    def __init__(self, kind: type[Any]) -> None:
        super().__init__(kind)
        self._base: Any = next(each for each in BASES if issubclass(kind, each))

    def parts(self, value: Any) -> Parts:
        """Take an object apart."""
        fields, _ = super().parts(value)
        if self._base is _DEFAULT:
            base: object = _DEFAULT(value.default_factory, _DICT.items(value))
        elif issubclass(self._base, _DICT):
            base = _dictionary_of(self._base, value)
        elif self._base is _DEQUE:
            base = _DEQUE(value, value.maxlen)
        elif self._base in (str, bytes, int, float):
            base = self._base.__getnewargs__(value)[0] if self._base is not float else float.__float__(value)
        else:
            base = self._base(self._base.__iter__(value))
        return fields, {"base": base}

    def build(self, fields: dict[str, Any], rest: Mapping[str, Any]) -> object:
        """Make an object without its `__init__`."""
        base = rest["base"]
        if self._base in _IMMUTABLE:
            made = self._base.__new__(self.kind, base)
        else:
            made = self._base.__new__(self.kind)
            if self._base is _DEQUE:
                _DEQUE.__init__(made, base, base.maxlen)
            elif self._base is _DEFAULT:
                _DEFAULT.__init__(made, base.default_factory, base)
            else:
                self._base.__init__(made, base)
        return self._with_fields(made, fields)


class AdaptedShape(Shape):
    """Classes that only pydantic knows how to write, such as addresses of the web.

    Args:
        kind: The class.
        annotation: The class, with the serializers and validators that were declared for it.
    """

    is_foreign = True

    def __init__(self, kind: type[Any], annotation: Any) -> None:
        super().__init__(kind)
        self._adapter: TypeAdapter[Any] = TypeAdapter(annotation)

    def parts(self, value: Any) -> Parts:
        """Have pydantic write an object."""
        return {}, {"data": self._adapter.dump_python(value, mode="json", round_trip=True, warnings=False)}

    def build(self, fields: dict[str, Any], rest: Mapping[str, Any]) -> object:
        """Have pydantic make an object."""
        return self._adapter.validate_python(rest["data"], by_alias=True, by_name=True)


def class_shape(kind: type[Any]) -> Shape | None:
    """The shape of a class; None where only pydantic may know one."""
    if issubclass(kind, Enum):
        return EnumShape(kind) if issubclass(kind, Flag) or kind.__members__ else None
    if issubclass(kind, BaseModel):
        return ModelShape(kind)
    if issubclass(kind, SECRETS):
        return SecretShape(kind)
    if issubclass(kind, _STRUCT):
        return StructShape(kind)
    base = next((each for each in BASES if issubclass(kind, each)), None)
    if base is tuple and hasattr(kind, "_fields"):
        return NamedTupleShape(kind)
    if base is not None:
        return BuiltinShape(kind)
    if (is_dataclass(kind) or hasattr(kind, "__attrs_attrs__")) and _has_own_layout(kind):
        return AttributesShape(kind)
    return None


def slots_of(kind: type[Any]) -> tuple[str, ...]:
    """The names of the slots of a class and its bases, as attributes have them."""
    found: list[str] = []
    for each in kind.__mro__:
        slots: Any = vars(each).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                is_private = name.startswith("__") and not name.endswith("__")
                found.append(f"_{each.__name__.lstrip('_')}{name}" if is_private else name)
    return tuple(found)


def is_cached(kind: type[Any], name: str) -> bool:
    """Whether an attribute is one that the object computes when it is asked for."""
    return isinstance(getattr_static(kind, name, None), cached_property)


def _do_nothing(_: object) -> None:
    """Stands for the code of a class."""


def _check_cached(kind: type[Any], names: Iterable[str]) -> None:
    if not all(is_cached(kind, name) for name in names):
        raise TypeError(kind)


def _dictionary_of(base: Any, value: Any) -> object:
    """The dictionary that an object of a subclass is."""
    made = base()
    if base is _ORDERED:
        made.update(base.items(value))
    else:
        _DICT.update(made, _DICT.items(value))
    return made


def _has_own_layout(kind: type[Any]) -> bool:
    """Whether the objects of a class hold nothing but attributes: none of its bases is made in C."""
    try:
        object.__new__(kind)
    except TypeError:
        return False
    return True
