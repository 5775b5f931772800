"""Whether and when a failed request is sent again, and the reports of its failed attempts.

The decision is pure; an exchange, and the calls of an endpoint, carry it out.
"""

from collections.abc import Callable
from random import random

from ..backoff import backoff_seconds
from ..catalog.providers import RetryRules
from ..errors import ModelError, ModelStatusError
from ..kernel.environment import find_environment
from ..kernel.reports import write_retry
from ..tracing import note_named_event
from .debug_log import LOGGER


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
        error: The error of the request.
        retries: The number of retries so far.
        max_retries: The greatest number of retries.
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
    longest = rules.max_delay_seconds
    delay = backoff_seconds(retries, first=rules.first_delay_seconds, longest=longest)
    delay *= 1 - rules.jitter_share * draw()
    return min(delay + rules.jitter_seconds * draw(), longest)


def server_delay(error: ModelError, rules: RetryRules, *, draw: Callable[[], float] = random) -> float | None:
    """Seconds for which an overloaded server wants no more requests at all; None when it is not overloaded.

    A delay beyond the limit of the rules does not count: later requests get their own refusal instead of
    waiting for an hour.

    Args:
        error: The error of a request.
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
    """The delay that the server asks for; None if the request should not be sent again at all."""
    asked = error.retry_after_seconds if isinstance(error, ModelStatusError) else None
    return asked if asked is not None and asked > 0 else None


def _with_server_jitter(asked: float, rules: RetryRules, draw: Callable[[], float]) -> float:
    return asked * (1 + rules.server_jitter_share * draw())


def _is_status_retried(error: ModelError, rules: RetryRules) -> bool:
    """Whether the provider's rules name the status; without a list of them, `is_transient` decides."""
    return not isinstance(error, ModelStatusError) or rules.statuses is None or error.status in rules.statuses


def report_failed_attempt(error: ModelError, *, model_id: str, attempt: int, delay: float | None) -> None:
    """Report a failed attempt to traces, the live tree and the log.

    Args:
        error: The error of the attempt.
        model_id: The model.
        attempt: The number of the attempt, from 1.
        delay: Seconds until the next one; None when no other one follows.
    """
    attributes: dict[str, str | int | float] = {  # without the provider's text, which may quote data
        "nighthawk.model.id": model_id,
        "nighthawk.model.attempt": attempt,
        "error.type": type(error).__name__,
    }
    if isinstance(error, ModelStatusError):
        attributes["http.response.status_code"] = error.status
    if delay is not None:
        attributes["nighthawk.model.retry_delay_seconds"] = delay
    note_named_event("nighthawk.model.attempt_failed", attributes)
    if delay is None:
        LOGGER.info("attempt %d at a model request failed: %s", attempt, error)
    else:
        write_retry(f"attempt {attempt} failed, next one in {delay:.3g} seconds: {error}")
        LOGGER.info(
            "attempt %d at a model request failed, next one in %.1f seconds: %s", attempt, delay, error
        )


async def report_retry_to_hooks(error: ModelError, *, model_id: str, attempt: int, delay: float) -> None:
    """Report a failed attempt that will be retried to hooks.

    Args:
        error: The error of the attempt.
        model_id: The model.
        attempt: The number of the attempt, from 1.
        delay: Seconds until the next one.

    Raises:
        HookError: A hook failed.
    """
    environment = find_environment()
    if environment is None or not environment.policies.observers:
        return
    from ..kernel import events  # here, because most requests are never retried

    await events.report_retry_to_hooks(
        events.RetryScheduled(name=model_id, attempt=attempt, error=error, wait_seconds=delay)
    )
