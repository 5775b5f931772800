"""Forks: new runs that begin with what another one did before a place."""

import time
from collections.abc import Mapping, Sequence
from itertools import count

import msgspec

from ..errors import NighthawkError
from . import message_table, tables
from .changed_values import changed_records
from .database import Database
from .diverged_lives import records_that_count
from .effect_call import idempotency_key
from .errors import CallInDoubtError
from .frames import effect_of_intent, is_within
from .records import Record, RecordIndex
from .tables import RunRow


def fork_run(
    database: Database, run_id: str, *, at: str, to: str | None, values: Mapping[str, object]
) -> str:
    """Copy the beginning of a run to a new one, in one transaction; see `JournalStore.fork`."""
    with database.transaction():
        source = tables.find_run(database, run_id)
        if source is None:
            raise NighthawkError(f"there is no run {run_id!r}")
        new_id = _free_id(database, run_id) if to is None else to
        records = records_that_count(tables.read_records(database, run_id))
        copied = copied_records(run_id, records, at, values)
        now = time.time()
        row = RunRow(
            run_id=new_id, status="parked", lives=source.lives, created_at=now, updated_at=now, error=""
        )
        if not new_id or not tables.insert_copy(database, row, copied):
            raise NighthawkError(f"there is a run {new_id!r} already; give the fork another id")
        message_table.copy_messages(database, run_id, new_id)
    return new_id


def _free_id(database: Database, run_id: str) -> str:
    ids = (f"{run_id}-fork-{number}" for number in count(1))
    return next(each for each in ids if tables.find_run(database, each) is None)


def copied_records(
    run_id: str, records: Sequence[Record], at: str, values: Mapping[str, object]
) -> list[Record]:
    """The records of a fork, numbered anew.

    Args:
        run_id: The run.
        records: Its records, in order.
        at: The place to fork at.
        values: The values to replace there.

    Raises:
        NighthawkError: Nothing was recorded in the place, or a value cannot be replaced.
        CallInDoubtError: A call that would be copied is in doubt.
    """
    first = next((record for record in records if is_within(record.place, at)), None)
    if first is None or first.kind == "life":
        raise NighthawkError(
            f"run {run_id!r} has recorded nothing in {at}: fork at a place that it has reached"
        )
    index = RecordIndex(records)
    before = [record for record in records if record.seq < first.seq and _is_kept(record, index)]
    withdrawn = {record.place.rpartition("/")[0] for record in records if _withdraws(record)}
    intents = {record.place for record in before if record.kind == "intent"}
    begun = {effect_of_intent(place) for place in intents - withdrawn}
    around = [place for place in begun if is_within(at, place)]
    if around:
        raise NighthawkError(
            f"{at} is part of the call {around[0]}, whose result counts as a whole: fork there, or before"
        )
    known = {record.place for record in records if record.kind == "result"}
    for place in sorted(begun - known):
        raise CallInDoubtError(
            f"{place} had begun, and nobody knows whether it took effect. Continue run {run_id!r} first, "
            "which finds out, or fork before that call.",
            place=place,
            idempotency_key=idempotency_key(run_id, place),
        )
    late = [
        record
        for record in records
        if record.kind == "result" and record.place in begun and record.seq > first.seq
    ]
    late += [
        record
        for record in records
        if _withdraws(record) and record.place.rpartition("/")[0] in intents and record.seq > first.seq
    ]
    errors = {record.place for record in before if _is_error(record)}
    late += [
        record
        for record in records
        if record.kind == "handled" and record.place in errors and record.seq > first.seq
    ]
    own = changed_records([record for record in records if is_within(record.place, at)], at, values)
    return [msgspec.structs.replace(record, seq=seq) for seq, record in enumerate([*before, *late, *own], 1)]


def _withdraws(record: Record) -> bool:
    """Whether a record says that a call was not made after all."""
    return record.place.rpartition("/")[2].startswith("withdrawn[")


def _is_kept(record: Record, index: RecordIndex) -> bool:
    """Whether a record is copied: all but the errors that ended a life, which say nothing to later ones."""
    return not _is_error(record) or index.is_handled(record)


def _is_error(record: Record) -> bool:
    return record.place.rpartition("/")[2].startswith("failed[")
