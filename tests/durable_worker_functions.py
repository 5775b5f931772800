"""Functions with effects that workers import, for runs with a journal."""

import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import anyio

import nighthawk_async as nh
from nighthawk_async.testing import model_response, tool_call
from tests.unit.journal.durable_runs import ResponseEvents

EFFECTS = "effects.txt"


def note(folder: str, line: str) -> None:
    """Append a line to the file of effects."""
    with (Path(folder) / EFFECTS).open("a") as file:
        file.write(line + "\n")


def effects_in(folder: Path) -> list[str]:
    """The effects so far, sorted."""
    path = folder / EFFECTS
    return sorted(path.read_text().splitlines()) if path.exists() else []


@dataclass(frozen=True)
class NotingModel:
    """A model that writes down its requests, and shouts.

    Args:
        folder: The folder of the file.
    """

    folder: str

    name: ClassVar[str] = "noting:model"
    capabilities: ClassVar[nh.models.ModelCapabilities] = nh.models.ModelCapabilities()

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        """Stream the response."""
        note(self.folder, "asked")
        response = model_response(
            tool_call("nh_assign", target_path="loud", expression="word.upper()"),
            tool_call("nh_outcome", kind="pass"),
        )
        yield ResponseEvents(response)


@nh.natural_function
async def shout(word: str) -> str:
    """Shout a word."""
    loud: str
    """natural
    Set <:loud> to <word> in capitals.
    """
    return loud


@nh.once
async def charge(folder: str, item: str, *, idempotency_key: str = "") -> str:
    """Take effect once."""
    note(folder, f"charged {item}")
    await anyio.lowlevel.checkpoint()
    return f"{item} {idempotency_key[:4]}"


@nh.repeatable
async def read(folder: str, item: str) -> str:
    """Read something from outside."""
    note(folder, f"read {item}")
    await anyio.lowlevel.checkpoint()
    return item


async def handle(job: tuple[str, str]) -> str:
    """Handle an item: effects and a natural function."""
    folder, item = job
    first = await charge(folder, item)
    loud = await shout(item)
    await read(folder, item)
    return f"{first} {loud} {await charge(folder, item + ' again')} {nh.journal.now().isoformat()}"


class Session:
    """An object of which nobody knows what it is."""

    def __init__(self, name: str) -> None:
        self._name = name


@nh.once
async def store_in(session: Session, folder: str, item: str) -> str:
    """Take effect through an object."""
    note(folder, f"stored {item}")
    await anyio.lowlevel.checkpoint()
    return item


async def store_item(job: tuple[str, str]) -> str:
    """Take effect through an object of its own."""
    folder, item = job
    return await store_in(Session(item), folder, item)


@nh.once
def stamp(folder: str, item: str) -> str:
    """Take effect once, for synchronous code."""
    note(folder, f"stamped {item}")
    return item


async def stamp_directly(job: tuple[str, str]) -> str:
    """Call a synchronous effect on the event loop."""
    return stamp(*job)


def stamp_in_thread(job: tuple[str, str]) -> str:
    """Call a synchronous effect in a thread."""
    return stamp(*job)


class RefusedError(Exception):
    """An effect that fails."""


@nh.once
async def refuse(folder: str, item: str) -> str:
    """Fail after it took effect."""
    note(folder, f"refused {item}")
    await anyio.lowlevel.checkpoint()
    raise RefusedError(item)


async def try_two(job: tuple[str, str]) -> str:
    """Go on after the error of an effect."""
    folder, item = job
    try:
        await refuse(folder, item)
    except RefusedError as error:
        return f"{error} {await charge(folder, item)}"
    return "not refused"


async def fail(job: tuple[str, str]) -> str:
    """Fail with the error of an effect."""
    return await refuse(*job)


async def charge_two(job: tuple[str, str]) -> list[str]:
    """Call effects in items of a combinator of its own, and in tasks."""
    folder, item = job
    async with nh.open_tasks() as tasks:
        task = tasks.start(charge, folder, f"{item} task")
        results = await nh.parallel.map(lambda part: charge(folder, f"{item} {part}"), ["left", "right"])
        return [*results, await task]


async def charge_then_wait(job: tuple[str, str]) -> str:
    """Take effect, and wait for ever."""
    result = await charge(*job)
    (Path(job[0]) / "waiting").touch()
    await anyio.sleep_forever()
    return result


async def charge_then_die_once(job: tuple[str, str]) -> str:
    """Take effect, and wait for ever the first time."""
    result = await charge(*job)
    mark = Path(job[0]) / "waiting"
    if not mark.exists():
        mark.touch()
        await anyio.sleep_forever()
    return f"{result} {await charge(*job)}"


@nh.once
async def charge_slowly(folder: str, item: str) -> str:
    """Take effect, and lose the worker before the result is known."""
    note(folder, f"charged {item}")
    (Path(folder) / "waiting").touch()
    await anyio.sleep_forever()
    return item


async def charge_in_doubt(job: tuple[str, str]) -> str:
    """Be in doubt after the loss of the worker."""
    return await charge_slowly(*job)


class Silent:
    """Leaves each question to the people who answer through the store."""

    async def ask(self, question: nh.human.Question) -> object:
        """Wait for ever."""
        await anyio.sleep_forever()

    async def approve(self, request: nh.human.ApprovalRequest) -> None:
        """Leave the request open."""


async def ask_through_store(job: tuple[str, str]) -> str:
    """Ask a question, and request an approval."""
    folder, item = job
    with nh.scope(human=Silent()):
        answer = await nh.ask_user(f"What about {item}?", schema=str)
        approval = await nh.request_approval(f"ship {item}", arguments={"item": item}, approvers=["ann"])
    note(folder, "asked")
    return f"{answer} {approval.action}"


async def receive_something(_: str) -> object:
    """Receive a message, which workers cannot."""
    return await nh.journal.receive("post")


@nh.journal.stage("extract")
async def extract(folder: str, item: str) -> str:
    """A stage."""
    note(folder, f"extracted {item}")
    return await charge(folder, item)


async def extract_one(job: tuple[str, str]) -> str:
    """Make a stage, and read the clock, random numbers and a sleep."""
    result = await extract(*job)
    await nh.journal.sleep(seconds=0.001)
    return f"{result} {nh.journal.random()} {nh.journal.patched('new')}"


async def charge_twice_or_wait(job: tuple[str, str]) -> str:
    """Take effect, and again unless there is a file `slow`."""
    folder, item = job
    await charge(folder, item)
    if (Path(folder) / "slow").exists():
        await anyio.sleep_forever()
    return await charge(folder, f"{item} late")


async def sleep_briefly(job: tuple[str, str]) -> str:
    """Wait a little, durably."""
    await nh.journal.sleep(seconds=0.3)
    return job[1]


@nh.repeatable
async def try_outside(folder: str, item: str) -> str:
    """Fail each time that it is made."""
    note(folder, f"tried {item}")
    await anyio.lowlevel.checkpoint()
    raise RefusedError(item)


async def be_lost_with_an_open_error(job: tuple[str, str]) -> str:
    """Go on after an error; the first time, be lost before."""
    folder, item = job
    try:
        await try_outside(folder, item)
    except RefusedError as error:
        if not (Path(folder) / "waiting").exists():
            (Path(folder) / "waiting").touch()
            await anyio.sleep_forever()
        return f"{error} {await charge(folder, item)}"
    return "not refused"


async def place_further(job: tuple[str, str]) -> list[str]:
    """Make calls on workers of its own."""
    from tests.in_memory_workers import InMemoryWorkers

    folder, item = job
    async with InMemoryWorkers(1) as workers:
        return await nh.parallel.map(handle, [(folder, f"{item}1"), (folder, f"{item}2")], on=workers)


async def ask_handler(item: str) -> str:
    """Ask the handler of the program."""
    return await nh.ask_user(f"What about {item}?")


def stamp_late(job: tuple[str, str]) -> str:
    """Take effect; the first time, go on when the worker is lost, and note how that ends."""
    folder, item = Path(job[0]), job[1]
    stamp(str(folder), item)
    if (folder / "waiting").exists():
        return stamp(str(folder), f"{item} later")
    (folder / "waiting").touch()
    while not (folder / "go").exists():
        time.sleep(0.001)
    try:
        return stamp(str(folder), f"{item} too late")
    except nh.journal.JournalError as error:
        (folder / "refused").write_text(type(error).__name__)
        raise


async def charge_twice(job: tuple[str, str]) -> str:
    """Take effect, wait for a file `go`, and take effect again."""
    folder, item = job
    await charge(folder, item)
    (Path(folder) / "waiting").touch()
    while not await anyio.Path(folder, "go").exists():  # noqa: ASYNC110
        await anyio.sleep(0.001)
    return await charge(folder, f"{item} again")


async def charge_then_end_process_once(job: tuple[str, str]) -> str:
    """Take effect twice, and end the process in between, the first time."""
    result = await charge(*job)
    await nh.journal.sleep(seconds=0.001)
    mark = Path(job[0]) / "waiting"
    if not mark.exists():
        mark.touch()
        os._exit(1)
    return f"{result} {await charge(job[0], f'{job[1]} again')}"
