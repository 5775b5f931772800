"""Retries of failed requests, and their delays.

The rules of each provider are in `catalog.providers`; how often is a model setting.
"""

from collections.abc import Callable
from random import random

from ..catalog.providers import RetryRules
from ..errors import ModelError, ModelStatusError

__all__ = ["retry_delay", "server_delay"]

_MOST_DOUBLINGS = 16  # max_retries may be any number


def retry_delay(
    error: ModelError,
    *,
    retries: int,
    max_retries: int,
    rules: RetryRules,
    draw: Callable[[], float] = random,
) -> float | None:
    """Seconds to wait before the request is sent again; None when it is not.

    Args:
        error: Why the request failed.
        retries: How often it was sent again already.
        max_retries: How often it may be sent again.
        rules: The rules of the provider.
        draw: Draws a number from 0 to 1.
    """
    if not error.is_transient or retries >= max_retries or not _is_status_retried(error, rules):
        return None
    asked = _asked_seconds(error)
    if asked is not None:
        if asked <= rules.max_server_delay_seconds:
            return _with_server_jitter(asked, rules, draw)
        if rules.gives_up_beyond:
            return None
    delay = rules.first_delay_seconds * 2 ** min(retries, _MOST_DOUBLINGS)
    delay = min(delay, rules.max_delay_seconds) * (1 - rules.jitter_share * draw())
    return min(delay + rules.jitter_seconds * draw(), rules.max_delay_seconds)


def server_delay(error: ModelError, rules: RetryRules, *, draw: Callable[[], float] = random) -> float | None:
    """Seconds for which an overloaded server wants no more requests of anybody; None when it is not so.

    A longer delay than the rules heed is no such wish: the next requests shall learn of it by themselves,
    instead of waiting for an hour.

    Args:
        error: Why a request failed.
        rules: The rules of the provider.
        draw: Draws a number from 0 to 1.
    """
    if not isinstance(error, ModelStatusError) or error.status not in (429, 503, 529):
        return None
    asked = _asked_seconds(error)
    if asked is None or asked > rules.max_server_delay_seconds:
        return None
    return _with_server_jitter(asked, rules, draw)


def _asked_seconds(error: ModelError) -> float | None:
    """The delay that the server asks for; None for no delay at all, after which nobody should come back."""
    asked = error.retry_after_seconds if isinstance(error, ModelStatusError) else None
    return asked if asked is not None and asked > 0 else None


def _with_server_jitter(asked: float, rules: RetryRules, draw: Callable[[], float]) -> float:
    return asked * (1 + rules.server_jitter_share * draw())


def _is_status_retried(error: ModelError, rules: RetryRules) -> bool:
    """Whether the provider's rules name the status; without a list of them, `is_transient` says it all."""
    return not isinstance(error, ModelStatusError) or rules.statuses is None or error.status in rules.statuses
