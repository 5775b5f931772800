"""The times of cron expressions, in a time zone."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from ..errors import ConfigurationError, NighthawkError


def next_time(cron: str, timezone: str, after: float) -> float:
    """Return the first time of a cron expression after a time, in seconds since 1970.

    Raises:
        ConfigurationError: The extra is not installed.
        NighthawkError: It is no such expression or time zone, or has no further time.
    """
    return _first_time(cron, timezone, after, reverse=False)


def latest_time(cron: str, timezone: str, until: float) -> float:
    """Return the last time of a cron expression up to a time; see `next_time`."""
    return _first_time(cron, timezone, until + 1, reverse=True)  # the times are whole seconds


def _first_time(cron: str, timezone: str, start: float, *, reverse: bool) -> float:
    cron_sim: Any = _load_parser()
    try:
        zone = ZoneInfo(timezone)
    except (ValueError, OSError, LookupError) as error:
        raise NighthawkError(
            f"{timezone!r} is no time zone of this machine; write 'UTC' or a name such as 'Europe/Berlin'"
        ) from error
    try:
        found: datetime = next(cron_sim.CronSim(cron, datetime.fromtimestamp(start, zone), reverse=reverse))
    except cron_sim.CronSimError as error:
        raise NighthawkError(
            f"{cron!r} is no cron expression: {error}. Write minute, hour, day, month and weekday, such as "
            "'0 3 * * *' for three in the morning."
        ) from error
    except StopIteration:
        raise NighthawkError(f"the cron expression {cron!r} has no time in the next 50 years") from None
    return found.timestamp()


def _load_parser() -> Any:
    try:
        import cronsim
    except ImportError as error:
        raise ConfigurationError(
            "Schedules need the extra 'worker'. Install it with: pip install 'nighthawk-async[worker]' "
            f"({error})"
        ) from None
    return cronsim
