"""What the headers of an error response say about trying again. Floor 1.

Source: `_base_client.py` of the official SDKs, which read the same headers.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

__all__ = ["is_transient_status", "retry_after_seconds"]

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
    """How long the endpoint asks to wait, in seconds; None when it does not say, or says nonsense.

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


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None


def _seconds_until(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
