"""Windows of time in which budgets hold. Pure.

A calendar window is an hour, a day or a month of a time zone; a rolling one is the time before each moment.
Consumption is kept by minutes, at whose beginnings all windows of a calendar begin.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from ...errors import NighthawkError

Period: TypeAlias = Literal["hour", "day", "month"]
"""A window of a calendar."""

MINUTE = 60
_MOST = timedelta(days=366)
_HALF_HOUR = 1_800


class Span(NamedTuple):
    """The minutes of a window, in minutes since 1970.

    Args:
        first: The first one.
        end: The one after the last.
    """

    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window of time.

    Args:
        period: The period of the calendar; empty for a rolling window.
        seconds: The length of a rolling window, in seconds; 0 for a calendar's.
        timezone: The time zone of the calendar, by its IANA name.
    """

    period: Period | Literal[""] = ""
    seconds: float = 0.0
    timezone: str = "UTC"

    def __str__(self) -> str:
        if not self.period:
            return _length(self.seconds)
        return self.period if self.timezone == "UTC" else f"{self.period} in {self.timezone}"

    def span(self, now: float) -> Span:
        """Return the minutes of the window at a time.

        A rolling window reaches as far ahead, for a clock that has gone backwards.

        Args:
            now: The time, in seconds since 1970.
        """
        if not self.period:
            return Span(int((now - self.seconds) // MINUTE), int((now + self.seconds) // MINUTE) + 1)
        begin = self._begin(now)
        return Span(int(begin // MINUTE), int(self._end(begin) // MINUTE))

    def describe(self, now: float) -> str:
        """Return the window at a time in words, as in "the day until 2026-12-01 00:00 Europe/Zurich"."""
        if not self.period:
            return f"any {self}"
        end = datetime.fromtimestamp(self._end(self._begin(now)), ZoneInfo(self.timezone))
        return f"the {self.period} until {end:%Y-%m-%d %H:%M} {self.timezone}"

    def _begin(self, now: float) -> float:
        # Of a beginning that a change of the clocks leaves out, the timestamp is the moment of the change; of
        # one that comes twice, the first. Hours that come twice are two: they keep their `fold`.
        local = datetime.fromtimestamp(now, ZoneInfo(self.timezone)).replace(
            minute=0, second=0, microsecond=0
        )
        if self.period != "hour":
            local = local.replace(hour=0, day=local.day if self.period == "day" else 1, fold=0)
        return local.timestamp()

    def _end(self, begin: float) -> float:
        if self.period == "hour":
            end = begin + 2 * _HALF_HOUR
            return end if self._begin(end) != begin else end + _HALF_HOUR  # clocks went back by half an hour
        local = datetime.fromtimestamp(begin, ZoneInfo(self.timezone))
        later = local.replace(tzinfo=None) + timedelta(days=1 if self.period == "day" else 31)
        return self._begin(later.replace(hour=12, tzinfo=local.tzinfo).timestamp())


def _length(seconds: float) -> str:
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", MINUTE)):
        if seconds % length == 0:
            number = int(seconds // length)
            return unit if number == 1 else f"{number} {unit}s"
    return f"{seconds:g} seconds"


def checked_window(per: object, timezone: object) -> Window:
    """Return the window of a budget.

    Args:
        per: A period of the calendar, or the length of a rolling window.
        timezone: The time zone of the calendar.

    Raises:
        NighthawkError: It is no window, or there is no such time zone.
    """
    if isinstance(per, timedelta):
        if not timedelta(minutes=1) <= per <= _MOST:
            raise NighthawkError(f"per is a time from a minute to {_MOST.days} days, not {per}.")
        return Window(seconds=per.total_seconds())
    if per not in ("hour", "day", "month"):
        raise NighthawkError(
            "per is 'hour', 'day' or 'month' of the calendar, or a timedelta for a rolling window, "
            f"not {per!r}."
        )
    try:
        ZoneInfo(str(timezone))
    except (ValueError, OSError, LookupError) as error:
        raise NighthawkError(
            f"{timezone!r} is no time zone of this machine; write 'UTC' or a name such as 'Europe/Zurich'."
        ) from error
    return Window(period=per, timezone=str(timezone))
