"""Programs whose runs were recorded by earlier versions: their stores are in `earlier_runs_version_1/`.

The stores of version 1 of the digests were written by `write_stores`, in processes that
end in the middle of each program, killed. The programs are never changed.
"""

import os
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.testing import ModelResponse, model_response, tool_call

from .durable_runs import AnsweringModel, live

STORES = Path(__file__).parent / "earlier_runs_version_1"


@dataclass
class Parcel:
    """A parcel."""

    to: str
    grams: int


class Letter(BaseModel):
    """A letter."""

    to: str
    pages: tuple[str, ...] = ()


class Branch:
    """A post office, an object of an ordinary class."""

    def __init__(self, city: str) -> None:
        self.city = city

    @nh.once
    async def stamp(self, number: int) -> str:
        """An effect that is a method."""
        effects.append(f"stamp {self.city} {number}")
        return f"{self.city}-{number}"

    @nh.natural_function
    async def describe(self, number: int) -> str:
        """Describe a number."""
        text: str = nh.unset
        """natural
        Set <:text> to a word for <number>.
        """
        return text


effects: list[str] = []
"""The effects of this process; tests clear it."""


def _go_on() -> None:
    """Nothing: only the process that writes the stores ends in the middle."""


class Middle:
    """The middle of the programs."""

    pass_by: Callable[[], None] = staticmethod(_go_on)


@nh.once
async def deliver(parcel: Parcel, letter: Letter) -> str:
    """An effect with a dataclass and a model."""
    effects.append(f"deliver {parcel.to} {letter.to}")
    return f"delivered {parcel.to}"


@nh.repeatable
async def weigh(parcel: Parcel) -> int:
    """An effect that may be repeated."""
    effects.append(f"weigh {parcel.to}")
    return parcel.grams


@nh.natural_function
async def label(parcel: Parcel, letter: Letter) -> str:
    """Write a label."""
    text: str = nh.unset
    """natural
    Set <:text> to a label for <parcel> and <letter>.
    """
    return text


@nh.natural_function
async def greet(letter: Letter, tone: str) -> str:
    """Write a greeting, with a dotted path and a value in the text."""
    text: str = nh.unset
    f"""natural
    Set <:text> to a {tone} greeting of <letter.to>.
    """
    return text


@nh.journal.stage("sorting")
async def sort(parcels: list[Parcel]) -> list[str]:
    """A stage."""
    return [await label(each, Letter(to=each.to)) for each in parcels]


async def in_order() -> list[str]:
    """A program whose places are those of the order."""
    found = [await label(Parcel("ann", 5), Letter(to="ann", pages=("a", "b")))]
    found.append(await greet(Letter(to="ann"), "warm"))
    found.append(await deliver(Parcel("ann", 5), Letter(to="ann")))
    found.append(await Branch("Rome").stamp(1))
    found += await sort([Parcel("bob", 1), Parcel("carl", 2)])
    found += await nh.parallel.map(lambda name: greet(Letter(to=name), "cold"), ["dan", "eve"])
    reply = await nh.step(
        "Set <:text> to a word about <letter>.", letter=Letter(to="fay"), outputs={"text": str}
    )
    found.append(reply.text)
    Middle.pass_by()
    found.append(await label(Parcel("gus", 5), Letter(to="gus")))
    found.append(await deliver(Parcel("gus", 5), Letter(to="gus")))
    return found


async def by_hand() -> list[str]:
    """A program whose places are those of arguments: its tasks were started by hand."""
    found: dict[str, list[str]] = {}

    async def serve(name: str) -> None:
        parcel, letter = Parcel(name, 5), Letter(to=name)
        found[name] = [
            await label(parcel, letter),
            await greet(letter, "warm"),
            await deliver(parcel, letter),
        ]
        found[name].append(str(await weigh(parcel)))
        found[name] += await nh.parallel.map(Branch("Rome").describe, [len(name), len(name) + 1])
        found[name] += await sort([parcel])
        found[name].append(str(0 < nh.journal.random() < 1))

    async with anyio.create_task_group() as tasks:
        for name in ("ann", "bobby", "caroline"):
            tasks.start_soon(serve, name)
    Middle.pass_by()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, "d")
    return [text for name in sorted(found) for text in found[name]]


PROGRAMS: dict[str, Callable[[], Awaitable[list[str]]]] = {"in-order": in_order, "by-hand": by_hand}


def answer(prompt: str, turn: int) -> ModelResponse:
    """Answer each block with one text."""
    return model_response(tool_call("nh_outcome", kind="pass", bindings={"text": "ok"}))


def write_stores(folder: Path) -> None:
    """Write the stores, in processes that end in the middle of the programs."""
    for name, program in PROGRAMS.items():
        file = folder / f"{name}.db"
        if os.fork() == 0:
            Middle.pass_by = staticmethod(lambda: os._exit(0))
            with nh.journal.open(f"sqlite:///{file}") as store:
                anyio.run(live, store, AnsweringModel(answer), program)
            os._exit(1)
        os.wait()
        connection = sqlite3.connect(file)
        connection.execute("UPDATE runs SET leased_until = 0")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        lines = [*connection.iterdump(), f"PRAGMA user_version = {version};"]
        (folder / f"{name}.sql").write_text("\n".join(lines) + "\n")
        connection.close()
        file.unlink()
