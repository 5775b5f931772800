from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.wire.rate_limits import RateLimit, read_rate_limits

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def reset_of(text: str) -> float | None:
    headers = {"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": text}
    (limit,) = read_rate_limits(headers, now=NOON)
    return limit.reset_seconds


def test_openais_headers_are_read() -> None:
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert read_rate_limits(headers) == (
        RateLimit(kind="requests", remaining=59, limit=60, reset_seconds=1.0),
        RateLimit(kind="tokens", remaining=149_984, limit=150_000, reset_seconds=360.0),
    )


def test_anthropics_headers_are_read() -> None:
    kinds = ("requests", "tokens", "input-tokens", "output-tokens")
    headers = {
        name: value
        for kind in kinds
        for name, value in (
            (f"anthropic-ratelimit-{kind}-limit", "50"),
            (f"anthropic-ratelimit-{kind}-remaining", "0"),
            (f"anthropic-ratelimit-{kind}-reset", "2026-11-21T12:00:07Z"),
        )
    }
    assert read_rate_limits(headers, now=NOON) == tuple(
        RateLimit(kind=kind, remaining=0, limit=50, reset_seconds=7.0) for kind in kinds
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("17ms", 0.017),
        ("6m0s", 360.0),
        ("1h2m", 3_720.0),
        ("1m30.5s", 90.5),
        ("2d", 172_800.0),
        ("0s", 0.0),
        ("12", 12.0),
        ("0.25", 0.25),
        (" 3s ", 3.0),
        ("2026-11-21T12:00:06+00:00", 6.0),
        ("2026-11-21T13:00:06+01:00", 6.0),
        ("2026-11-21T12:00:06", 6.0),
        ("2026-11-21T11:00:00Z", 0.0),
        ("soon", None),
        ("1x", None),
        ("-1s", None),
        ("-3", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        ("1s" * 100, None),
        ("٣s", None),
    ],
)
def test_a_reset_is_a_duration_a_number_or_a_moment(text: str, seconds: float | None) -> None:
    assert reset_of(text) == seconds


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5", "٣", "9" * 1_000])
def test_a_limit_whose_remainder_makes_no_sense_is_left_out(text: str) -> None:
    assert read_rate_limits({"x-ratelimit-remaining-requests": text}) == ()


def test_a_remainder_alone_is_enough() -> None:
    assert read_rate_limits({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-limit-tokens": "?"}) == (
        RateLimit(kind="tokens", remaining=5),
    )


def test_other_headers_say_nothing() -> None:
    assert read_rate_limits({"retry-after": "1", "x-ratelimit-limit-requests": "5"}) == ()


NAMES = [
    "x-ratelimit-remaining-requests",
    "x-ratelimit-limit-requests",
    "x-ratelimit-reset-requests",
    "anthropic-ratelimit-tokens-remaining",
    "anthropic-ratelimit-tokens-reset",
]


@given(st.dictionaries(st.sampled_from(NAMES), st.text() | st.datetimes().map(str) | st.floats().map(str)))
def test_whatever_the_headers_hold_a_limit_is_sane(headers: dict[str, str]) -> None:
    for limit in read_rate_limits(headers, now=NOON):
        assert limit.remaining >= 0
        assert limit.limit is None or limit.limit >= 0
        assert limit.reset_seconds is None or 0 <= limit.reset_seconds < float("inf")
