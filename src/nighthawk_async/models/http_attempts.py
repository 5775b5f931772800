"""Attempts at a request until its response begins: turns, retries, and the result of each attempt.

A response has begun with its first output event. A usage report is no output: Anthropic's comes first, and an
error right after it can be retried.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from random import random
from types import TracebackType

import anyio

from ..backoff import backoff_seconds
from ..catalog.providers import RetryRules
from ..errors import ModelError, ModelProviderError, ModelStatusError
from ..kernel.environment import find_environment
from ..kernel.reports import waiting_state, write_retry
from ..ports import AttemptUsage, ResendCheck, may_send_again
from ..tracing import note_named_event
from ..types.model import ModelEvent, ModelPrice, ResponseFailed, UsageReported
from .debug_log import LOGGER, RequestLog
from .endpoint import Endpoint, name_error
from .http_attempt import HttpAttempt, HttpRequestPlan, LoopTurns
from .http_pool import HttpPool
from .pacing import Pacer, Permit
from .pricing import UsageTally
from .signing import RequestSigner
from .time_limits import TimeLimits


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunResponse:
    """A response that has begun, or never will.

    Args:
        events: Its events so far.
        attempt: Provides the others; None when there are none.
        failure: The error if there is no response; raised after the events, which then report the usage.
    """

    events: list[ModelEvent]
    attempt: HttpAttempt | None = None
    failure: ModelError | None = None


class HttpAttempts(AbstractAsyncContextManager["HttpAttempts"]):
    """The attempts at one request. Leaving them closes the response of the one that succeeded.

    Args:
        plan: The request.
        pool: The pool of connections.
        pacer: Decides when an attempt may begin.
        limits: The time limits.
        resend_check: Called before the request is sent again; None for no check.
        price: The price of the model; None when it is unknown.
    """

    def __init__(
        self,
        plan: HttpRequestPlan,
        *,
        pool: HttpPool,
        pacer: Pacer,
        limits: TimeLimits,
        resend_check: ResendCheck | None,
        price: ModelPrice | None,
    ) -> None:
        self._plan = plan
        self._endpoint = plan.endpoint
        self._signer = _signer_of(plan)
        self._check_resend = resend_check
        self._pool = pool
        self._pacer = pacer
        self._limits = limits
        self._log = RequestLog.begin(plan.endpoint)
        self._turn: int | None = None
        self._permit: Permit | None = None
        self._attempt: HttpAttempt | None = None
        self._opened: HttpAttempt | None = None  # stays open until the end, even after a failure
        self._sent = 0
        self._chance = 0.0
        self.tally = UsageTally(price)
        """The consumption of the attempts."""
        self.turns = LoopTurns()
        """Detects when other tasks should run."""

    @property
    def may_have_consumed(self) -> bool:
        """Whether the provider may have worked on the request: an attempt was sent and not turned away."""
        is_in_progress = self._attempt is not None and self._attempt.may_have_consumed
        return is_in_progress or self.tally.may_have_lost

    def consumption(self) -> list[AttemptUsage]:
        """The consumption of each attempt, as far as it is known."""
        failed = self.tally.failed
        if self._attempt is None:
            return failed
        is_possible = self._attempt.may_have_consumed
        return [*failed, AttemptUsage(reported=self.tally.present, may_have_consumed=is_possible)]

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        opened, self._opened = self._opened, None
        try:
            if opened is not None:
                await opened.__aexit__(exception_type, exception, traceback)
        finally:
            if self._permit is not None:
                self._permit.release()

    async def begin(self) -> BegunResponse:
        """Send the request until a response begins.

        Raises:
            ModelError: No attempt succeeded, and none reported its usage.
            BudgetExceededError: A budget has no room for another attempt.
            HookError: A hook that was notified of another attempt failed.
        """
        while True:
            sent_before = self._sent
            try:
                return await self._begin_once()
            except ModelError as error:
                delay = await self._next_delay(error, is_sent=self._sent > sent_before)
                if delay is None:
                    if self.tally.has_lost:
                        usage = UsageReported(usage=self.tally.unreported())
                        return BegunResponse(events=[usage], failure=error)
                    raise
                # A refused request queues for its next turn at once, ahead of later requests; the pacer
                # grants it when the delay is over.
                own_delay = 0.0 if server_delay(error, self._plan.retry_rules) else delay
                await self._report_to_hooks(error, delay)
            with waiting_state():
                await anyio.sleep(own_delay)
            self.tally.retries += 1

    async def next_events(self, attempt: HttpAttempt) -> list[ModelEvent]:
        """The next events, one or more; none when all were returned. Every chunk counts as a sign of life.

        A usage report covers the whole request.

        Args:
            attempt: The attempt that succeeded.

        Raises:
            ModelError: The response broke off, took too long, or is not what the protocol promises.
        """
        while not attempt.is_complete:
            if events := await self._limits.keep(attempt.read_events):
                return self._taken(events)
        return []

    async def give_turn(self, attempt: HttpAttempt | None) -> None:
        """Let other tasks run between two events that have already arrived.

        Args:
            attempt: The attempt that succeeded; None when none did.

        Raises:
            ModelTimeoutError: The response is not complete, and its time is over.
        """
        if attempt is None or attempt.is_complete:
            await self.turns.give()
        else:
            await self._limits.keep(self.turns.give)

    def failed(self, error: ModelError) -> None:
        """Add the model's name to an error, and report the failed attempt, which is the last.

        Args:
            error: The error.
        """
        self._end_attempt()
        self._name(error)
        self._show_failed(error, None)

    async def _next_delay(self, error: ModelError, *, is_sent: bool) -> float | None:
        """End an attempt, and find the seconds until the next one; None when there is none.

        Args:
            error: The error of the attempt.
            is_sent: Whether anything was sent.

        Raises:
            BudgetExceededError: A budget has no room for another attempt, whatever other requests release.
        """
        if is_sent:
            self._end_attempt()
        self._name(error)
        planned, delay = self._delay_after(error), None
        try:
            if planned is not None and await self._may_be_sent_again(error):
                delay = planned
        finally:
            if is_sent:
                self._show_failed(error, delay)
        return delay

    async def _may_be_sent_again(self, error: ModelError) -> bool:
        if self._check_resend is None or await may_send_again(self._check_resend, self.consumption):
            return True
        error.add_note("Not sent again: for now a budget has no room, because of what others have set aside.")
        return False

    def _end_attempt(self) -> None:
        attempt, self._attempt = self._attempt, None
        self.tally.attempt_failed(may_have_consumed=attempt is not None and attempt.may_have_consumed)

    def _show_failed(self, error: ModelError, delay: float | None) -> None:
        """Report a failed attempt to traces and the log; the delay is None when no other one follows."""
        note_named_event("nighthawk.model.attempt_failed", self._attributes_of_failure(error, delay))
        if delay is None:
            LOGGER.info("attempt %d at a model request failed: %s", self._sent, error)
        else:
            write_retry(f"attempt {self._sent} failed, next one in {delay:.3g} seconds: {error}")
            LOGGER.info(
                "attempt %d at a model request failed, next one in %.1f seconds: %s", self._sent, delay, error
            )

    def _attributes_of_failure(self, error: ModelError, delay: float | None) -> dict[str, str | int | float]:
        """The attributes of a failed attempt, without the provider's text, which may quote data."""
        attributes: dict[str, str | int | float] = {
            "nighthawk.model.id": self._plan.endpoint.model_id,
            "nighthawk.model.attempt": self._sent,
            "error.type": type(error).__name__,
        }
        if isinstance(error, ModelStatusError):
            attributes["http.response.status_code"] = error.status
        if delay is not None:
            attributes["nighthawk.model.retry_delay_seconds"] = delay
        return attributes

    async def _report_to_hooks(self, error: ModelError, delay: float) -> None:
        """Report a failed attempt that will be retried to hooks."""
        environment = find_environment()
        if environment is None or not environment.policies.overriding["report"]:
            return
        from ..kernel.events import RetryScheduled, report_retry_to_hooks

        await report_retry_to_hooks(
            RetryScheduled(
                name=self._plan.endpoint.model_id,
                attempt=self.tally.retries + 1,
                error=error,
                wait_seconds=delay,
            )
        )

    async def _begin_once(self) -> BegunResponse:
        """Wait for the request's turn, send it, and wait for the first output."""
        permit = await self._admit()
        try:
            if self._signer is not None:
                self._use(await self._signer.sign(self._limits))
            self._limits.begin_attempt()
            return await self._limits.keep(partial(self._send, permit))
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise

    def _use(self, endpoint: Endpoint) -> None:
        """Send the next attempt to this endpoint, and keep its secrets out of the log."""
        self._endpoint = endpoint
        if self._log is not None:
            self._log.hide(endpoint.secrets())

    async def _admit(self) -> Permit:
        """Wait for the request's turn, which it keeps for its next attempts."""
        demand, turn = self._plan.demand, self._turn
        permit = self._pacer.admit_nowait(demand, turn=turn)
        if permit is None:
            with waiting_state():
                permit = await self._limits.keep_turn(lambda: self._pacer.admit(demand, turn=turn))
        self._limits.begin()
        self._turn = permit.turn
        self._permit = permit
        return permit

    async def _send(self, permit: Permit) -> BegunResponse:
        """Send the request and wait for the first output, which is kept to be passed on."""
        self._sent += 1
        self._chance = random()  # drawn once, so that the reported delay is the actual one
        self.tally.attempt_begun()
        attempt = self._attempt = HttpAttempt(self._plan, self._endpoint, self._pool, self.turns)
        if self._log is not None:
            self._log.sending(attempt.url, self._plan.encoded.body, attempt=self._sent)
        try:
            self._opened = await attempt.__aenter__()
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
        while not attempt.is_complete:
            new = self._taken(await attempt.read_events())
            events += new
            for event in new:
                if not isinstance(event, UsageReported):
                    raise_failure(event)
                    self._limits.note_output()
                    return events
        return events

    def _taken(self, events: list[ModelEvent]) -> list[ModelEvent]:
        if events and self._log is not None:
            self._log.events(events)
        return [self._complete(event) for event in events]

    def _complete(self, event: ModelEvent) -> ModelEvent:
        """The event; a usage report counts from now on, whether it is passed on or not."""
        if not isinstance(event, UsageReported):
            return event
        if self._permit is not None and event.usage.is_complete:
            self._permit.correct(event.usage.input_tokens + event.usage.output_tokens)
        return UsageReported(usage=self.tally.report(event.usage))

    def _delay_after(self, error: ModelError) -> float | None:
        """Seconds until the next attempt; None when there is none, or it would come too late."""
        if self._signer is not None and self._signer.may_send_again(error):
            return 0.0 if self.tally.retries < self._plan.settings.max_retries else None
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
        name_error(error, self._endpoint)
        error.retries = self.tally.retries


def _signer_of(plan: HttpRequestPlan) -> RequestSigner | None:
    credentials = plan.settings.credentials
    if credentials is None:
        return None
    return RequestSigner(credentials, endpoint=plan.endpoint, path=plan.encoded.path, body=plan.encoded.body)


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
