"""A program with secrets, and blocks that name some of what is around them."""

import builtins
import functools
import operator
import types
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import nighthawk_async as nh
from tests.specification.permitted_steps import Result
from tests.specification.scripted_steps import ScriptedSteps, executing, returning

SECRET = "open sesame"
"""A global that no block names."""

NAMED = {"context_limits": nh.StepContextLimits(visible_names="named")}


@dataclass
class Customer:
    """A customer of the bank."""

    name: str
    age: int = 40

    def greet(self) -> str:
        """Say hello."""
        return f"hello {self.name}"

    @property
    def initial(self) -> str:
        return self.name[0]

    @classmethod
    def of(cls, name: str) -> "Customer":
        return cls(name)

    @staticmethod
    def count() -> int:
        return 1


class Colour(Enum):
    RED = "red"


class RefusedError(Exception):
    """The bank does not want to."""


def look_up(name: Any, default: Any = None) -> Any:
    """Look a name up, in a closed book."""
    return name


def keyed() -> Any:
    """A function that closes over the secret."""
    key = SECRET

    def is_key(text: str) -> bool:
        return text == key

    return is_key


@functools.wraps(look_up)
def carefully(*args: Any) -> Any:
    return look_up(*args)


async def fetch(name: str) -> str:
    return name


def failed() -> Exception:
    try:
        raise RefusedError("no")
    except RefusedError as error:
        return error


def rows() -> Iterator[int]:
    yield 1
    yield 2


async def pages() -> AsyncIterator[int]:
    yield 1


IS_KEY, CUSTOMER, ERROR, ROWS, PAGES = keyed(), Customer("Ada"), failed(), rows(), pages()
PARTIAL, TEXT, OPERATOR, FUNCTOOLS = functools.partial(look_up, 1), "text", operator, functools
TYPES = types


@nh.natural_function
async def plain(numbers: list[int]) -> object:
    """A block that names functions and objects, and no builtins."""
    hidden = "local sesame"
    """natural
    Use <numbers>, <look_up>, <IS_KEY>, <carefully>, <fetch>, <Customer>, <CUSTOMER>, <Colour>, <ERROR>,
    <ROWS>, <PAGES>, <PARTIAL> and <TEXT>. The block may raise RefusedError.
    """
    return hidden


@nh.natural_function
async def equipped(numbers: list[int]) -> object:
    """A block that names builtins and modules, too."""
    hidden = "local sesame"
    """natural
    Use <numbers>, <look_up>, <IS_KEY>, <carefully>, <fetch>, <Customer>, <CUSTOMER>, <Colour>, <ERROR>,
    <ROWS>, <PAGES>, <PARTIAL>, <TEXT>, <OPERATOR>, <FUNCTOOLS> and <TYPES>, and of the builtins <eval>,
    <exec>, <compile>, <globals>, <locals>, <vars>, <dir>, <getattr>, <hasattr>, <setattr>, <type>, <object>,
    <str>, <super>, <property>, <classmethod>, <staticmethod>, <map>, <filter>, <sorted>, <list>, <dict>,
    <next>, <iter>, <max>, <print>, <repr>, <format>, <isinstance>, <BaseException>, <NameError>,
    <AttributeError>, <callable> and <__build_class__>.
    """
    return hidden


async def attempt(block: Any, code: str, *, named: bool = True) -> Result:
    """Carry statements out, and see what they bind to `found`."""
    settings: dict[str, Any] = NAMED if named else {}
    steps = ScriptedSteps(executing(code), returning("found"), returning("None"), **settings)
    globals().update(ROWS=rows(), PAGES=pages())
    builtins_before, globals_before = dict(vars(builtins)), dict(globals())
    async with nh.run(steps.executor):
        value = await block([1, 2])
    assert dict(vars(builtins)) == builtins_before
    assert dict(globals()) == globals_before
    return Result(envelopes=steps.envelopes, value=value)
