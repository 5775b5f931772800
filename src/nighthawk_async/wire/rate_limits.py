"""Rate limits from the headers of a response.

    x-ratelimit-{limit,remaining,reset}-{requests,tokens}     OpenAI and most of those compatible with it
    anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}

Azure has the names of OpenAI and `x-ratelimit-renewalperiod-{requests,tokens}` beside them; its resets are
numbers of milliseconds.

A reset is a duration such as `6m0s` or `17ms` with OpenAI, a moment in RFC 3339 with Anthropic, and with
others a number of seconds. An invalid header is ignored.

Source: OpenAI's guide on rate limits and Anthropic's page on rate limits, the sections on response headers.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Literal, TypeAlias

from msgspec import Struct

RateLimitKind: TypeAlias = Literal["requests", "tokens", "input-tokens", "output-tokens"]
"""The unit of a rate limit."""

_OPENAI_KINDS: tuple[RateLimitKind, ...] = ("requests", "tokens")
_ANTHROPIC_KINDS: tuple[RateLimitKind, ...] = (*_OPENAI_KINDS, "input-tokens", "output-tokens")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[dhms]))+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])", re.ASCII)
_MAX_HEADER_CHARACTERS = 100
_MARKS_OF_MILLISECONDS = ("x-ratelimit-renewalperiod-requests", "x-ratelimit-renewalperiod-tokens")
"""Headers beside which a plain number is one of milliseconds.

Of 120,000 tokens per minute, the 14 of a request are back after 7, and one of 120 requests after 500."""


class RateLimit(Struct, frozen=True, kw_only=True):
    """One rate limit as the provider sees it.

    Args:
        kind: The counted thing.
        remaining: The number that is left.
        limit: The greatest number; None when not reported.
        reset_seconds: Seconds until all are available again; None when not reported.
    """

    kind: RateLimitKind
    remaining: int
    limit: int | None = None
    reset_seconds: float | None = None


def read_rate_limits(headers: Mapping[str, str], *, now: datetime | None = None) -> tuple[RateLimit, ...]:
    """The rate limits in a response's headers.

    Args:
        headers: The headers; names in lower case.
        now: The current time, for a provider that names a time; None reads the clock.
    """
    found: list[RateLimit] = []
    if "x-ratelimit-remaining-requests" in headers or "x-ratelimit-remaining-tokens" in headers:
        unit_seconds = 0.001 if any(name in headers for name in _MARKS_OF_MILLISECONDS) else 1.0
        for kind in _OPENAI_KINDS:
            found += _read(kind, headers, f"x-ratelimit-{{}}-{kind}", now, unit_seconds)
    elif any(name.startswith("anthropic-ratelimit-") for name in headers):
        for kind in _ANTHROPIC_KINDS:
            found += _read(kind, headers, f"anthropic-ratelimit-{kind}-{{}}", now)
    return tuple(found)


def _read(
    kind: RateLimitKind,
    headers: Mapping[str, str],
    pattern: str,
    now: datetime | None,
    unit_seconds: float = 1.0,
) -> list[RateLimit]:
    remaining = _count(headers.get(pattern.format("remaining")))
    if remaining is None:
        return []
    limit = _count(headers.get(pattern.format("limit")))
    reset = _reset_seconds(headers.get(pattern.format("reset")), now, unit_seconds)
    return [RateLimit(kind=kind, remaining=remaining, limit=limit, reset_seconds=reset)]


def _count(text: str | None) -> int | None:
    text = (text or "").strip()
    if not text.isascii() or not text.isdecimal() or len(text) > _MAX_HEADER_CHARACTERS:
        return None
    return int(text)


def _reset_seconds(text: str | None, now: datetime | None, unit_seconds: float) -> float | None:
    text = (text or "").strip()
    if not text or len(text) > _MAX_HEADER_CHARACTERS:
        return None
    if _DURATION.fullmatch(text):
        seconds = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _DURATION_PART.findall(text))
    else:
        number = _number(text)
        seconds = _seconds_until(text, now) if number is None else number * unit_seconds
    return seconds if seconds is not None and isfinite(seconds) and seconds >= 0 else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _seconds_until(text: str, now: datetime | None) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())
