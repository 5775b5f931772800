"""Parts of a run that other processes record: what is below the place of a call that was placed on a worker.

The process of the run keeps the lease. It hands a part out with the records of it, and hands the part out
anew with all that was recorded there if the other process is lost. That process either has the process of
the run append what it records, or is one of the writers of the run and appends itself; see `writers`.
"""

from typing import Literal

from msgspec import Struct

from .records import LifeTimes, Record
from .values import ValueRules


class RunPart(Struct, frozen=True, kw_only=True):
    """A part of a run, as it is handed to another process.

    Args:
        run_id: The run.
        epoch: The number of the life.
        life: The name of the life in this part; another one each time that the part is handed out.
        root: The place of the run, which is left out of the places that are recorded.
        place: The place of the part, relative to the run.
        durability: The time at which the run waits for its records.
        new_code: The handling of code that the records do not have.
        rules: The rules for values and records.
        records: The records of the part, in order.
        lives: The times of all lives of the run.
        divergence: The text and the place of the error with which anything new is refused; None for none.
        identity: The version of the digests in places.
    """

    run_id: str
    epoch: int
    life: str
    root: str
    place: str
    durability: Literal["response", "effect"]
    new_code: Literal["error", "insert"]
    rules: ValueRules
    records: list[Record]
    lives: dict[int, LifeTimes]
    divergence: tuple[str, str] | None
    identity: int = 1


class PartEnd(Struct, frozen=True, kw_only=True):
    """The errors with which a process leaves its part of a run.

    Args:
        open_errors: The places of errors that the program has not handled, by those of their records.
        failed_groups: The places of decisions that follow from errors.
        divergence: The text of the error that says that the program is not the recorded one; None for none.
    """

    open_errors: dict[str, str] = {}
    failed_groups: list[str] = []
    divergence: str | None = None


class HandedOut:
    """A part of a run that another process records.

    Attributes:
        times: The number of times that it was handed out in this life.
        records: What this process has appended there in this life.
        had_writer: Whether a process that could append to the store itself has had it.
    """

    __slots__ = ("had_writer", "records", "times")

    def __init__(self) -> None:
        self.times = 0
        self.records: list[Record] = []
        self.had_writer = False
