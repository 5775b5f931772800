"""Numbers as bytes that are the same on every machine."""

import sys
from array import array
from collections.abc import Iterable
from typing import Any, Literal


def packed(code: Literal["q", "f"], numbers: Iterable[Any]) -> bytes:
    """Return whole numbers of 64 bits, or floating-point numbers of 32, as bytes."""
    return _little(array(code, numbers)).tobytes()


def unpacked(code: Literal["q", "f"], body: bytes) -> "array[Any]":
    """Return the numbers that were packed."""
    numbers: array[Any] = array(code)
    numbers.frombytes(body)
    return _little(numbers)


def _little(numbers: "array[Any]") -> "array[Any]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
