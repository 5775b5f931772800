"""Reading objects and texts safely: no code of theirs runs, and no text looks like structure.

`isinstance`, `getattr`, `len` and `iter` may all call user code (`__class__`, `__getattribute__`,
descriptors, metaclasses). The functions here read types, instance dictionaries and slots through the
interpreter's own descriptors instead, and ignore anything that cannot be read that way.

Data must never look like the library's own structure: a section delimiter inside a value is broken up, and
one-line text stays on one line.

A value prepared for display has parts: JSON values, or the classes here if something was left out or there is
a shorter form than JSON.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from types import GetSetDescriptorType, MappingProxyType, MemberDescriptorType, ModuleType
from typing import Any, Literal, TypeAlias, TypeGuard, Union, cast

from msgspec import Struct

from ..types.json import JsonableValue

VALUE_SHARE = 200
"""Tokens that are set aside for every value that does not fit into fewer, before any gets more."""

FIELD_SHARE = 120
"""The same for every field of an object."""

MULTIMODAL_ITEM_TOKENS = 512
"""The charge for a multimodal item against the section's budget; not an estimate of any provider's count."""


class ValueLine(Struct, frozen=True, kw_only=True, eq=False):
    """A line `name: type = …`, or `name.field: type = …`.

    Args:
        name: The name or the path.
        start: The line up to the value.
        value: The value that is shown.
        share: Tokens set aside for it at first.
        max_tokens: The greatest number of tokens that it may have; None for all that the section has left.
    """

    name: str
    start: str
    value: object
    share: int
    max_tokens: int | None


BIG_INTEGER_MARK = "\ufdd1"
"""The prefix of the digits of an integer of more than 64 bits; a noncharacter, absent from ordinary text."""

KEY_MARK = "\ufdd2"
"""The prefix of a text that stands without quotes: a key in Python's notation, the name of an object, a
number whose digits are cut. A noncharacter, too."""


class ShownKey(str):
    """The text of a key that is prepared for display."""

    __slots__ = ()


Noun: TypeAlias = Literal["items", "keys", "fields", "rows", "columns"]


class Text(Struct, frozen=True, kw_only=True):
    """A text that may be incomplete.

    Args:
        beginning: Its first characters.
        length: The number of characters of the whole.
        ending: Its last characters, if they are worth showing.
    """

    beginning: str
    length: int
    ending: str = ""


class Parts(Struct, frozen=True, kw_only=True):
    """A container that may be incomplete.

    Args:
        values: Its first items.
        keys: The key of each, for a mapping or an object.
        length: The number of items of the whole.
        noun: The word for its items.
        heading: The heading before the first: the shape of an array.
        kind: The class of an object, which is written as its call; empty for a container.
        gap: The number of first items among the values, where the others are its last ones; None without.
        facts: Facts about all items: the least, the greatest, the mean.
    """

    values: "list[Part]"
    keys: list[str] | None
    length: int
    noun: Noun
    heading: str = ""
    kind: str = ""
    gap: int | None = None
    facts: str = ""


class Table(Struct, frozen=True, kw_only=True):
    """Records with the same fields, whose names are given once.

    Args:
        row_type: The name of the records' class; empty if the line gives it.
        columns: The names of the columns.
        rows: The first rows, with a value for each column.
        length: The number of rows of the whole.
        width: The number of columns of the whole.
        gap: The number of first rows, where the others are its last ones; None without.
        facts: Facts about all rows by their names, with a value for each column.
    """

    row_type: str
    columns: list[str]
    rows: "list[list[Part]]"
    length: int
    width: int
    gap: int | None = None
    facts: "dict[str, list[JsonableValue]]" = {}


Part: TypeAlias = Union[JsonableValue, Text, Parts, Table]  # noqa: UP007  (pydantic never sees it)


def fair_level(demands: list[int], room: int) -> int:
    """Return the greatest share of each, so that all demands together fit and no room is wasted.

    Args:
        demands: The demands of each.
        room: The available tokens.
    """
    if sum(demands) <= room:
        return max(demands, default=0)
    ascending = sorted(demands)
    for index, demand in enumerate(ascending):
        level = room // (len(ascending) - index)
        if demand > level:
            return max(0, level)
        room -= demand
    return ascending[-1] if ascending else 0


def count_that_fit(sizes: list[int], room: int) -> int:
    """Count the entries that fit, so that none is cut to a stump, except a small one.

    Args:
        sizes: The sizes of the entries.
        room: The room for all.
    """
    room -= 2
    for index, size in enumerate(sizes):
        room -= size
        if room < 0:
            return index
    return len(sizes)


_encode_any: Callable[[object], str] = json.JSONEncoder(ensure_ascii=False).encode
ENCODERS: dict[type, Callable[[Any], str]] = {
    str: json.encoder.encode_basestring,
    int: int.__repr__,
    float: lambda value: float.__repr__(value) if math.isfinite(value) else _encode_any(value),
    bool: {False: "false", True: "true"}.__getitem__,
    type(None): {None: "null"}.__getitem__,
}
"""The writers of scalars, by their exact types."""


def encode(value: object) -> str:
    """Write a JSON value, on one line; scalars, which are most values, without an encoder of their own."""
    encoder = ENCODERS.get(type(value))
    return _encode_any(value) if encoder is None else encoder(value)


_BIG_INTEGER = re.compile(rf'"{BIG_INTEGER_MARK}(-?\d+)"')

_KEY = re.compile(rf'"{KEY_MARK}((?:[^"\\]|\\.)*)"')

_DELIMITER_START = "<<<NH:"
_BROKEN_DELIMITER_START = "\\u003c<<NH:"

_NO_TEXT = re.compile(r"[\ud800-\udfff\ufdd0-\ufdef]")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef]+")


def break_delimiters(text: str) -> str:
    r"""Replace the beginning of every section delimiter by an equal JSON text, `\u003c<<NH:`.

    Args:
        text: Rendered values; inside a JSON string the replacement means the same characters.
    """
    return text.replace(_DELIMITER_START, _BROKEN_DELIMITER_START)


def finished_preview(text: str) -> str:
    """Write big integers and marked keys without quotes, and break up texts that look like a delimiter.

    Args:
        text: The JSON of a value, or a form of it with marks.
    """
    if BIG_INTEGER_MARK in text:
        text = _BIG_INTEGER.sub(r"\1", text).replace(BIG_INTEGER_MARK, "")
    if KEY_MARK in text:
        text = _KEY.sub(_without_quotes, text)
    return text.replace(_DELIMITER_START, _BROKEN_DELIMITER_START)


def _without_quotes(found: re.Match[str]) -> str:
    return str(json.loads(f'"{found[1]}"')) if "\\" in found[1] else found[1]


def safe_text(text: str) -> str:
    """The text with both replacements: of delimiters, and of code points that are no text.

    Args:
        text: Rendered values.
    """
    clean = text if text.isascii() else _NO_TEXT.sub("\ufffd", text)
    return clean.replace(_DELIMITER_START, _BROKEN_DELIMITER_START)


class ShownAsText:
    """Base of results of tools that models are shown as the text that `str` gives, and not as data."""

    __slots__ = ()


def shown_text(value: object) -> str | None:
    """Return the text as which a model is shown a value, without quotes and escapes; None for other values.

    These are lone texts, objects of `ShownAsText`, and lists of these.

    Args:
        value: The value.
    """
    if type(value) is str:
        return None if _needs_quotes(value) else value
    if type(value) is list or type(value) is tuple:
        items: list[object] = [*value]
        is_text = bool(items) and all(issubclass(type(each), ShownAsText) for each in items)
        return "\n".join(map(str, items)) if is_text else None
    return (str(value) or None) if issubclass(type(value), ShownAsText) else None


_OTHER_VALUE = re.compile(
    r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?j?|0[xXoObB][\da-fA-F_]+|[+-]?(?:nan|inf|infinity)"
    r"|none|null|true|false|ellipsis|\.\.\.|undefined|<hidden>"
    r"|(?:[rbuf]{0,2}\"|\[(?!redacted\])|\{|\().*(?:\"|\]|\}|\))|[rbuf]{0,2}'.*'|<.*>",
    re.IGNORECASE,
)
"""One line that could be read as another value: a number, a constant, a literal, an object.

What is redacted in a recording is none: its replay would get quotes that the recorded text has not.
"""


def _needs_quotes(text: str) -> bool:
    """Whether a text would not be recognized as one without quotes, or something of it would not be seen."""
    line = text.removesuffix("\n")
    if "\n" in line.strip():
        return False
    if line != line.strip() or not line.replace("\t", "").isprintable():
        return True
    return not line or _OTHER_VALUE.fullmatch(line) is not None


def clean_text(text: str) -> str:
    """Replace code points that are no text by U+FFFD.

    These are lone surrogates, which UTF-8 cannot carry, and noncharacters, which Unicode leaves to programs
    for their own use and which previews use as marks.
    """
    return text if text.isascii() else _NO_TEXT.sub("\ufffd", text)


def single_line(text: str, max_characters: int) -> str:
    """Put a text on one line of bounded length, control characters as spaces.

    Args:
        text: The text; only its beginning is read.
        max_characters: Characters to keep; if something is left out, the last of them is an ellipsis.
    """
    shown = _UNPRINTABLE.sub(" ", str.__getitem__(text, slice(0, max_characters + 1)))
    return shown if len(shown) <= max_characters else shown[: max_characters - 1] + "…"


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
    try:
        module = _module_of_type(cls)
    except AttributeError:  # made by `type` in code without a module
        return ""
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


class_of: Callable[[object], type[Any]] = type
"""The class of a value of any type."""


def kinds_of(items: Iterable[object]) -> set[int]:
    """The identities of the classes of some values: hashing a class would run code of its metaclass."""
    return set(map(id, map(class_of, items)))


def is_class(value: object) -> TypeGuard[type[Any]]:
    """Whether a value is a class, by its own class: the value is not asked."""
    return has_base(type(value), type)


def is_string(value: object) -> TypeGuard[str]:
    """Whether a value is a text, by its own class: the value is not asked."""
    return has_base(type(value), str)


def is_module(value: object) -> TypeGuard[ModuleType]:
    """Whether a value is a module, by its own class: the value is not asked."""
    return has_base(type(value), ModuleType)


def is_one_of(cls: type, classes: tuple[type, ...]) -> bool:
    """Whether a class is one of several, without calling its metaclass's `__eq__`."""
    return any(cls is candidate for candidate in classes)


def class_value(cls: type, name: str) -> Any:
    """An attribute of a class as stored in its dictionary, without binding it; None for none."""
    return find_class_attribute(cls, name)[1]


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
    descriptor = dictionary_descriptor(cls)
    return {} if descriptor is None else read_dictionary(value, descriptor, cls)


DictionaryDescriptor: TypeAlias = GetSetDescriptorType | MemberDescriptorType


def dictionary_descriptor(cls: type) -> DictionaryDescriptor | None:
    """Return what reads the `__dict__` of a class's instances; None when none does without running code."""
    descriptor = find_class_attribute(cls, "__dict__")[1]
    is_safe = is_one_of(type(descriptor), (GetSetDescriptorType, MemberDescriptorType))
    return cast("DictionaryDescriptor", descriptor) if is_safe else None


def read_dictionary(value: object, descriptor: DictionaryDescriptor, cls: type) -> Mapping[Any, object]:
    """Return the `__dict__` of an instance of a class."""
    dictionary: object = descriptor.__get__(value, cls)
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
