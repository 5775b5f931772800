"""Values that stand for none: of an argument that was not given, and of a variable that a block will set."""

from enum import Enum
from typing import Any, Final


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET


class _UnsetVariable:
    """The type of `unset`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "nighthawk_async.unset"

    def __reduce__(self) -> str:
        return "unset"  # the one object of this module

    def __copy__(self) -> "_UnsetVariable":
        return self

    def __bool__(self) -> bool:
        raise UnboundLocalError("the variable is nighthawk_async.unset: no block has set it")


unset: Any = _UnsetVariable()
"""The value of a variable that a block will set, for type checkers and linters: `count: int = nh.unset`.

For a block, the variable has no value yet, as after `count: int`. A natural function that returns it raises
`UnboundLocalError`.
"""
