"""The windows of budgets: hours, days and months of time zones, and the time before each moment."""

from datetime import UTC, datetime, timedelta

import pytest

import nighthawk_async as nh
from nighthawk_async.policies.budgets.windows import Window, checked_window

HOUR = 60
DAY = 24 * HOUR


def minutes(window: Window, now: str) -> tuple[str, int]:
    """The beginning of a window at a time in UTC, and its length in minutes."""
    span = window.span(datetime.fromisoformat(now).replace(tzinfo=UTC).timestamp())
    return datetime.fromtimestamp(span.first * 60, UTC).strftime("%m-%d %H:%M"), span.end - span.first


@pytest.mark.parametrize(
    ("period", "timezone", "now", "begin", "length"),
    [
        ("day", "UTC", "2026-02-28T23:59:59", "02-28 00:00", DAY),
        ("day", "UTC", "2026-03-01T00:00:00", "03-01 00:00", DAY),
        ("day", "Europe/Zurich", "2026-11-30T23:30", "11-30 23:00", DAY),
        ("day", "Europe/Zurich", "2026-03-29T12:00", "03-28 23:00", 23 * HOUR),  # clocks go forward
        ("day", "Europe/Zurich", "2026-10-25T00:30", "10-24 22:00", 25 * HOUR),  # and back
        ("day", "Europe/Zurich", "2026-10-25T22:59", "10-24 22:00", 25 * HOUR),
        ("day", "Asia/Beirut", "2026-03-29T12:00", "03-28 22:00", 23 * HOUR),  # it has no midnight
        ("day", "America/Havana", "2026-11-01T05:30", "11-01 04:00", 25 * HOUR),  # and two
        ("day", "Pacific/Apia", "2011-12-31T00:00", "12-30 10:00", DAY),  # after a day that never was
        ("hour", "Asia/Kolkata", "2026-11-30T10:31", "11-30 10:30", HOUR),
        ("hour", "Europe/Zurich", "2026-10-25T00:30", "10-25 00:00", HOUR),  # 2 o'clock comes twice
        ("hour", "Europe/Zurich", "2026-10-25T01:30", "10-25 01:00", HOUR),
        ("hour", "Australia/Lord_Howe", "2026-04-04T15:15", "04-04 14:00", 90),  # half of an hour comes twice
        ("month", "UTC", "2026-02-10T00:00", "02-01 00:00", 28 * DAY),
        ("month", "UTC", "2028-02-29T23:59", "02-01 00:00", 29 * DAY),
        ("month", "Europe/Zurich", "2026-03-31T22:30", "03-31 22:00", 30 * DAY),
        ("month", "Europe/Zurich", "2026-10-31T22:59", "09-30 22:00", 31 * DAY + HOUR),
        ("month", "America/Los_Angeles", "2027-01-01T07:59", "12-01 08:00", 31 * DAY),
    ],
)
def test_windows_of_a_calendar(period: str, timezone: str, now: str, begin: str, length: int) -> None:
    assert minutes(checked_window(period, timezone), now) == (begin, length)


@pytest.mark.parametrize(
    "timezone", ["Europe/Zurich", "America/Havana", "Australia/Lord_Howe", "Asia/Kolkata"]
)
@pytest.mark.parametrize("period", ["hour", "day", "month"])
def test_windows_follow_each_other_without_gaps(period: str, timezone: str) -> None:
    window = checked_window(period, timezone)
    end = datetime(2026, 1, 10, tzinfo=UTC).timestamp()
    for _ in range(500 if period != "month" else 30):
        span = window.span(end)
        assert span.first * 60 <= end < span.end * 60
        assert window.span(span.end * 60 - 1) == window.span(span.first * 60) == span
        assert window.span(span.end * 60).first == span.end
        end = span.end * 60


def test_rolling_windows_reach_both_ways() -> None:
    assert minutes(checked_window(timedelta(hours=2), "UTC"), "2026-01-01T01:00:30") == (
        "12-31 23:00",
        4 * HOUR + 1,
    )
    assert [str(checked_window(timedelta(minutes=each), "UTC")) for each in (1, 90, 60, 2880)] == [
        "minute",
        "90 minutes",
        "hour",
        "2 days",
    ]
    assert (
        checked_window("day", "Europe/Zurich").describe(0.0) == "the day until 1970-01-02 00:00 Europe/Zurich"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cost": 1, "per": "day"}, "give store=nighthawk_async.journal.open"),
        ({"decisions_per_hour": 5}, "is kept in a store"),
        ({"cost": 1, "per": "week"}, "per is 'hour', 'day' or 'month'"),
        ({"cost": 1, "per": timedelta(seconds=30)}, "from a minute to 366 days"),
        ({"cost": 1, "per": "day", "timezone": "Mars/Olympus"}, "is no time zone"),
        ({"seconds": 1, "per": "day"}, "has no limit of seconds"),
        ({"per": "day"}, "A budget limits something"),
        ({"per": "day", "decisions_per_hour": 5}, "per needs a limit"),
        ({"cost": 1, "decisions_per_hour": 5}, "the other limits need per="),
        ({"decisions_per_hour": 0.5}, "a whole number"),
        ({"cost": 1, "store": "runs.db"}, "A store keeps budgets by windows"),
        ({"cost": 1, "per": "day", "store": "runs.db"}, "made by nighthawk_async.journal.open"),
    ],
)
def test_bad_budgets_by_windows_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(nh.NighthawkError, match=message):
        nh.budget(**options)  # type: ignore[call-overload]
