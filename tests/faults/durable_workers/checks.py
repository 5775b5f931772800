"""What must be true of a run whose workers were killed."""

import collections
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import nighthawk_async as nh
from nighthawk_async.testing.killing import KillPoint, Life, ProgramKiller
from tests.faults.durable.lives import LIFE_SECONDS, ROOT, read_records
from tests.faults.durable.service import ASKED, BOOKINGS, lines_of

from .work import CHARGES, KILLS, PARTS

INPUT_TOKENS = 10
"""Those of each response."""


@contextmanager
def warm_workers_killer() -> Iterator[ProgramKiller]:
    """A killer of the program that has loaded it."""
    program = "tests.faults.durable_workers.program:main"
    with ProgramKiller(program, {}, path=[ROOT, ROOT / "src"], timeout=LIFE_SECONDS) as killer:
        yield killer


def kills_in(folder: Path) -> list[str]:
    """The kills of workers."""
    return lines_of(folder, KILLS)


def run_with_kills(
    killer: ProgramKiller,
    folder: Path,
    backend: str,
    program_kills: Sequence[KillPoint],
    *,
    address: str | None = None,
    items: int,
    kills: int,
    durability: str = "response",
    writes: bool = False,
    enters_again: bool = True,
) -> tuple[dict[str, list[Any]], int]:
    """Kill the program at some points and its workers at random, and let it end.

    Args:
        killer: Runs the lives.
        folder: The folder of the program's files; its name is the id of the run.
        backend: The event loop.
        program_kills: The moments at which the program is killed, one in each life.
        address: The address of the store; None for a file in the folder.
        items: The number of items.
        kills: The greatest number of kills of workers.
        durability: When the run waits for its records.
        writes: Whether workers append to the store themselves.
        enters_again: Whether the run is entered once more after its end.

    Returns:
        What is not as it should be, by kind; and the number of lives.
    """
    arguments: dict[str, Any] = {
        "folder": str(folder),
        "address": address or f"sqlite:///{folder}/runs.db",
        "run_id": folder.name,
        "backend": backend,
        "items": items,
        "kills": kills,
        "durability": durability,
        "writes": writes,
    }
    numbers = count(1)
    life = Life(was_killed=True)
    for kill_at in (*program_kills, None):
        life = killer.live(kill_at=kill_at, life=next(numbers), **arguments)
        if not life.was_killed:
            break
    if life.error:
        return {"wrong": [life.error]}, next(numbers) - 1
    found = findings(folder, arguments["address"], items, life.result, len(program_kills))
    if enters_again and not found:
        again = killer.live(life=next(numbers), **{**arguments, "kills": 0})
        found = findings(folder, arguments["address"], items, again.result or [], len(program_kills))
        if again.result != life.result:
            found["wrong"] = [again.error, again.result, life.result]
    if not _is_in_order(arguments["address"], folder.name):
        found["wrong"] = [*found.get("wrong", []), "the records are not in order"]
    return found, next(numbers) - 1


def _is_in_order(address: str, run_id: str) -> bool:
    """Whether the records of a run are numbered without gaps, and in one chain."""
    with nh.journal.open(address) as store:
        store.verify(run_id)
        numbers = [record.seq for record in store.records(run_id)]
    return numbers == list(range(1, len(numbers) + 1))


def findings(
    folder: Path, address: str, items: int, result: list[str], program_kills: int
) -> dict[str, list[Any]]:
    """What is not as it should be after a run that ended; by kind, empty ones left out.

    Args:
        folder: The folder of the program's files.
        address: The address of the store.
        items: The number of items.
        result: The result of the run.
        program_kills: The number of kills of the program.
    """
    booked = collections.Counter(line.split(" ", 1)[1] for line in lines_of(folder, BOOKINGS))
    keys = collections.Counter(line.split()[0] for line in lines_of(folder, BOOKINGS))
    expected = [f"item {number} {part}" for number in range(items) for part in PARTS]
    asked = collections.Counter(line.split(" ", 1)[1] for line in lines_of(folder, ASKED))
    again = sum(asked.values()) - len(asked)
    in_flight = 4 * 2  # calls on one worker, and their parts, that a kill may interrupt
    found = {
        "lost": [item for item in expected if not booked[item]],
        "doubled": [item for item, count in booked.items() if count > 1]
        + [key for key, count in keys.items() if count > 1],
        "unexpected": sorted(booked.keys() - set(expected)),
        "asked again": [again] if again > in_flight * (len(kills_in(folder)) + 2 * program_kills) else [],
        "wrong": [each for number, each in enumerate(result) if not _is_right(number, each)],
        "charged wrongly": _wrong_charges(folder, address),
    }
    if len(result) != items:
        found["wrong"] = [f"{len(result)} results"]
    return {kind: each for kind, each in found.items() if each}


def _wrong_charges(folder: Path, address: str) -> list[Any]:
    """The charges of the last life, unless they are those of what it found recorded and of what it has sent.

    A request that was allowed, and not charged when its worker was lost, is unknown: it may have been sent.
    """
    charges = json.loads(lines_of(folder, CHARGES)[-1])
    records = read_records(address, folder.name)
    found = sum(record.kind == "response" and record.epoch < charges["epoch"] for record in records)
    sent = sum(line.startswith(f"{charges['life']} ") for line in lines_of(folder, ASKED))
    known = charges["input_tokens"] // INPUT_TOKENS
    is_right = known <= found + sent <= charges["turns"] == charges["requests"] and not charges["reserved"]
    return [] if is_right else [{**charges, "found": found, "sent": sent}]


def _is_right(number: int, result: str) -> bool:
    item = f"item {number}"
    first, direct, natural, left, right, read, thread = result.split(" | ")
    return (
        [first, direct, left, right]
        == [f"booked {item} {part}" for part in ("first", "direct", "left", "right")]
        and natural == f"booked {item} natural ['{item} natural']"
        and read.startswith(f"{item} ")
        and thread == f"booked {item} thread ['{item} thread']"
    )
