"""When a failed request is sent again, and after how long. Floor 4.

The rules are those of the official SDKs: two retries, 0.5 seconds doubled each time up to 8, shortened by a
random quarter at most; a delay that the server asks for is kept up to 120 seconds, and a longer one means no
retry.
"""

from collections.abc import Callable
from random import random

from ..errors import ModelError, ModelStatusError

__all__ = ["retry_delay"]

_FIRST_DELAY_SECONDS = 0.5
_MAX_DELAY_SECONDS = 8.0
_MAX_SERVER_DELAY_SECONDS = 120.0
_JITTER = 0.25


def retry_delay(
    error: ModelError, *, retries: int, max_retries: int, draw: Callable[[], float] = random
) -> float | None:
    """Seconds to wait before the request is sent again; None when it is not.

    Args:
        error: Why the request failed.
        retries: How often it was sent again already.
        max_retries: How often it may be sent again.
        draw: Draws a number from 0 to 1.
    """
    if not error.is_transient or retries >= max_retries:
        return None
    asked = error.retry_after_seconds if isinstance(error, ModelStatusError) else None
    if asked is not None:
        return asked if asked <= _MAX_SERVER_DELAY_SECONDS else None
    # The exponent is bounded, since max_retries may be any number.
    delay = min(_FIRST_DELAY_SECONDS * 2 ** min(retries, 16), _MAX_DELAY_SECONDS)
    return delay * (1 - _JITTER * draw())
