"""Levels of what the code of a model may do."""

from typing import Literal, TypeAlias

CodeLevelName: TypeAlias = Literal["none", "shown", "python"]
"""The levels that have names: nothing is evaluated; what the prompt shows; what a program may do."""


class CodeLevel:
    """The base of levels that are objects, such as a sandbox."""

    __slots__ = ()
