"""The program whose lives are killed: see `shapes`. Its arguments also arrange accidents of its store.

Loading it does everything once, so that the lives, which are forked from there, load no modules.
"""

import tempfile
import warnings
from pathlib import Path
from typing import Any

import anyio

import nighthawk_async as nh
from nighthawk_async.journal import tables

from ..generated.interpreter import run_program
from ..generated.programs import loaded
from ..generated.rules import record_as_version_1
from . import switches
from .service import AskedModel, People, enter_life
from .shapes import work

MESSAGES = (1, 2, 3)


async def _run(store: nh.journal.JournalStore, run_id: str, shapes: list[str]) -> dict[str, Any]:
    for number in MESSAGES:
        await store.send(run_id, "post", number, id=str(number))
    executor = nh.AgentStepExecutor.from_model(AskedModel())
    async with nh.run(executor, journal=store, run_id=run_id, human=People()):
        return await work(shapes)


def main(
    *,
    folder: str,
    address: str,
    run_id: str,
    backend: str,
    life: int,
    shapes: list[str],
    durability: str = "response",
    without: str = "",
    generated: str | None = None,
    lease_seconds: float | None = None,
    strict: bool = False,
    warns: bool = False,
    accidents: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Run one life.

    Args:
        folder: The folder of the program's files.
        address: The address of the store.
        run_id: The run.
        backend: The event loop.
        life: The number of the life.
        shapes: What it does; see `shapes.SHAPES`.
        durability: When the run waits for its records.
        without: The part of the journal that is switched off; see `switches`.
        generated: A generated program, which is run in place of the shapes, as JSON.
        strict: Whether an object that nobody knows is an error.
        warns: Whether a warning of one is an error.
        lease_seconds: Seconds after which a process that hangs has lost its run.
        accidents: What happens to the process and to its store, with arguments; see `switches`.
    """
    path = Path(folder)
    enter_life(path, life)
    switches.switch_off(without)
    log = Path(f"{address.removeprefix('sqlite:///')}-wal")
    if lease_seconds is not None:
        tables.LEASE_SECONDS = lease_seconds
    for name, argument in (accidents or {}).items():
        if name == "note_log_size":
            switches.note_log_size(path, log)
        elif name == "stop_at":
            switches.stop_at(path, argument)
        elif name == "pause_at":
            switches.pause_at(path, argument)
        elif name == "slow":
            switches.slow_down()
        elif name == "hold_results":
            switches.hold_results()
        elif name == "as_version_1":
            record_as_version_1()
        elif name == "full_at":
            switches.fill_disk_at(log, *argument)
        elif name == "most_pages":
            switches.limit_pages(argument)
    if warns:
        warnings.simplefilter("error", nh.journal.JournalIdentityWarning)
    with nh.journal.open(address, durability=durability, strict=strict) as store:  # type: ignore[arg-type]
        if generated is not None:
            return anyio.run(run_program, loaded(generated), life, store, run_id, backend=backend)
        return anyio.run(_run, store, run_id, shapes, backend=backend)


def _warm_up() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for backend in ("asyncio", "trio"):
            main(
                folder=folder,
                address=f"sqlite:///{folder}/{backend}.db",
                run_id="warm",
                backend=backend,
                life=1,
                shapes=["map", "tools", "people"],
            )


_warm_up()
switches.mark_reads()
