"""A shop whose goods can be ordered in many ways, and what was done in it."""

import dataclasses
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.policies.people.request import HumanHandler
from tests.specification.permitted_steps import Result
from tests.specification.scripted_steps import ScriptedSteps, executing, returning

T = TypeVar("T")

DONE: list[str] = []
"""What was done, in order; tests clear it."""


def transfer(amount: Any, to: Any = "bob") -> str:
    """Use the arguments as programs do: in texts and in arithmetic."""
    DONE.append(f"{amount} to {to}")
    return "done"


def fire(*args: Any, **kwargs: Any) -> str:
    """Something with an effect, whatever it is called with."""
    DONE.append("fired")
    return "fired"


@functools.wraps(fire)
def fire_carefully(*args: Any, **kwargs: Any) -> str:
    return fire(*args, **kwargs)


class Order(Generic[T]):
    def __init__(self, item: Any = None) -> None:
        DONE.append("ordered")
        self.item = item

    @classmethod
    def from_text(cls, text: str) -> "Order[T]":
        return cls(text)

    def again(self) -> None: ...


class Text(dict[str, Any]):
    """A dictionary, made by an `__init__` with an effect."""

    def __init__(self, *args: Any) -> None:
        DONE.append("ordered")
        super().__init__(*args)


class Raw(bytes):
    def __new__(cls, *args: Any) -> "Raw":
        DONE.append("ordered")
        return super().__new__(cls, *args)

    @classmethod
    def quietly(cls, data: bytes) -> "Raw":
        return bytes.__new__(cls, data)


class Box(BaseModel, Generic[T]):
    """A pydantic model, made by validation."""

    item: Any = None

    def model_post_init(self, context: Any) -> None:
        DONE.append("ordered")


@dataclasses.dataclass
class Parcel:
    item: Any = None

    def __post_init__(self) -> None:
        DONE.append("ordered")


class OrderError(Exception):
    def __init__(self, item: Any = None) -> None:
        DONE.append("ordered")
        super().__init__(item)


class Plugin:
    plugins: ClassVar[list[type]] = []

    def __init_subclass__(cls, *, to: Any = None) -> None:
        DONE.append("ordered")


class Mailer:
    def send(self, to: Any = "bob") -> str:
        DONE.append(f"sent to {to}")
        return "sent"

    @staticmethod
    def send_static(to: Any = "bob") -> str:
        DONE.append(f"sent to {to}")
        return "sent"


class Sub(Mailer):
    """Inherits how it sends."""


class Log:
    def write(self, text: str) -> None:
        DONE.append(f"wrote {text}")

    def flush(self) -> None:
        DONE.append("flushed")


class Zone(tzinfo):
    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=1)

    def dst(self, when: datetime | None) -> timedelta:
        return timedelta(0)


class Money(Decimal):
    """Shows itself in its own way."""

    def __str__(self) -> str:
        return f"EUR {Decimal.__str__(self)}"

    def __format__(self, spec: str, context: Any = None) -> str:
        return str(self)


class Email(str):
    """A text, and nothing else."""


KEPT: list[str] = []
"""A list that others change."""

MAILER, OTHER, SUB, LOG = Mailer(), Mailer(), Sub(), Log()


@contextmanager
def quietly() -> Iterator[None]:
    """Whatever is done inside counts for nothing."""
    before = DONE[:]
    yield
    DONE[:] = before


with quietly():
    ORDER, TEXT, RAW, BOX, PARCEL = Order[int](), Text(), Raw.quietly(b"x"), Box[int](), Parcel()


@nh.natural_function
async def work() -> object:
    """natural
    Use <transfer>, <fire>, <fire_carefully>, <Order>, <Text>, <Raw>, <Box>, <Parcel>, <OrderError>, <Plugin>,
    <Mailer>, <Sub>, <MAILER>, <OTHER>, <SUB>, <LOG>, <Zone>, <Money>, <Email>, <ORDER>, <TEXT>, <RAW>,
    <BOX>, <PARCEL> and <KEPT>.
    """


@nh.natural_function
async def shut() -> object:
    """natural
    Use <transfer>, <KEPT>, <LOG>, <type>, <getattr>, <setattr>, <vars>, <globals>, <eval>, <exec>, <map>,
    <list>, <dict>, <next>, <iter>, <print>, <len>, <property>, <staticmethod>, <object> and
    <__build_class__>.
    """


async def tried(
    code: str, permissions: nh.policies.Permissions | None, human: HumanHandler | None = None
) -> Result:
    """A step that carries out statements, and then ends."""
    steps = ScriptedSteps(executing(code), returning("None"))
    async with nh.run(steps.executor, permissions=permissions, human=human):
        value = await work()
    return Result(envelopes=steps.envelopes, value=value)
