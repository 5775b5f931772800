"""Functions that say what the objects of a class are, registered by the program."""

from collections.abc import Callable
from typing import Any, TypeAlias

IdentityFunction: TypeAlias = Callable[[Any], object]

_functions: dict[type, IdentityFunction] = {}


def keep_identity(kind: type, function: IdentityFunction) -> None:
    """Keep the function of a class and of its subclasses."""
    _functions[kind] = function


def find_identity(kind: type) -> IdentityFunction | None:
    """Return the function of a class, or of its nearest base that has one; None for none."""
    if not _functions:
        return None
    return next((_functions[base] for base in kind.__mro__ if base in _functions), None)
