"""Functions that workers import."""

import os
import signal
import threading
import time
from pathlib import Path

import anyio
from pydantic import BaseModel, Field, PrivateAttr, SecretStr

import nighthawk_async as nh


class TooBigError(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(f"{number} is too big")
        self.number = number


class Key(BaseModel):
    """A model with what serializers change."""

    token: SecretStr = Field(alias="theToken")
    lines: list[list[int]] = []
    hidden: str = Field(default="", exclude=True)
    _note: str = PrivateAttr(default="")


async def keep(key: Key) -> Key:
    assert key.token.get_secret_value() == "sk-1"
    return key


async def make_event(number: int) -> threading.Event:
    raise AssertionError("the result cannot cross, so the call does not begin")


async def double(number: int) -> int:
    await anyio.lowlevel.checkpoint()
    return number * 2


def double_in_thread(number: int) -> int:
    return number * 2


async def small_only(number: int) -> int:
    if number > 9:
        raise TooBigError(number)
    return number


async def wait_for_ever(marks: str) -> None:
    """Leave a mark at the beginning, and another one in the cleanup."""
    folder = Path(marks)
    (folder / "begun").touch()
    try:
        await anyio.sleep_forever()
    finally:
        (folder / "cleaned").touch()


async def worker_of(_: int) -> str | None:
    return nh.distributed.worker_name()


async def die_once(marks: str) -> int:
    """End the worker the first time."""
    mark = Path(marks) / "died"
    if not mark.exists():
        mark.touch()
        os._exit(7)
    return os.getpid()


async def die(_: int) -> None:
    os._exit(7)


async def die_beside(item: tuple[str, int]) -> int:
    """End the worker for one number, and let the others take longer."""
    folder, number = item
    with (Path(folder) / "begun.txt").open("a") as file:
        file.write(f"{number}\n")
    await anyio.sleep(0.02 if number == 3 else 0.1)
    if number == 3:
        os._exit(7)
    return number


async def take_too_much(number: int) -> int:
    """Ask for more memory than there is, for one number."""
    await anyio.lowlevel.checkpoint()
    return len(bytearray(2**62)) if number == 3 else number


async def stop_beside(item: tuple[str, int]) -> int:
    """Stop the process for one number, the first time."""
    folder, number = item
    mark = Path(folder) / "stopped"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGSTOP)
    await anyio.lowlevel.checkpoint()
    return number


async def pass_file(item: tuple[str, str]) -> str:
    """Wait for a file."""
    folder, name = item
    with (Path(folder) / "begun.txt").open("a") as file:
        file.write(f"{name}\n")
    while not (Path(folder) / "open").exists():
        await anyio.lowlevel.checkpoint()
    return name


def append_one(numbers: list[int]) -> None:
    numbers.append(1)


async def tenant_and_deadline(_: int) -> tuple[str | None, float]:
    return nh.parallel.task_values().get("tenant"), anyio.current_effective_deadline() - anyio.current_time()


def block_for_ever(marks: str) -> None:
    """Leave a mark, and never end."""
    (Path(marks) / "begun").touch()
    while True:
        time.sleep(1)


async def process_of(_: int) -> int:
    return os.getpid()


async def length_of(text: str) -> int:
    return len(text)


async def text_of(length: int) -> str:
    return "x" * length


async def variable_of(name: str) -> str | None:
    return os.environ.get(name)


@nh.natural_function
async def sentiment_of(text: str) -> str:
    """natural
    Set <:result> to `positive` or `negative`, the sentiment of <text>.
    """
    return result
