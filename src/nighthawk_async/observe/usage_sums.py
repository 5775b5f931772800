"""Adding up usage that is told again and again, and may become less incomplete.

Amounts are usage as plain numbers in a row, the last of them telling how many parts are incomplete: so what
was told before can be taken back.
"""

from collections.abc import Callable
from dataclasses import fields
from operator import add, attrgetter, sub
from typing import Any, TypeAlias

from ..types.usage import Usage

__all__ = ["NO_AMOUNTS", "NO_USAGE", "Amounts", "amounts_of", "difference", "total", "usage_of"]

Amounts: TypeAlias = tuple[Any, ...]
"""Whole numbers, and decimals for costs."""

_NAMES = tuple(field.name for field in fields(Usage) if field.name != "is_complete")
_numbers_of: Callable[[Usage], Amounts] = attrgetter(*_NAMES)


def amounts_of(usage: Usage) -> Amounts:
    """A usage as amounts."""
    return (*_numbers_of(usage), 0 if usage.is_complete else 1)


def total(amounts: Amounts, others: Amounts) -> Amounts:
    """Both together."""
    return tuple(map(add, amounts, others))


def difference(amounts: Amounts, others: Amounts) -> Amounts:
    """Return the difference of two amounts."""
    return tuple(map(sub, amounts, others))


def usage_of(amounts: Amounts) -> Usage:
    """Amounts as a usage."""
    values = dict(zip(_NAMES, amounts[:-1], strict=True))
    return Usage(**values, is_complete=amounts[-1] == 0)


NO_USAGE = Usage()
NO_AMOUNTS = amounts_of(NO_USAGE)
