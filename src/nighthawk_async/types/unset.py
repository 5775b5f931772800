"""The value of an argument that was not given, where None means something else."""

from enum import Enum
from typing import Final


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
