"""A program of the benchmark: two versions of it, inputs, and checks of a run."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..prompts.block import Answer

__all__ = ["RIGHT_END", "VERSIONS", "Check", "Ended", "Feature", "Input", "Program", "Version"]

Feature: TypeAlias = Literal["objects", "methods", "loop", "exceptions", "closure", "iterator", "class"]
"""The shared state that blocks use: objects changed in place, methods that guard their object, the loop
around a block, exceptions that it raises, a function, an iterator or a class that it makes."""

Version: TypeAlias = Literal["natural", "by-hand"]
"""The program with natural blocks, or the same with a chat call whose JSON answer Python applies."""

VERSIONS: tuple[Version, ...] = ("natural", "by-hand")

RIGHT_END = "ends as it should"
"""The check that every program has: it returns, or raises what it should raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a run, as checks see it. `ended["name"]` is an argument, as the run left it.

    Args:
        arguments: The objects that the program was given.
        before: Equal objects, as they were before the run.
        held: References into the arguments, taken before the run; see `Program`.
        expected: The expectation of the input.
        result: The returned value; None when the program raised.
        error: The expected exception, if it was raised.
        blocks: The number of blocks that ran, or of chat calls.
        version: The version that ran.
    """

    arguments: Mapping[str, Any]
    before: Mapping[str, Any]
    held: Any
    expected: Any
    result: Any
    error: Exception | None
    blocks: int
    version: Version

    def __getitem__(self, name: str) -> Any:
        """Return an argument, as the run left it."""
        return self.arguments[name]


Check: TypeAlias = Callable[[Ended], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """An input of a program, and scripts that show how a model may answer it.

    Args:
        name: Its name within the program.
        arguments: Makes the arguments of the program: fresh objects at each call.
        expected: The value that the checks of the program compare with.
        raises: The type of the exception that the program should raise; None when it should return.
        answers: Right answers to the blocks, one for each step in their order.
        replies: Right JSON answers to the chat calls, in their order.
        wrong_answers: Scripts for the blocks; each has a mistake that a check must find.
        wrong_replies: The same for the chat calls.
    """

    name: str
    arguments: Callable[[], dict[str, Any]]
    expected: Any = None
    raises: type[Exception] | None = None
    answers: tuple[Answer, ...]
    replies: tuple[Any, ...]
    wrong_answers: tuple[tuple[Answer, ...], ...] = ()
    wrong_replies: tuple[tuple[Any, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program in two versions, which take the same arguments and should do the same.

    Args:
        name: Its name.
        what: Its task, in a few words.
        features: The shared state that its blocks use.
        natural: The version with natural blocks.
        by_hand: The version with chat calls. Its first argument is a `Chat`.
        inputs: Its inputs.
        checks: Conditions on the end of every run, by name.
        held: References into the arguments that other parts of a program would hold, taken before the run.
    """

    name: str
    what: str
    features: tuple[Feature, ...]
    natural: Callable[..., Awaitable[Any]]
    by_hand: Callable[..., Awaitable[Any]]
    inputs: tuple[Input, ...]
    checks: Mapping[str, Check]
    held: Callable[[Mapping[str, Any]], Any] = lambda arguments: None

    def version(self, name: Version) -> Callable[..., Awaitable[Any]]:
        """Return the function of a version.

        Args:
            name: The version.
        """
        return self.natural if name == "natural" else self.by_hand

    def verdicts(self, given: Input, ended: Ended) -> dict[str, bool]:
        """Judge a run: the verdict of every check.

        Args:
            given: The input.
            ended: The end of the run.
        """
        is_right_end = ended.error is None if given.raises is None else type(ended.error) is given.raises
        return {RIGHT_END: is_right_end} | {name: _holds(check, ended) for name, check in self.checks.items()}


def _holds(check: Check, ended: Ended) -> bool:
    """Whether a check holds. What a model leaves behind may be of any shape, so that a check raises."""
    try:
        return check(ended)
    except Exception:
        return False
