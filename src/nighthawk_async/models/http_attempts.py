"""Tries a request until its response begins: turns, retries, and what becomes of each attempt. Floor 4.

A response has begun with its first event that is output. A report of usage is none: Anthropic's comes first,
and an error right after it can be met with another attempt.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from random import random

import anyio

from ..errors import ModelError, ModelProviderError
from ..runtime.budgets.resends import AttemptUsage, find_resend_check
from ..runtime.tracing import record_failed_attempt
from ..types.model import ModelEvent, ResponseFailed, UsageReported
from .debug_log import LOGGER, RequestLog
from .endpoint import name_error
from .http_attempt import HttpAttempt
from .http_plan import HttpRequestPlan
from .http_pool import HttpPool
from .pacing import Pacer, Permit
from .pricing import UsageTally
from .retry import retry_delay, server_delay
from .time_limits import TimeLimits

__all__ = ["BegunResponse", "HttpAttempts", "raise_failure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunResponse:
    """A response that has begun, or will never.

    Args:
        events: Its events so far.
        attempt: Gives the others; None when there are none.
        failure: Why there is no response; raised after the events, which then tell the usage.
    """

    events: list[ModelEvent]
    attempt: HttpAttempt | None = None
    failure: ModelError | None = None


class HttpAttempts:
    """The attempts at one request.

    Args:
        plan: The request.
        pool: Where connections come from.
        pacer: Says when an attempt may begin.
        limits: The time limits.
    """

    def __init__(self, plan: HttpRequestPlan, *, pool: HttpPool, pacer: Pacer, limits: TimeLimits) -> None:
        self._plan = plan
        self._pool = pool
        self._pacer = pacer
        self._limits = limits
        self._log = RequestLog.begin(plan.endpoint)
        self._turn: int | None = None
        self._permit: Permit | None = None
        self._attempt: HttpAttempt | None = None
        self._sent = 0
        self._chance = 0.0
        self.tally = UsageTally(plan.price)
        """What the attempts consumed."""

    @property
    def may_have_consumed(self) -> bool:
        """Whether the provider may have worked on the request: an attempt was sent and not turned away."""
        is_in_progress = self._attempt is not None and self._attempt.may_have_consumed
        return is_in_progress or self.tally.may_have_lost

    def consumption(self) -> list[AttemptUsage]:
        """What each attempt consumed, as far as it is known."""
        failed = self.tally.failed
        if self._attempt is None:
            return failed
        told, is_possible = self.tally.present, self._attempt.may_have_consumed
        return [*failed, AttemptUsage(told=told, may_have_consumed=is_possible)]

    async def begin(self, stack: AsyncExitStack) -> BegunResponse:
        """Send the request until a response begins.

        Args:
            stack: What closes the response.

        Raises:
            ModelError: No attempt succeeded, and none told its usage.
            BudgetExceededError: A budget has no room for another attempt.
        """
        while True:
            sent_before = self._sent
            try:
                async with AsyncExitStack() as attempt_stack:
                    permit = await self._admit(attempt_stack)
                    response = await self._send(permit, attempt_stack)
                    await stack.enter_async_context(attempt_stack.pop_all())
                    return response
            except ModelError as error:
                delay = self._delay_after(error)
                if self._sent > sent_before:
                    self.failed(error, delay)
                else:
                    self._name(error)
                if delay is None:
                    if self.tally.has_lost:
                        usage = UsageReported(usage=self.tally.unreported())
                        return BegunResponse(events=[usage], failure=error)
                    raise
                if (check := find_resend_check()) is not None:
                    check(self.consumption)
                # Whom the server refused waits for its next turn at once, ahead of whoever came later; the
                # pacer gives it when the delay is over.
                own_delay = 0.0 if server_delay(error, self._plan.retry_rules) else delay
            await anyio.sleep(own_delay)
            self.tally.retries += 1

    async def next_events(self, attempt: HttpAttempt) -> list[ModelEvent]:
        """The next events, one or more; none when all were given. Every piece is a sign of life.

        A report of usage tells that of the whole request.

        Args:
            attempt: The attempt that succeeded.

        Raises:
            ModelError: The response broke off, took too long, or is not what the protocol promises.
        """
        while not attempt.is_complete:
            if events := await self._limits.keep(attempt.read_events):
                if self._log is not None:
                    self._log.events(events)
                return [self._complete(event) for event in events]
        return []

    def failed(self, error: ModelError, delay: float | None = None) -> None:
        """Let an error name the model, and show the attempt that ended with it.

        Args:
            error: Why it failed.
            delay: Seconds until the next attempt; None when there is none.
        """
        self._name(error)
        attempt, self._attempt = self._attempt, None
        self.tally.attempt_failed(may_have_consumed=attempt is not None and attempt.may_have_consumed)
        model_id = self._plan.endpoint.model_id
        record_failed_attempt(model_id, error, attempt=self._sent, delay_seconds=delay)
        if delay is None:
            LOGGER.info("attempt %d at a model request failed: %s", self._sent, error)
        else:
            LOGGER.info(
                "attempt %d at a model request failed, next one in %.1f seconds: %s", self._sent, delay, error
            )

    async def _admit(self, stack: AsyncExitStack) -> Permit:
        """Wait for the request's turn, which it keeps for its next attempts."""
        permit = await self._limits.keep_turn(lambda: self._pacer.admit(self._plan.demand, turn=self._turn))
        stack.callback(permit.release)
        self._turn = permit.turn
        self._permit = permit
        return permit

    async def _send(self, permit: Permit, stack: AsyncExitStack) -> BegunResponse:
        """Send the request and wait for the first output, which stays to be handed on."""
        self._sent += 1
        self._chance = random()  # drawn once, so that the delay that is told is the one that is kept
        self._limits.begin_attempt()
        self.tally.attempt_begun()
        attempt = self._attempt = HttpAttempt(self._plan, self._pool)
        if self._log is not None:
            self._log.sending(attempt.url, self._plan.encoded.body, attempt=self._sent)
        try:
            await self._limits.keep(lambda: stack.enter_async_context(attempt))
        except ModelError as error:
            delay = server_delay(error, self._plan.retry_rules, draw=lambda: self._chance)
            if delay is not None:
                permit.refused(delay)
            raise
        finally:
            permit.answered(attempt.headers)
            if self._log is not None and attempt.status:
                self._log.answered(attempt.status, attempt.headers)
        permit.accepted()
        return BegunResponse(events=await self._until_output(attempt), attempt=attempt)

    async def _until_output(self, attempt: HttpAttempt) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        while new := await self.next_events(attempt):
            events += new
            for event in new:
                if not isinstance(event, UsageReported):
                    raise_failure(event)
                    self._limits.note_output()
                    return events
        return events

    def _complete(self, event: ModelEvent) -> ModelEvent:
        """The event; a report of usage counts from now on, whether it is handed on or not."""
        if not isinstance(event, UsageReported):
            return event
        if self._permit is not None and event.usage.is_complete:
            self._permit.correct(event.usage.input_tokens + event.usage.output_tokens)
        return UsageReported(usage=self.tally.report(event.usage))

    def _delay_after(self, error: ModelError) -> float | None:
        """Seconds until the next attempt; None when there is none, or it would come too late."""
        delay = retry_delay(
            error,
            retries=self.tally.retries,
            max_retries=self._plan.settings.max_retries,
            rules=self._plan.retry_rules,
            draw=lambda: self._chance,
        )
        is_late = delay is not None and anyio.current_time() + delay >= self._limits.deadline
        return None if is_late else delay

    def _name(self, error: ModelError) -> None:
        name_error(error, self._plan.endpoint)
        error.retries = self.tally.retries


def raise_failure(event: ModelEvent) -> ModelEvent:
    """The event itself, unless it is an error that the provider reported.

    Args:
        event: Any event.

    Raises:
        ModelProviderError: It is one.
    """
    if isinstance(event, ResponseFailed):
        raise ModelProviderError(
            f"the provider reported an error: {event.message}",
            error_type=event.error_type,
            is_transient=event.is_transient,
        )
    return event
