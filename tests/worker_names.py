"""Functions that workers import, which use names of the program."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio

import nighthawk_async as nh
from nighthawk_async import actors


async def count_up(file: str) -> None:
    """Read, wait and write: without the mutex, updates of other processes would be lost."""
    async with actors.mutex("counter"):
        number = int(await anyio.Path(file).read_text())
        await anyio.sleep(0.002)
        _write_count(Path(file), number + 1)


def _write_count(path: Path, number: int) -> None:
    """Write both at once: a worker that is lost before it has told its result has counted all the same."""
    path.write_text(str(number))
    with path.with_suffix(".log").open("a") as log:
        log.write("counted\n")


async def reenter(_: int) -> None:
    async with actors.mutex("once"), actors.mutex("once"):
        pass


async def acquire_once(_: int) -> None:
    async with actors.mutex("held by the caller"):
        pass


async def try_mutex(key: str) -> bool:
    permit = await actors.acquire_mutex(key, timeout=0)
    return permit is not None and permit.release()


async def hold_and_die(key: str) -> int:
    """Hold a mutex when the worker ends the first time."""
    async with actors.mutex(key):
        mark = anyio.Path(key)
        if not await mark.exists():
            await mark.touch()
            os._exit(7)
        return os.getpid()


async def wait_for_mutex(key: str) -> None:
    async with actors.mutex(key):
        pass


async def use_cell(_: int) -> None:
    actors.shared_cell("total", initial=0)


async def use_own_cell(_: int) -> int:
    with actors.open_namespace("task_group"):
        cell = actors.shared_cell("total", initial=1, scope="task_group")
        return cell.get()


async def find_its_pool(_: int) -> None:
    actors.find_pool("jobs")


async def use_mailbox(_: int) -> None:
    actors.open_mailbox("inbox")


async def use_run_lock(_: int) -> bool:
    permit = await actors.acquire_mutex("in the run", timeout=0, scope="run")
    return permit is not None and permit.release()


@nh.natural_function
async def note_beginning(folder: str) -> int:
    """natural
    Note <folder> as <:most>.
    """
    return most


async def send_word(word: str) -> None:
    await actors.send("inbox", {"word": word})


async def use_resource(owner: str) -> str:
    """Use a resource of the call, or try to use one of the run."""
    if owner == "run":
        return await nh.resource("name", open_name, owner="run")
    return await nh.resource("name", open_name)


@contextmanager
def open_name() -> Generator[str, None, None]:
    yield "opened"
