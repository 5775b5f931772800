"""Names of objects in previews: an object of a graph is shown once, and named everywhere else.

The name is a short text or number that the object itself has, `<Node "shop">`, where no other shown object of
its class has the same; otherwise the path to the place where it is shown, `<Node nodes[3].next>`. None of the
object's code runs, its `__repr__` neither.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

from ..secret_names import hides_value
from .containers import is_object_type, key_notation
from .objects import ObjectReader
from .plain_text import (
    clean_text,
    encode,
    single_line,
    type_name,
)

Step: TypeAlias = Literal["", ".", "[", "{"]
"""The kind of a step: to a name, a field, an index or a key, an item of a set."""


class Path(NamedTuple):
    """A place below a name. Compared by identity: two ways to one object are two places."""

    above: "Path | None"
    kind: Step
    step: Any


_ROOT = "value"
"""The name of a value that has none, as in the result of a tool."""

_LABEL_CHARACTERS = 32
_PATH_CHARACTERS = 40
_NAME_CHARACTERS = 60
_PATH_STEPS = 16
_UNNAMED = object()


class _Shown(NamedTuple):
    """An object that is shown; the reference keeps its identity from being reused."""

    value: object
    label: str
    path: Path
    line: str


class ShownObjects:
    """The objects that the lines of a section show, for lines that mention them later.

    Args:
        show_secrets: Whether labels may be values with secret names.
    """

    __slots__ = ("_labels", "_objects", "_readers", "_show_secrets")

    def __init__(self, *, show_secrets: bool = False) -> None:
        self._objects: dict[int, _Shown] = {}
        self._labels: dict[tuple[int, str], object] = {}
        self._readers: dict[int, tuple[type, ObjectReader | None]] = {}
        self._show_secrets = show_secrets

    def add_variable(self, name: str, value: object) -> None:
        """Note an object that has lines of its own, and is named by its variable.

        Args:
            name: The variable.
            value: The object.
        """
        self._objects.setdefault(id(value), _Shown(value, "", Path(None, "", name), name))

    def of_line(self, line: str) -> "LineObjects":
        """The objects of one line, which are not shown yet.

        Args:
            line: The name or the path of the line.
        """
        return LineObjects(self, line)

    def find(self, value: object, line: str) -> _Shown | None:
        """An object that another line shows; None if none does."""
        shown = self._objects.get(id(value))
        # A line that is written a second time, shorter, shows its objects again.
        return None if shown is None or shown.line == line else shown

    def find_reader(self, cls: type) -> ObjectReader | None:
        """The reader of the objects of a class; None where its values are no objects with an identity."""
        # By its identity, because hashing the class would run its code; kept, so that no other gets it.
        known = self._readers.get(id(cls))
        if known is None:
            reader = ObjectReader(cls) if is_object_type(cls) else None
            known = self._readers[id(cls)] = cls, reader
        return known[1]

    def label(self, value: object, cls: type) -> str:
        """The label that an object has; empty for none."""
        reader = self.find_reader(cls) or ObjectReader(cls)
        label = _find_label(value, reader, show_secrets=self._show_secrets)
        if label:
            owner = self._labels.setdefault((id(cls), label), value)
            if owner is not value:
                self._labels[id(cls), label] = _UNNAMED
        return label

    def add(self, key: int, shown: _Shown) -> None:
        """Note an object, by its identity, as it is shown first."""
        self._objects.setdefault(key, shown)

    def is_unique(self, shown: _Shown) -> bool:
        """Whether no other object of its class has the label of an object."""
        return self._labels.get((id(type(shown.value)), shown.label)) is shown.value


class LineObjects:
    """The objects that one preview shows."""

    __slots__ = ("_objects", "_section", "find_reader", "line", "root")

    def __init__(self, section: ShownObjects, line: str) -> None:
        self._section = section
        self.find_reader = section.find_reader
        self._objects: dict[int, _Shown] = {}
        self.line = line
        self.root = Path(None, "", line)

    @classmethod
    def alone(cls, *, show_secrets: bool = False) -> "LineObjects":
        """The objects of a line beside which there is no other.

        Args:
            show_secrets: Whether labels may be values with secret names.
        """
        return ShownObjects(show_secrets=show_secrets).of_line(_ROOT)

    def is_elsewhere(self, value: object) -> bool:
        """Whether another line shows an object.

        Args:
            value: Any value.
        """
        shown = self._section.find(value, self.line)
        return shown is not None

    def claim(self, value: object, cls: type, path: Path) -> None:
        """Choose the place where an object is shown, if it has none yet.

        Args:
            value: The object.
            cls: Its class.
            path: The place.
        """
        if id(value) not in self._objects and self._section.find(value, self.line) is None:
            label = self._section.label(value, cls)
            self._objects[id(value)] = _Shown(value, label, path, self.line)

    def name_elsewhere(self, value: object, path: Path) -> str | None:
        """Name an object that another place shows; None when this is the place.

        Args:
            value: Any value.
            path: The place that is asked for.
        """
        shown = self._objects.get(id(value)) or self._section.find(value, self.line)
        if shown is None or shown.path is path:
            return None
        is_labelled = shown.label and self._section.is_unique(shown)
        return named(type(value), shown.label if is_labelled else path_text(shown.path))

    def mark(self) -> int:
        """The number of claims, for `rewind`."""
        return len(self._objects)

    def rewind(self, mark: int) -> None:
        """Forget the claims since a mark: they were made for an estimate.

        Args:
            mark: The number of claims to keep.
        """
        while len(self._objects) > mark:
            self._objects.popitem()

    def keep(self) -> None:
        """Note that the line is shown whole."""
        for key, shown in self._objects.items():
            self._section.add(key, shown)


def named(cls: type, text: str) -> str:
    """The mention of an object or a container that another place shows.

    Args:
        cls: Its class.
        text: Its label or its path.
    """
    return single_line(f"<{type_name(cls)[:_LABEL_CHARACTERS]} {text}", _NAME_CHARACTERS) + ">"


def path_text(path: Path | None) -> str:
    """A place, as code reaches it; only the end of a long one.

    Args:
        path: The place.
    """
    text = ""
    for _ in range(_PATH_STEPS):
        if path is None:
            break
        text = _WRITTEN_STEPS[path.kind](path.step) + text
        path = path.above
        if len(text) > _PATH_CHARACTERS:
            break
    else:
        return f"…{text}" if path is not None else text
    return f"…{text[-_PATH_CHARACTERS:]}" if len(text) > _PATH_CHARACTERS else text


_WRITTEN_STEPS: dict[Step, Callable[[Any], str]] = {
    "": str,
    ".": lambda field: f".{field}",
    "[": lambda key: f"[{_quoted(key[:_LABEL_CHARACTERS]) if type(key) is str else key_notation(key)}]",
    "{": lambda key: "{…}",
}
"""The text of each kind of step, keys in Python's notation."""


def _quoted(text: str) -> str:
    return encode(clean_text(text))


def _find_label(value: object, reader: ObjectReader, *, show_secrets: bool) -> str:
    for name, label in reader.labels(value):
        if type(label) is str and 0 < len(label) <= _LABEL_CHARACTERS and label.isprintable():
            text = _quoted(label)
        elif type(label) is int and label.bit_length() < 64:
            text = f"{name}={label}"
        else:
            continue
        return "" if hides_value(name, label) and not show_secrets else text
    return ""
