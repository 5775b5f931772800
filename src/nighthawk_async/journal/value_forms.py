"""The stored form of values that are not plain data: it is written, and read back.

A form is what MessagePack has, and dictionaries with the key `$` for everything else: the tag of a built-in
type, or the number of a class in the header. Containers and objects are numbered in the order in which they
are met, so that an object that a value holds twice is stored once.
"""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import Any

from ..pickling import PicklableError
from ..prompt.plain_text import class_of
from .errors import JournalValueError
from .registered_types import registered, registered_names
from .value_leaves import LEAF_OF_TAG, LEAVES, SCALARS, SEQUENCE_OF_TAG, SEQUENCES
from .value_shapes import SecretShape, Shape
from .value_types import KnownTypes

TAG = "$"
TYPED = "typed"
"""The tag of the header of a form: it has the classes, whether parts are shared, and the form."""

MAX_INTEGER = 2**63
_REST = "rest"

_PAIRED: Mapping[type, str] = {OrderedDict: "ordered", Counter: "counter", defaultdict: "default"}
_PAIRED_OF_TAG: Mapping[str, Any] = {tag: kind for kind, tag in _PAIRED.items()}
PAIRED_TAGS = frozenset({"dict", *_PAIRED_OF_TAG})
"""The tags of forms that are made of pairs: dictionaries."""
_FACTORIES: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (list, dict, set, tuple, frozenset, str, bytes, int, float, bool, complex, NoneType)
}


class UnstorableError(PicklableError, TypeError):
    """A value has a part that no form is known for.

    Args:
        type_name: The name of the type of the part.
        reason: The reason; empty for none but its type.
    """

    def __init__(self, type_name: str, reason: str = "") -> None:
        super().__init__(type_name)
        self.type_name = type_name
        self.reason = reason


class FormWriter:
    """Writes the form of one value.

    Args:
        known: The classes that the declared type allows.
        keeps_secrets: Whether secrets may be stored.
    """

    def __init__(self, known: KnownTypes, *, keeps_secrets: bool) -> None:
        self._known = known
        self._shapes = known.shapes
        self._keeps_secrets = keeps_secrets
        self._numbers: dict[int, int] = {}  # of containers and objects, by id
        self._kept: list[object] = []  # what was made for the form, so that no id is used twice
        self._types: dict[type, int] = {}
        self._is_shared = False

    def whole(self, value: object) -> object:
        """The form of a value, with its header where it needs one.

        Raises:
            UnstorableError: It has a part that no form is known for.
        """
        form = self.form(value)
        if not self._types and not self._is_shared:
            return form
        known = self._known
        types = [[known.names[kind], known.digests[kind]] for kind in self._types]
        return {TAG: TYPED, "types": types, "shared": self._is_shared, "of": form}

    def form(self, value: Any) -> object:
        """The form of a part of the value."""
        kind = class_of(value)
        if kind in SCALARS:
            return value
        if kind is int:
            return value if -MAX_INTEGER <= value < MAX_INTEGER else {TAG: "int", "of": str(value)}
        if kind in self._shapes:
            return self._object_form(value, kind, self._shapes[kind])
        if kind in LEAVES:
            leaf = LEAVES[kind]
            return {TAG: leaf.tag, "of": leaf.dump(value)}
        sequence = SEQUENCES.get(kind)
        if (sequence is None or sequence.is_shared) and (same := self._enter(value)) is not None:
            return same
        form = self.form
        if kind is list:  # here, and not in another function, for values that are many levels deep
            return [each if type(each) in SCALARS else form(each) for each in value]
        if kind is dict:
            if all(type(key) is str for key in value) and TAG not in value:
                return {name: each if type(each) in SCALARS else form(each) for name, each in value.items()}
            return {TAG: "dict", "of": self._pairs(value.items())}
        if sequence is not None:
            return {TAG: sequence.tag, "of": self._forms(sequence.parts(value))}
        return self._special_form(value, kind)

    def _forms(self, values: Iterable[object]) -> list[object]:
        form = self.form
        return [each if type(each) in SCALARS else form(each) for each in values]

    def _fields(self, values: Mapping[str, object]) -> dict[str, object]:
        form = self.form
        return {name: each if type(each) in SCALARS else form(each) for name, each in values.items()}

    def _special_form(self, value: Any, kind: type[Any]) -> object:
        if kind in registered:
            known = registered[kind]
            data = known.dump(value)
            self._kept.append(data)
            return {TAG: "registered", "name": known.name, "of": self.form(data)}
        if kind is deque:
            return {TAG: "deque", "most": value.maxlen, "of": self._forms(value)}
        if kind in _PAIRED:
            if getattr(value, "__dict__", {}).keys() - {"__orig_class__"}:
                raise UnstorableError(kind.__qualname__, "it has attributes of its own")
            form: dict[str, object] = {TAG: _PAIRED[kind], "of": self._pairs(value.items())}
            if kind is defaultdict:
                form["factory"] = self._factory_form(value.default_factory)
            return form
        raise UnstorableError(kind.__qualname__)

    def _pairs(self, items: Iterable[tuple[object, object]]) -> list[list[object]]:
        return [[self.form(key), self.form(each)] for key, each in items]

    def _factory_form(self, factory: Any) -> object:
        if factory is None or _FACTORIES.get(getattr(factory, "__name__", "")) is factory:
            return factory and factory.__name__
        if factory in self._shapes:
            return self._types.setdefault(factory, len(self._types))
        raise UnstorableError("defaultdict", "its factory is a function")

    def _object_form(self, value: Any, kind: type[Any], shape: Shape) -> object:
        if isinstance(shape, SecretShape) and not self._keeps_secrets:
            raise UnstorableError(kind.__qualname__, secret_problem(kind.__qualname__))
        if shape.is_shared and (same := self._enter(value)) is not None:
            return same
        number = self._types.setdefault(kind, len(self._types))
        fields, rest = shape.parts(value)
        form: dict[str, object] = {TAG: number, "of": self._fields(fields)}
        if rest:
            self._kept.append(rest)
            form[_REST] = self._fields(rest)
        return form

    def _enter(self, value: object) -> object:
        """Number a container or an object; return the reference to it where it has a number already."""
        number = self._numbers.get(id(value))
        if number is None:
            self._numbers[id(value)] = len(self._numbers)
            return None
        self._is_shared = True
        return {TAG: "same", "of": number}


class FormReader:
    """Reads the form of one value.

    Args:
        place: The place of the value, for errors.
        types: The names and digests of the classes in the form.
        known: The classes that the declared type allows.
        is_shared: Whether parts are stored once that the value holds twice.
    """

    def __init__(
        self,
        place: str,
        types: Sequence[tuple[str, str]] = (),
        known: KnownTypes | None = None,
        *,
        is_shared: bool = False,
    ) -> None:
        self._place = place
        self._shapes = [None if known is None else known.find(*each) for each in types]
        self._met: list[object] | None = [] if is_shared else None

    @property
    def is_whole(self) -> bool:
        """Whether all classes are known; otherwise the fields of an object stand for it."""
        return None not in self._shapes

    def value(self, form: Any) -> Any:
        """The value of a form."""
        kind = class_of(form)
        value = self.value
        if kind is list:
            number = self._enter()
            return self._put(number, [each if type(each) in SCALARS else value(each) for each in form])
        if kind is not dict:
            return form
        tag = form.get(TAG)
        if tag is None:
            number = self._enter()
            return self._put(
                number,
                {name: each if type(each) in SCALARS else value(each) for name, each in form.items()},
            )
        if isinstance(tag, int):
            return self._object(form, self._shapes[tag])
        data = form["of"]
        if tag == "int":
            return int(data)
        if tag in LEAF_OF_TAG:
            return LEAF_OF_TAG[tag].load(data)
        if tag in SEQUENCE_OF_TAG:
            sequence = SEQUENCE_OF_TAG[tag]
            number = self._enter() if sequence.is_shared else -1
            return self._put(number, sequence.build(self._values(data)))
        if tag == "same":
            assert self._met is not None
            if self._met[data] is self:
                raise JournalValueError(f"{self._place}: a value holds itself.", place=self._place)
            return self._met[data]
        return self._put(self._enter(), self._special(tag, form, data))

    def _special(self, tag: str, form: Mapping[str, Any], data: Any) -> object:
        if tag == "dict":
            return dict(self._pairs(data))
        if tag == "registered":
            if form["name"] not in registered_names:
                raise JournalValueError(
                    f"{self._place}: the type {form['name']} is not registered in this program; call "
                    "nighthawk_async.journal.register before the run begins.",
                    place=self._place,
                )
            return registered_names[form["name"]].load(self.value(data))
        if tag == "deque":
            return deque(self._values(data), form["most"])
        kind = _PAIRED_OF_TAG[tag]
        pairs = self._pairs(data)
        return kind(dict(pairs)) if kind is not defaultdict else defaultdict(self._factory(form), pairs)

    def _factory(self, form: Mapping[str, Any]) -> type | None:
        name = form["factory"]
        if isinstance(name, int):
            shape = self._shapes[name]
            return None if shape is None else shape.kind
        return None if name is None else _FACTORIES[name]

    def _object(self, form: Mapping[str, Any], shape: Shape | None) -> object:
        number = self._enter() if shape is None or shape.is_shared else -1
        fields = self._fields(form["of"])
        rest = self._fields(form[_REST]) if _REST in form else {}
        if shape is not None:
            return self._put(number, shape.build(fields, rest))
        if not fields and rest:
            return next(iter(rest.values()))
        fields.update(rest.get("extra", {}))
        return fields  # of a class that has changed, or is unknown here

    def _values(self, forms: list[Any]) -> list[Any]:
        kinds = set(map(type, forms))
        return [self.value(each) for each in forms] if list in kinds or dict in kinds else list(forms)

    def _fields(self, forms: Mapping[str, Any]) -> dict[str, Any]:
        value = self.value
        return {name: each if type(each) in SCALARS else value(each) for name, each in forms.items()}

    def _pairs(self, forms: Iterable[Sequence[Any]]) -> list[tuple[Any, Any]]:
        return [(self.value(key), self.value(each)) for key, each in forms]

    def _enter(self) -> int:
        if self._met is None:
            return -1
        self._met.append(self)  # until it is read
        return len(self._met) - 1

    def _put(self, number: int, value: Any) -> Any:
        if self._met is not None and number >= 0:
            self._met[number] = value
        return value


def secret_problem(name: str) -> str:
    """The reason why a secret is not stored."""
    return (
        f"{name} is a secret, and a store without encryption would have it in clear: open the journal with "
        "keys=, or store where the secret is"
    )
