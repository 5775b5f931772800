"""Canonical forms of values that hold no others: bytes that are equal only for equal values of one type.

A form ends itself: its length, or a character that is not part of it, comes before the next one.
"""

import array
import datetime
import decimal
import fractions
import ipaddress
import pathlib
import re
import uuid
from collections.abc import Callable, Mapping
from types import EllipsisType, NoneType, NotImplementedType
from typing import Any


def sized(tag: bytes, content: bytes) -> bytes:
    """A form of any bytes."""
    return b"%b%d:%b" % (tag, len(content), content)


def text_form(text: str) -> bytes:
    """The form of a text, also of one with halves of surrogate pairs."""
    return sized(b"s", str.encode(text, "utf-8", "surrogatepass"))


def integer_form(number: int) -> bytes:
    """The form of a whole number of any size."""
    length = (int.bit_length(number) + 8) // 8
    return sized(b"i", int.to_bytes(number, length, "big", signed=True))


def float_form(number: float) -> bytes:
    """The form of a float; infinities, both zeros and the value that is no number are distinct."""
    return sized(b"f", float.hex(number).encode())


def _complex_form(number: complex) -> bytes:
    return sized(b"c", float_form(number.real) + float_form(number.imag))


def _decimal_form(number: decimal.Decimal) -> bytes:
    sign, digits, exponent = decimal.Decimal.as_tuple(number)
    return sized(b"D", f"{sign} {''.join(map(str, digits))} {exponent}".encode())


def _fraction_form(number: fractions.Fraction) -> bytes:
    return sized(b"Q", integer_form(number.numerator) + integer_form(number.denominator))


def _date_form(day: datetime.date) -> bytes:
    return sized(b"d", datetime.date.isoformat(day).encode())


def _difference_form(time: datetime.timedelta) -> bytes:
    return sized(b"e", f"{time.days} {time.seconds} {time.microseconds}".encode())


def _range_form(numbers: range) -> bytes:
    return sized(b"r", b"".join(map(integer_form, (numbers.start, numbers.stop, numbers.step))))


_BYTES_OF_ARRAYS: Callable[[Any], bytes] = vars(array.array)["tobytes"]


def _array_form(numbers: "array.array[Any]") -> bytes:
    return sized(b"a", numbers.typecode.encode() + _BYTES_OF_ARRAYS(numbers))


def _pattern_form(pattern: "re.Pattern[Any]") -> bytes:
    text = pattern.pattern
    form = text_form(text) if isinstance(text, str) else sized(b"b", text)
    return sized(b"p", form + integer_form(pattern.flags))


def written_form(tag: bytes, write: Callable[[Any], str]) -> Callable[[Any], bytes]:
    """The form of a type whose values are written as texts, one for each value."""
    return lambda value: sized(tag, write(value).encode("utf-8", "surrogatepass"))


LEAVES: Mapping[type[Any], Callable[[Any], bytes]] = {
    NoneType: lambda _: b"N;",
    bool: lambda value: b"T;" if value else b"F;",
    str: text_form,
    int: integer_form,
    float: float_form,
    complex: _complex_form,
    bytes: lambda value: sized(b"b", value),
    bytearray: lambda value: sized(b"y", bytes(value)),
    EllipsisType: lambda _: b".;",
    NotImplementedType: lambda _: b"n;",
    decimal.Decimal: _decimal_form,
    fractions.Fraction: _fraction_form,
    datetime.date: _date_form,
    datetime.timedelta: _difference_form,
    uuid.UUID: lambda value: sized(b"U", integer_form(value.int)),
    range: _range_form,
    array.array: _array_form,
    re.Pattern: _pattern_form,
    **{
        kind: written_form(kind.__name__.encode(), kind.__str__)
        for kind in (
            *(pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path())),
            *(ipaddress.IPv4Address, ipaddress.IPv4Network, ipaddress.IPv4Interface),
            *(ipaddress.IPv6Address, ipaddress.IPv6Network, ipaddress.IPv6Interface),
        )
    },
}
"""The functions that return the forms of values, by their exact types."""

BASES: tuple[type[Any], ...] = (
    *(str, int, float, complex, bytes, bytearray, decimal.Decimal, fractions.Fraction),
    *(
        datetime.timedelta,
        uuid.UUID,
        array.array,
        *(kind for kind in LEAVES if issubclass(kind, pathlib.PurePath)),
    ),
    *(kind for kind in LEAVES if kind.__module__ == "ipaddress"),
)
"""The types of which a program may derive classes; their instances are also values of the base."""
