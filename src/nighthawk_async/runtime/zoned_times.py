"""Dates and times as a model is shown them: with the name of their zone in brackets, as in RFC 9557.

Pydantic reads only the offset, which does not say when it changes.
"""

import datetime as dt
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError

_DATETIMES = TypeAdapter(dt.datetime)


def read_datetime(value: object, handler: Callable[[Any], Any]) -> object:
    """Validate a date and time, which may name its zone: `2026-03-29T03:30:00+02:00[Europe/Berlin]`."""
    if type(value) is not str or not value.endswith("]"):
        return handler(value)
    text, zone = _split(value)
    given = _DATETIMES.validate_python(text)
    placed = given.replace(tzinfo=zone) if given.tzinfo is None else given.astimezone(zone)
    if given.tzinfo is not None and given.utcoffset() != placed.utcoffset() and text[-1] not in "Zz":
        at, not_at = (each.isoformat()[-6:] for each in (placed, given))
        raise _refused(f"{zone.key} is at {at} then, not at {not_at}")
    moment = handler(placed.isoformat())
    return moment.astimezone(zone) if isinstance(moment, dt.datetime) else moment


def read_time(value: object, handler: Callable[[Any], Any]) -> object:
    """Validate a time, which may name its zone: `03:30:00[Europe/Berlin]`."""
    if type(value) is not str or not value.endswith("]"):
        return handler(value)
    text, zone = _split(value)
    time = handler(text)
    if not isinstance(time, dt.time):
        return time
    if time.tzinfo is not None:
        raise _refused(f"a time has an offset or the zone {zone.key}, not both")
    return time.replace(tzinfo=zone)


def _split(value: str) -> tuple[str, ZoneInfo]:
    text, _, name = value[:-1].partition("[")
    try:
        return text, ZoneInfo(name)
    except Exception as error:  # the name is any text
        raise _refused(f"{name!r} is no known time zone") from error


def _refused(reason: str) -> PydanticCustomError:
    return PydanticCustomError("time_zone", "{reason}", {"reason": reason})
