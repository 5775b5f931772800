"""One request to a model over HTTP, from its turn to the last event of its response.

`Exchange` reads from top to bottom: it is opened (it waits for its turn, is sent, and sent again as
`http_retries` decides, until a response begins), streamed, and closed. `response_body` makes events of the
bytes of a response, `http_pool` has the connections, and `time_limits` bounds each wait: no cancel scope is
open while the caller holds the stream.

A response has begun with its first output event. A usage report is no output: Anthropic's comes first, and an
error right after it can be retried.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from random import random
from time import perf_counter
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

import anyio

from ..errors import ModelError, ModelProviderError
from ..kernel.reports import waiting_state
from ..lazy_exports import LazyModule
from ..ports import AttemptUsage, ResendCheck, ResponseStream, may_send_again
from ..tracing import find_trace_context
from ..types.messages import UserContent
from ..types.model import ModelEvent, ModelPrice, ResponseFailed, ResponseFinished, UsageReported
from ..types.unset import UNSET, Unset
from ..types.usage import Usage
from .byte_exchange import ByteExchange, RequestSource
from .debug_log import RequestLog
from .endpoint import name_error
from .http_pool import HttpPool
from .http_retries import report_failed_attempt, report_retry_to_hooks, retry_delay, server_delay
from .pacing import Pacer, PacerSource, Permit
from .prepared_settings import HttpRequestPlan
from .pricing import UsageTally
from .response_body import LoopTurns, ResponseBody, check_head
from .time_limits import TimeLimits

if TYPE_CHECKING:
    from . import signing
else:
    signing = LazyModule(f"{__package__}.signing")  # most endpoints have a key

# Without a user agent, some gateways refuse a request; compression would delay the events of a stream.
_HEADERS = {"accept-encoding": "identity", "user-agent": "nighthawk-async"}

PoolSource: TypeAlias = Callable[[], AbstractAsyncContextManager[HttpPool]]
"""Provides the pool for one request; leaving the context manager ends the request."""

SenderSource: TypeAlias = Callable[[], AbstractAsyncContextManager[RequestSource]]
"""Provides the transport of one request: a pool, or another one."""

PriceSource: TypeAlias = Callable[[], Awaitable[ModelPrice | None]]
"""Looks up the price of a request that begins now."""


class Exchange(ResponseStream):
    """One request and the events of its response. Entering it waits for the first output.

    Its usage is that of all attempts. It is no generator and has no exit stack, which would take a kilobyte:
    every step in flight holds an exchange.

    Args:
        plan: The request.
        pool_source: Provides the pool.
        pacer_source: Provides the pacer.
        load_price: Looks up the price.
        price: The price that holds until it is looked up, when the head of a response has arrived; UNSET to
            look it up before the request is sent.
    """

    _pool: RequestSource
    _pacer: Pacer
    _tally: UsageTally
    _turns: LoopTurns

    def __init__(
        self,
        plan: HttpRequestPlan,
        *,
        pool_source: SenderSource,
        pacer_source: PacerSource,
        load_price: PriceSource,
        price: ModelPrice | Unset | None = UNSET,
    ) -> None:
        self._plan = plan
        self._endpoint = plan.endpoint
        self._load_price = load_price
        self._price_until_then = price
        self._pool_source = pool_source
        self._pacer_source = pacer_source
        self._resend_check: ResendCheck | None = None
        self._limits = TimeLimits(plan.settings, plan.endpoint.base_url.netloc)
        self._signer = _signer_of(plan)
        self._log: RequestLog | None = None
        self._pool_in_use: AbstractAsyncContextManager[RequestSource] | None = None
        self._pacer_in_use: AbstractAsyncContextManager[Pacer] | None = None
        self._permit: Permit | None = None
        self._attempt: ByteExchange | None = None  # the one in progress
        self._opened: ByteExchange | None = None  # stays open until the end, even after a failure
        self._body: ResponseBody | None = None
        self._said: Sequence[str] = ()
        self._sent = 0
        self._chance = 0.0
        self._events: Iterator[ModelEvent] = iter(())
        self._failure: ModelError | None = None  # raised after the events, which report the usage
        self._is_streaming = False
        self._arrived_at = 0.0

    @property
    def usage(self) -> Usage | None:
        """The usage of the request so far, over all attempts; None when nothing was sent."""
        return self._tally.usage if self._sent else None

    @property
    def may_have_consumed(self) -> bool:
        """Whether the provider may have worked on the request: an attempt was sent and not turned away."""
        return _may_have_consumed(self._attempt) or (self._sent > 0 and self._tally.may_have_lost)

    @property
    def loads_price(self) -> bool:
        """True: it looks the price up while it arrives."""
        return True

    @property
    def arrived_at(self) -> float:
        """The arrival time of the last chunk of the response, by `time.perf_counter`."""
        return self._arrived_at

    def check_resends(self, check: ResendCheck) -> None:
        """Set a check to make before the request is sent again."""
        self._resend_check = check

    async def steer(self, waiting: Sequence[UserContent]) -> None:
        """Put what the user says meanwhile into the running response, where the transport can."""
        said = [each for each in waiting if isinstance(each, str)]
        if len(said) < len(waiting):  # media go with the next request, and nothing overtakes them
            return
        self._said = said
        if self._attempt is not None:
            await self._attempt.steer(said)

    # Open: send the request until a response begins.

    async def __aenter__(self) -> Self:
        try:
            price = self._price_until_then
            self._tally = UsageTally(await self._load_price() if price is UNSET else price)
            pool_in_use = self._pool_source()
            self._pool = await pool_in_use.__aenter__()
            self._pool_in_use = pool_in_use
            pacer_in_use = self._pacer_source(self._plan.pacing_key)
            self._pacer = await pacer_in_use.__aenter__()
            self._pacer_in_use = pacer_in_use
            self._log = RequestLog.begin(self._plan.endpoint)
            self._turns = LoopTurns()
            events = await self._begin()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        is_reported = any(isinstance(event, UsageReported) for event in events)
        if self._tally.retries and not is_reported:  # whatever follows
            events.insert(0, UsageReported(usage=self._tally.unreported()))
        self._arrived_at = perf_counter()
        self._events = iter(events)
        self._is_streaming = True
        return self

    async def _begin(self) -> list[ModelEvent]:
        """Send the request until a response begins, and return its events so far.

        Raises:
            ModelError: No attempt succeeded, and none reported its usage.
            BudgetExceededError: A budget has no room for another attempt.
            HookError: A hook that was notified of another attempt failed.
        """
        while True:
            sent_before = self._sent
            try:
                return await self._send_in_turn()
            except ModelError as error:
                await self._find_price()
                delay = await self._next_delay(error, is_sent=self._sent > sent_before)
                if delay is None:
                    if not self._tally.has_lost:
                        raise
                    self._failure = error
                    return [UsageReported(usage=self._tally.unreported())]
                # A refused request queues for its next turn at once, ahead of later requests; the pacer
                # grants it when the delay is over.
                own_delay = 0.0 if server_delay(error, self._plan.retry_rules) else delay
                await report_retry_to_hooks(
                    error, model_id=self._endpoint.model_id, attempt=self._tally.retries + 1, delay=delay
                )
            with waiting_state():
                await anyio.sleep(own_delay)
            self._tally.retries += 1

    async def _send_in_turn(self) -> list[ModelEvent]:
        """Wait for the request's turn, which it keeps for its next attempts, and make an attempt."""
        demand, turn = self._plan.demand, None if self._permit is None else self._permit.turn
        permit = self._pacer.admit_nowait(demand, turn=turn)
        if permit is None:
            with waiting_state():
                permit = await self._limits.keep_turn(lambda: self._pacer.admit(demand, turn=turn))
        self._limits.begin()
        self._permit = permit
        try:
            if self._signer is not None:
                self._endpoint = await self._signer.sign(self._limits)
                if self._log is not None:
                    self._log.hide(self._endpoint.secrets())
            self._limits.begin_attempt()
            return await self._limits.keep(lambda: self._send(permit))
        except BaseException:
            await self._close(is_to_be_kept=False)
            raise

    async def _send(self, permit: Permit) -> list[ModelEvent]:
        """Send the request and wait for the first output; returns the events up to it."""
        plan = self._plan
        url = self._endpoint.url(plan.encoded.path)
        headers = {**_HEADERS, **plan.encoded.headers, **trace_headers(), **self._endpoint.headers}
        self._sent += 1
        self._chance = random()  # drawn once, so that the reported delay is the actual one
        self._tally.attempt_begun()
        timeout = plan.settings.connect_timeout
        raw = self._attempt = self._pool.request(url, headers, plan.encoded.body, connect_timeout=timeout)
        if self._said:
            await raw.steer(self._said)
        if self._log is not None:
            self._log.sending(url, plan.encoded.body, attempt=self._sent)
        try:
            self._opened = await raw.__aenter__()
            is_whole = await check_head(raw, self._endpoint)
        except ModelError as error:
            delay = server_delay(error, plan.retry_rules, draw=lambda: self._chance)
            if delay is not None:
                permit.refused(delay)
            raise
        finally:
            permit.answered(raw.headers)
            if self._log is not None and raw.status:
                self._log.answered(raw.status, raw.headers)
        permit.accepted()
        await self._find_price()
        body = self._body = ResponseBody(raw, plan, self._endpoint, self._turns, is_whole=is_whole)
        events: list[ModelEvent] = []
        while not body.is_complete:
            new = self._taken(await body.read_events())
            events += new
            for event in new:
                if not isinstance(event, UsageReported):
                    raise_failure(event)
                    self._limits.note_output()
                    return events
        return events

    async def _find_price(self) -> None:
        """Look the price up, if that has not been done: what is reported from now on may cost something."""
        if self._price_until_then is not UNSET:
            self._tally.price = await self._load_price()
            self._price_until_then = UNSET

    # Decide: whether the request is sent again.

    async def _next_delay(self, error: ModelError, *, is_sent: bool) -> float | None:
        """End an attempt, and find the seconds until the next one; None when there is none.

        Raises:
            BudgetExceededError: A budget has no room for another attempt, whatever other requests release.
        """
        self._note_failure(error, is_attempt=is_sent)
        planned, delay = self._delay_after(error), None
        try:
            if planned is not None and await self._may_be_sent_again(error):
                delay = planned
        finally:
            if is_sent:
                self._report_failure(error, delay)
        return delay

    def _delay_after(self, error: ModelError) -> float | None:
        """Seconds until the next attempt; None when there is none, or it would come too late."""
        retries, max_retries = self._tally.retries, self._plan.settings.max_retries
        if self._signer is not None and self._signer.may_send_again(error):
            return 0.0 if retries < max_retries else None
        rules = self._plan.retry_rules
        delay = retry_delay(
            error, retries=retries, max_retries=max_retries, rules=rules, draw=lambda: self._chance
        )
        is_late = delay is not None and anyio.current_time() + delay >= self._limits.deadline
        return None if is_late else delay

    async def _may_be_sent_again(self, error: ModelError) -> bool:
        if self._resend_check is None or await may_send_again(self._resend_check, self._consumption):
            return True
        error.add_note("Not sent again: for now a budget has no room, because of what others have set aside.")
        return False

    def _consumption(self) -> list[AttemptUsage]:
        """The consumption of each attempt, as far as it is known."""
        failed = self._tally.failed
        if self._attempt is None:
            return failed
        is_possible = _may_have_consumed(self._attempt)
        return [*failed, AttemptUsage(reported=self._tally.present, may_have_consumed=is_possible)]

    def _note_failure(self, error: ModelError, *, is_attempt: bool) -> None:
        """Keep what an attempt has consumed, and name the model in its error."""
        if is_attempt:
            attempt, self._attempt = self._attempt, None
            self._tally.attempt_failed(may_have_consumed=_may_have_consumed(attempt))
        name_error(error, self._endpoint)
        error.retries = self._tally.retries

    def _report_failure(self, error: ModelError, delay: float | None) -> None:
        report_failed_attempt(error, model_id=self._endpoint.model_id, attempt=self._sent, delay=delay)

    # Stream: pass on the events as they arrive.

    async def __anext__(self) -> ModelEvent:
        if not self._is_streaming:
            raise StopAsyncIteration
        try:
            if self._turns.now() >= self._turns.due_at:
                await self._give_turn()
            event = next(self._events, None)
            if event is None:
                self._events = iter(await self._next_events())
                self._arrived_at = perf_counter()
                event = next(self._events, None)
            if event is not None:
                return raise_failure(event)
        except ModelError as error:
            self._is_streaming = False
            if error is not self._failure:
                self._note_failure(error, is_attempt=True)
                self._report_failure(error, None)
            raise
        self._is_streaming = False
        raise StopAsyncIteration

    async def _next_events(self) -> list[ModelEvent]:
        """The next events, one or more; none when all were returned. Every chunk counts as a sign of life.

        Raises:
            ModelError: The response broke off, took too long, or is not what the protocol promises.
        """
        if self._failure is not None:
            raise self._failure
        body = self._body
        while body is not None and not body.is_complete:
            if events := await self._limits.keep(body.read_events):
                return self._taken(events)
        return []

    async def _give_turn(self) -> None:
        """Let other tasks run between two events that have already arrived.

        Raises:
            ModelTimeoutError: The response is not complete, and its time is over.
        """
        if self._body is None or self._body.is_complete:
            await self._turns.give()
        else:
            await self._limits.keep(self._turns.give)

    def _taken(self, events: list[ModelEvent]) -> list[ModelEvent]:
        """The events; a usage report counts from now on, whether it is passed on or not, and covers all."""
        if events and self._log is not None:
            self._log.events(events)
        for place, event in enumerate(events):
            if isinstance(event, UsageReported):
                if self._permit is not None and event.usage.is_complete:
                    self._permit.correct(event.usage.input_tokens + event.usage.output_tokens)
                events[place] = UsageReported(usage=self._tally.report(event.usage))
            elif self._said and isinstance(event, ResponseFinished) and self._attempt is not None:
                events[place] = replace(event, steered=self._attempt.steered)
        return events

    # Close: return the connection, the turn, the pacer and the pool.

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_streaming = False
        self._events = iter(())
        pool_in_use, self._pool_in_use = self._pool_in_use, None
        pacer_in_use, self._pacer_in_use = self._pacer_in_use, None
        try:
            await self._close(is_to_be_kept=exception_type is None)
        finally:
            try:
                if pacer_in_use is not None:
                    await pacer_in_use.__aexit__(exception_type, exception, traceback)
            finally:
                if pool_in_use is not None:
                    await pool_in_use.__aexit__(exception_type, exception, traceback)

    async def _close(self, *, is_to_be_kept: bool) -> None:
        """End an attempt: give its connection and its turn back.

        Args:
            is_to_be_kept: Whether the connection is to be kept, if the response was received as a whole.
        """
        opened, self._opened = self._opened, None
        body, self._body = self._body, None
        try:
            if is_to_be_kept and body is not None and body.is_ended:
                await body.drain()
        finally:
            try:
                if opened is not None:
                    await opened.__aexit__(None, None, None)
            finally:
                if self._permit is not None:
                    self._permit.release()


def _signer_of(plan: HttpRequestPlan) -> "signing.RequestSigner | None":
    credentials = plan.settings.credentials
    if credentials is None:
        return None
    return signing.RequestSigner(
        credentials, endpoint=plan.endpoint, path=plan.encoded.path, body=plan.encoded.body
    )


_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def trace_headers() -> Mapping[str, str]:
    """The headers by which a server can continue the trace of the current span; none where there is no trace.

    For a trace that is not recorded, by decision of a sampler or a client, they say so. By default these are
    those of W3C Trace Context; `opentelemetry.propagate` can be configured otherwise.
    """
    if find_trace_context() is None:
        return _NO_HEADERS
    from opentelemetry import (  # here, because it searches all installed packages for propagators
        baggage,
        propagate,
    )

    from ..telemetry_settings import get_settings  # here, because most requests belong to no trace

    if not get_settings().propagates:
        return _NO_HEADERS
    carrier: dict[str, str] = {}
    propagate.inject(carrier, baggage.clear())  # its content is not meant for a provider
    return {name.lower(): value for name, value in carrier.items()}


def _may_have_consumed(attempt: ByteExchange | None) -> bool:
    """Whether the provider may have worked on an attempt: it was sent, and not turned away."""
    return attempt is not None and attempt.was_sent and attempt.status in (0, 200)


def raise_failure(event: ModelEvent) -> ModelEvent:
    """The event itself, unless it is an error that the provider reported.

    Args:
        event: Any event.

    Raises:
        ModelProviderError: It is one.
    """
    if isinstance(event, ResponseFailed):
        raise ModelProviderError.in_kind(event.kind)(
            f"the provider reported an error: {event.message}",
            error_type=event.error_type,
            is_transient=event.is_transient,
        )
    return event
