"""Retry advice in error responses: headers, and Google's `RetryInfo`.

Source: `_base_client.py` of the official SDKs, which read the same headers; `google.rpc.RetryInfo` for the
delay that the Gemini API puts into the body of an error.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, cast

__all__ = ["is_transient_status", "retry_after_seconds", "retry_info_seconds"]

_TRANSIENT_BELOW_500 = frozenset({408, 409, 429})


def is_transient_status(status: int, headers: Mapping[str, str] | None = None) -> bool:
    """Whether the same request may succeed later.

    Args:
        status: The HTTP status code.
        headers: The response's headers, names in lower case; `x-should-retry` has the last word.
    """
    advice = (headers or {}).get("x-should-retry", "").strip().lower()
    if advice in ("true", "false"):
        return advice == "true"
    return status in _TRANSIENT_BELOW_500 or status >= 500


def retry_after_seconds(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Return the delay that the endpoint asks for, in seconds; None for none, or for nonsense.

    Args:
        headers: The response's headers, names in lower case.
        now: The present time, for an endpoint that names a date; None reads the clock.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    if text is None:
        return None
    seconds = _number(text)
    return seconds if seconds is not None else _seconds_until(text, now or datetime.now(UTC))


def retry_info_seconds(error: object) -> float | None:
    """Return the delay that a Google API asks for, in seconds; None for none.

    Args:
        error: The error object of a response's body: its `details` may hold a `retryDelay` such as `34.5s`.
    """
    details = cast("Mapping[str, Any]", error).get("details") if isinstance(error, Mapping) else None
    if not isinstance(details, list):
        return None
    for detail in cast("list[object]", details):
        delay = cast("Mapping[str, Any]", detail).get("retryDelay") if isinstance(detail, Mapping) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return _number(delay[:-1])
    return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None


def _seconds_until(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the latter for a year that no machine can count
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
