"""Values that would differ in each life of a run: the time, random numbers, the end of a wait, new code."""

import random as random_module
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint

from ..errors import NighthawkError
from ..kernel.calls import new_arguments, take_place
from ..parallel import AmbiguousPlaceError
from ..parallel.task_current import find_positions, find_task
from .activity import DurableWait
from .open_lives import check_outside
from .recorder import RunRecorder, find_recorder
from .values import decode_value

Value = TypeVar("Value")


def now() -> datetime:
    """The present time, in UTC; in a run with a journal the same in every life of the run.

    Raises:
        AmbiguousPlaceError: See `random`.
    """
    return _recorded("now()", lambda: datetime.now(UTC))


def random() -> float:
    """A random number of at least 0 and less than 1; in a run with a journal the same in every life of it.

    Raises:
        AmbiguousPlaceError: Tasks that were started by hand call it, and nothing tells them apart, so that no
            later life could know which number is whose.
    """
    return _recorded("random()", random_module.random)


def decide(value: Value, *, kind: object = None) -> Value:
    """Keep a value that depends on what is not the same in each life of a run, such as an order of arrival.

        order = nh.journal.decide(order)

    In a run with a journal, the first life records the value. Later lives get the recorded one, whatever they
    pass. Without a journal it returns the value.

    Args:
        value: The value.
        kind: The type by which it is stored, such as `list[Order]`; None for plain data, and for the type of
            the value if that is a class of the program.

    Raises:
        AmbiguousPlaceError: Tasks that were started by hand call it, and nothing tells them apart.
        JournalValueError: The value cannot be stored.
    """
    recorder = find_recorder()
    if recorder is None:
        check_outside("nighthawk_async.journal.decide")
        return value
    if kind is None and type(value).__module__ != "builtins":
        kind = type(value)
    place = _take_place(recorder, "decide()")
    record = recorder.find_record(place, "value")
    if record is not None:
        return decode_value(record.body, place=place, declared=kind)
    recorder.add(place, "value", recorder.encode_value(value, place=place, declared=kind))
    return value


def patched(name: str) -> bool:
    """Guard code that is newer than the runs in progress.

        if nh.journal.patched("two-mails"):
            await send_second_mail(order)

    Args:
        name: The name of the change.

    Returns:
        True in runs without a journal, in runs that come here for the first time, and in later lives of
        those; False in a run that came past here before the code was changed.

    Raises:
        NighthawkError: The name is empty, or contains `/`, `[` or `]`.
    """
    if not name or any(character in name for character in "/[]"):
        raise NighthawkError(f"the name of a change is not empty and contains no '/', '[' or ']': {name!r}")
    recorder = find_recorder()
    if recorder is None:
        check_outside("nighthawk_async.journal.patched")
        return True
    place = _take_place(recorder, f"patched({name})")
    if recorder.find_record(place, "value") is not None:
        return True
    if recorder.is_replay or recorder.is_behind(place.rpartition("/")[0]):
        return False
    recorder.add(place, "value", recorder.encode_value(True, place=place))
    return True


async def sleep(*, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0) -> None:
    """Wait, by the clock of the wall. In a run with a journal, time passes also while no process works on it.

    Args:
        seconds: Seconds to wait.
        minutes: Minutes to add.
        hours: Hours to add.
        days: Days to add.

    Raises:
        NighthawkError: The sum is negative, or no number.
    """
    try:
        wait = timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days).total_seconds()
    except (TypeError, ValueError, OverflowError) as error:
        raise NighthawkError(f"a time to sleep must be a number: {error}") from error
    if wait < 0:
        raise NighthawkError(f"a time to sleep cannot be negative: {wait:g} seconds")
    recorder = find_recorder()
    if recorder is None:
        check_outside("nighthawk_async.journal.sleep")
        await anyio.sleep(wait)
        return
    place = recorder.relative(take_place("sleep()", new_arguments(wait)))
    record = recorder.find_record(place, "value")
    if record is None:
        await recorder.begin_new_wait(place)
        wakes_at = time.time() + wait
        await recorder.add(place, "value", recorder.encode_value(wakes_at, place=place)).wait()
    else:
        wakes_at = decode_value(record.body, place=place)
        if wakes_at > time.time():
            await recorder.begin_new_wait(place)
        await checkpoint()
    if recorder.is_replay:
        return
    left = max(0.0, wakes_at - time.time())
    wait = DurableWait(place=place, ends_at=wakes_at, is_due=None)
    await recorder.wait_durably(wait, lambda: anyio.sleep(left))


def _recorded(frame: str, make: Callable[[], Value]) -> Value:
    """A value that is made once in all lives of a run."""
    recorder = find_recorder()
    if recorder is None:
        check_outside(f"nighthawk_async.journal.{frame.removesuffix('()')}")
        return make()
    place = _take_place(recorder, frame)
    record = recorder.find_record(place, "value")
    if record is not None:
        return decode_value(record.body, place=place)
    value = make()
    recorder.add(place, "value", recorder.encode_value(value, place=place))
    return value


def _take_place(recorder: RunRecorder, frame: str) -> str:
    """The place of a value: of the caller's task, also where it was started by hand.

    Raises:
        AmbiguousPlaceError: Another task has taken such a place, and nothing tells the two apart.
    """
    positions = find_positions()
    if positions.is_owned:
        return recorder.relative(positions.take(frame))
    if recorder.identity_version == 1:
        return recorder.relative(positions.take(frame))  # as the version did that has begun the run
    claimant = recorder.orders.find_claimant()
    if claimant is None and not recorder.orders.is_alone(f"{positions.path}/{frame}", find_task()):
        raise AmbiguousPlaceError(
            f"{positions.path}: {frame} is called in two tasks that were started by hand, and nothing tells "
            "them apart in a later life of the run. Start them with nighthawk_async.parallel or "
            "nighthawk_async.open_tasks, or with arguments of plain data that differ."
        )
    return recorder.relative(positions.take(frame, (claimant,)))
