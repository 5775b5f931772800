"""Bounds on what one operation of a model's code makes, such as `10 ** 10 ** 8` or `"a" * 10 ** 10`.

Such an operation is one call of a function written in C. Nothing can end it once it has begun, so it is
refused where the size of its result is known before. Iterators without an end get checks between their
values.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from types import GeneratorType
from typing import Any

from ..errors import ToolBoundaryError

MAX_BITS = 4_000_000
"""The greatest number of bits of an integer that one operation may make: 1.2 million decimal digits."""

MAX_CHARACTERS = 50_000_000
"""The greatest length of a text or bytes that one operation may make."""

MAX_ITEMS = 10_000_000
"""The greatest length of a list or tuple that one operation may make."""

MAX_STEPS = 200_000_000
"""The greatest product of the bits of an exponent and a modulus."""

MAX_UNCHECKED = 10_000
"""The length of a range up to which functions written in C go through it without checks."""

_TEXTS = (str, bytes, bytearray)


class SizeChecks:
    """The operators of a model's code; see `pausing.Checks`."""

    __slots__ = ()

    def each(self, values: Iterable[Any]) -> Iterator[Any]:
        """Iterate over values with checks between them."""
        raise NotImplementedError

    def power(self, base: Any, exponent: Any) -> Any:
        """Return a power."""
        return base ** self.exponent(base, exponent)

    def exponent(self, base: object, exponent: Any) -> Any:
        """Return an exponent, if the power is not too large."""
        if isinstance(base, int) and isinstance(exponent, int) and exponent > 1:
            check_bits((abs(base) - 1).bit_length() * exponent)
        return exponent

    def shifted(self, value: Any, count: Any) -> Any:
        """Return a number shifted to the left."""
        return value << self.shift(value, count)

    def shift(self, value: object, count: Any) -> Any:
        """Return a number of bits, if the shifted number is not too large."""
        if isinstance(value, int) and isinstance(count, int) and value:
            check_bits(value.bit_length() + count)
        return count

    def product(self, left: Any, right: Any) -> Any:
        """Return a product."""
        if type(left) is not float and type(right) is not float:
            self.factor(left, right)
        return left * right

    def factor(self, left: Any, right: Any) -> Any:
        """Return the right factor, if the product is not too large."""
        if isinstance(right, int):
            if isinstance(left, int):
                check_bits(left.bit_length() + right.bit_length())
            else:
                _check_repeated(left, right)
        elif isinstance(left, int):
            _check_repeated(right, left)
        return right

    def stream(self, values: Any) -> Any:
        """Return values that a function goes through, with checks between many of them."""
        kind = _type_of(values)
        if kind is range:
            return self.each(values) if len(values) > MAX_UNCHECKED else values
        if kind is GeneratorType or hasattr(kind, "__len__") or not hasattr(kind, "__next__"):
            return values
        return self.each(values)

    def spread(self, values: Any) -> Any:
        """Return values to unpack or to keep, with checks between many, and no more than may be kept."""
        kind = _type_of(values)
        if kind is range:
            _check_items(len(values))
        elif not hasattr(kind, "__len__") and hasattr(kind, "__next__"):
            return self.each(chain(islice(values, MAX_ITEMS), _too_many(values)))
        return self.stream(values)


def check_bits(bits: int) -> None:
    """Refuse a number that has more bits than one operation may make.

    Raises:
        ToolBoundaryError: It has.
    """
    if bits > MAX_BITS:
        raise _too_large(f"a number of {bits:,} bits", f"{MAX_BITS:,} bits")


def _type_of(value: object) -> type[object]:
    return type(value)


def _check_repeated(values: Any, count: int) -> None:
    if isinstance(values, _TEXTS):
        check_length(len(values) * count)
    elif issubclass(type(values), list | tuple | deque):
        _check_items(len(values) * count)


def _check_items(length: int) -> None:
    if length > MAX_ITEMS:
        raise _too_large(f"{length:,} items", f"{MAX_ITEMS:,} items")


def _too_many(values: Iterator[object]) -> Iterator[object]:
    """Yield nothing; refuse values that are left."""
    for _ in values:
        raise _too_large(f"more than {MAX_ITEMS:,} items", f"{MAX_ITEMS:,} items")
    yield from ()


def check_sum(values: Any, start: object) -> None:
    """Refuse a sum of lists, each step of which copies all before it, if that is too long.

    Raises:
        ToolBoundaryError: It is.
    """
    if type(start) in (list, tuple) and type(values) in (list, tuple):
        _check_items(len(values) * sum(map(len, values)) // 100)


def check_modulus(exponent: object, modulus: object) -> None:
    """Refuse a power with a modulus that takes too long.

    Raises:
        ToolBoundaryError: It does.
    """
    if isinstance(exponent, int) and isinstance(modulus, int):
        bits = exponent.bit_length() * modulus.bit_length()
        if bits > MAX_STEPS:
            raise _too_large(f"a power of {bits:,} steps", f"{MAX_STEPS:,} steps")


def check_length(length: int) -> None:
    """Refuse a text that has more characters than one operation may make.

    Raises:
        ToolBoundaryError: It has.
    """
    if length > MAX_CHARACTERS:
        raise _too_large(f"a text of {length:,} characters", f"{MAX_CHARACTERS:,} characters")


def _too_large(what: str, limit: str) -> ToolBoundaryError:
    return ToolBoundaryError(
        kind="execution",
        message=f"this would make {what}; one operation may make {limit}. It was not carried out.",
        guidance="Work with smaller parts.",
    )
