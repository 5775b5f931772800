"""The natural functions of the case, by theme."""

from collections.abc import Sequence

from ..block import Block
from . import calling, changing, deciding, extracting, writing

__all__ = ["BLOCKS"]

BLOCKS: Sequence[Block] = (
    *extracting.BLOCKS,
    *deciding.BLOCKS,
    *changing.BLOCKS,
    *writing.BLOCKS,
    *calling.BLOCKS,
)
