"""Canonical forms of what the standard library and numpy hold beside plain containers, without their code."""

import gc
import re
import types
from collections import OrderedDict
from typing import Any, cast

from .canonical_containers import members_form, ordered_keys
from .canonical_leaves import sized, text_form
from .canonical_names import type_name
from .canonical_writer import FormWriter, Maker, unstable_form
from .mutable_state import held_attributes

_PLAIN_KINDS = "biufcSUMm"
"""The kinds of arrays of numpy whose bytes say everything."""

_MOST_BYTES = {"f": 8, "c": 16}
"""The size of numbers of numpy that have no bytes without a meaning."""


class AddressedText(str):
    """A text in which objects were written by their addresses in memory, which are left out."""

    __slots__ = ()


def addressed_form(writer: FormWriter, value: AddressedText) -> bytes:
    """The form of such a text: others may have the same."""
    writer.doubt("", "shows objects by their addresses in memory, which say nothing of them")
    return b"0" + text_form(value)


def namespace_form(writer: FormWriter, value: types.SimpleNamespace) -> bytes:
    """The form of a namespace: it is data, so its private attributes count, too."""
    attributes = held_attributes(value) or {}
    return b"@%d:%b" % (len(attributes), writer.attributes(attributes))


def _held_by(value: object) -> object:
    """The mapping that a proxy or a view shows. No method of it is called, which may be of the user's."""
    return gc.get_referents(value)[0]


def proxy_form(writer: FormWriter, value: object) -> bytes:
    """The form of a proxy of a mapping."""
    return b"V" + writer.form(_held_by(value))


def _view_maker(tag: bytes, *, keys: bool, values: bool) -> Maker:
    def make(writer: FormWriter, value: Any) -> bytes:
        held = cast("dict[Any, Any]", _held_by(value))
        is_ordered = isinstance(held, OrderedDict)
        names = ordered_keys(held) if is_ordered else list(dict[Any, Any].keys(held))
        items = dict(zip(dict[Any, Any].keys(held), dict[Any, Any].values(held), strict=True))
        shown = [
            (*((name,) if keys else ()), *((items[name],) if values else ()))  # in the order of the names
            for name in names
        ]
        return tag + (writer.forms(shown) if is_ordered else members_form(writer, shown))

    return make


def match_form(writer: FormWriter, value: "re.Match[Any]") -> bytes:
    """The form of a match: what was looked for, where, and the spans that were found."""
    return b"~" + writer.forms((value.re, value.string, value.pos, value.endpos, value.regs))


def wrapped_function_form(writer: FormWriter, value: Any) -> bytes:
    """The form of a static method or a class method as such."""
    return b"\\" + text_form(type(value).__name__) + writer.form(value.__func__)


def property_form(writer: FormWriter, value: property) -> bytes:
    """The form of a property as such."""
    return b"/" + writer.forms((value.fget, value.fset, value.fdel))


def is_structure(kind: type[Any]) -> bool:
    """Whether a class is a tuple with named parts of the standard library, such as `time.struct_time`."""
    return tuple in kind.__mro__ and "n_sequence_fields" in vars(kind)


def structure_form(writer: FormWriter, value: Any) -> bytes:
    """The form of such a tuple."""
    return (
        b"&"
        + text_form(type_name(cast("type[Any]", type(value))))
        + writer.forms(value.__reduce__()[1])  # with the parts that only have names
    )


def maker_of_numpy(kind: type[Any]) -> Maker | None:
    """The maker for arrays and numbers of numpy; None for other types, its subclasses among them."""
    name = type_name(kind)
    if not name.startswith("numpy."):
        return None
    bases = {type_name(base) for base in kind.__mro__}
    if name == "numpy.ndarray" or "numpy.generic" in bases:
        return _numpy_form
    return _type_of_numpy_form if "numpy.dtype" in bases else None


def _numpy_form(writer: FormWriter, value: Any) -> bytes:
    kind, size = value.dtype.kind, value.dtype.itemsize
    named = type_name(cast("type[Any]", type(value)))
    start = b"%" + text_form(named) + text_form(repr(value.dtype)) + writer.form(value.shape)
    if kind in _PLAIN_KINDS and size <= _MOST_BYTES.get(kind, size):
        return start + sized(b"b", value.tobytes())
    if kind in _MOST_BYTES:  # of a size that depends on the machine
        return start + text_form(" ".join(map(str, value.ravel())))
    if kind == "V" and value.dtype.names is None:
        return start + sized(b"b", value.tobytes())
    return start + writer.form(value.tolist()) if kind in "OTV" else unstable_form(writer, value)


def _type_of_numpy_form(writer: FormWriter, value: Any) -> bytes:
    return b"%%" + text_form(repr(value))


_PLAIN: dict[Any, Any] = {}

LIBRARY: dict[type[Any], Maker] = {
    AddressedText: addressed_form,
    types.SimpleNamespace: namespace_form,
    types.MappingProxyType: proxy_form,
    type(_PLAIN.keys()): _view_maker(b"<k", keys=True, values=False),
    type(_PLAIN.values()): _view_maker(b"<v", keys=False, values=True),
    type(_PLAIN.items()): _view_maker(b"<i", keys=True, values=True),
    type(OrderedDict[Any, Any]().keys()): _view_maker(b"<K", keys=True, values=False),
    type(OrderedDict[Any, Any]().values()): _view_maker(b"<V", keys=False, values=True),
    type(OrderedDict[Any, Any]().items()): _view_maker(b"<I", keys=True, values=True),
    re.Match: match_form,
    staticmethod: wrapped_function_form,
    classmethod: wrapped_function_form,
    property: property_form,
}
"""The makers of the types that hold others, by their exact types."""
