"""One model request with everything that is active for it: policies, charges, its node, its span.

Innermost, the journal of a run gives the response that it has, or records that of the model, or of what is
active in place of models, such as a recorder.

    node -> around_request [ span -> the model … events … -> settle -> span ] -> node

However the request ends, its charges are settled at once, before any other await.
"""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..catalog.request_cost import priced
from ..errors import ConnectTimeoutError, ModelError, ModelStatusError
from ..kernel.calls import below_place, take_turn_place
from ..kernel.commit import check_answer
from ..kernel.environment import Environment, ask_source, find_environment, find_policies, in_order
from ..kernel.fold import AroundRequest, Events, ModelCall, OpenResponse, response_through
from ..kernel.reports import EventArrived, RequestActivity
from ..observation import NodeWriter, find_node_writer
from ..ports import ForwardedStream, HasCurrentPrice, Model, ResponseStream
from ..tracing import Span, begin_span, find_tracing
from ..types.model import ModelEvent, ModelRequest, ResponseFinished, UsageReported
from ..types.model_output import CitationAdded
from ..types.usage import Usage

if TYPE_CHECKING:
    from .partial_answer import PartialAnswer
    from .request_node import RequestNode


_LOGGER = logging.getLogger("nighthawk")


class GovernedStream(ForwardedStream):
    """The events of one response; see `ports.Model.stream`.

    Work of the caller while it holds the stream is below neither its node nor its span.

    Args:
        environment: The environment of the caller; None outside every run.
        model: The model.
        request: The request.
        policies: Those that override `around_request`, outermost first.
        parent: The parent node; None without observers.
        may_be_last: Whether its answer may end the step.
        place: The place of the request in a run with a journal; None without one.
    """

    def __init__(
        self,
        environment: Environment | None,
        model: Model,
        request: ModelRequest,
        *,
        policies: Sequence[AroundRequest],
        parent: NodeWriter | None,
        may_be_last: bool,
        place: str | None,
    ) -> None:
        self._environment = environment
        self._call = ModelCall(model, request, may_be_last=may_be_last, place=place)
        self._policies = policies
        self._response: Events | None = None
        self._given: AsyncIterator[ModelEvent] | None = None  # the events as policies give them
        self._parent = parent
        self._node: RequestNode | None = None
        self._span: Span | None = None
        self._failure: Exception | None = None
        self._reported: Usage | None = None
        self._settled: Usage | None = None
        self._pricing_error: Exception | None = None

    @property
    def usage(self) -> Usage | None:
        """The usage of the request so far; once it has ended, the amount charged, estimates included."""
        if self._settled is not None:
            return self._settled
        if self.source is None and self._policies:
            return Usage()  # certain: this is not a request without a report
        return self._known_usage()

    @property
    def turn_place(self) -> str | None:
        """The place of the request."""
        return self._call.place

    async def __aenter__(self) -> Self:
        node = self._node = self._begin_node()
        try:
            with nullcontext() if node is None else node.active():
                await self._open()
        except BaseException as error:
            self._end_node(error)
            raise
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        try:
            is_swallowed = await self._close(exception_type, exception, traceback)
        except BaseException as error:
            self._end_node(error)
            raise
        self._end_node(exception, has_failed=False)
        return is_swallowed

    async def __anext__(self) -> ModelEvent:
        given = self._given
        if given is None:  # no policy stands between
            event = await self.next_of_source()
            self._show(event)
            return event
        try:
            event = await given.__anext__()
        except StopAsyncIteration:
            raise
        except Exception as error:
            self._failure = error
            raise
        self._show(event)
        return event

    async def next_of_source(self) -> ModelEvent:
        """Return the next event of the source, inside of all policies. Internal."""
        span, events = self._span, self.events
        assert events is not None
        try:
            event = await (events.__anext__() if span is None else self._next_in_span(span))
        except StopAsyncIteration:
            raise
        except Exception as error:
            self._failure = error
            raise
        self._note(event)
        return event

    async def _next_in_span(self, span: Span) -> ModelEvent:
        waited_since = perf_counter()
        with span.active():
            event = await super().__anext__()
        span.note(EventArrived(event=event, waited_since=waited_since, arrived_at=self.arrived_at))
        return event

    def _begin_node(self) -> "RequestNode | None":
        if self._parent is None:
            return None
        from .request_node import RequestNode  # here, because most requests have no observers

        environment = self._environment
        step = None if environment is None else environment.step
        journal, place = None if environment is None else environment.journal, self._call.place
        return RequestNode(
            self._call.model.name,
            self._call.request,
            parent=self._parent,
            step=step,
            price=self._call.model.capabilities.price,
            has_counted=journal is not None and place is not None and journal.has_counted(place),
        )

    async def _open(self) -> None:
        try:
            self._response = response_through(
                self._policies, self._call, lambda answer: _Sending(self, answer)
            )
            given = await self._response.__aenter__()
            self._given = None if isinstance(given, _Sending) else given
        except BaseException as error:
            self._settle(error)
            raise

    async def send(self, answer: OpenResponse | None) -> None:
        """Send the request, inside of all policies, or open the response of one instead. Internal."""
        call = self._call
        try:
            check_answer(call.request, ModelRequest, "around_request")
            if answer is not None and self._node is not None:
                self._node.note_cached()
            call.was_sent = True
            if call.charges is not None:
                self.check_resends(call.charges.check_resend)
            source = ask_source(self._environment, call.model, call.request, call.place, answer)
            await self._enter(source, is_cached=answer is not None)
        except BaseException as error:
            self._settle(error)
            self._note_end(error, error)
            raise

    async def leave(self, *exc_details: Any) -> bool | None:
        """Leave the source of the response, inside of all policies. Internal."""
        ending: BaseException | None = exc_details[1]
        self._settle(ending)
        self._end_span(self._failure, usage_so_far(self.source))
        self._note_end(ending, self._failure)
        try:
            return await super().__aexit__(*exc_details)
        except BaseException as error:
            self._note_end(error, error)
            raise

    def _note_end(self, ending: BaseException | None, failure: BaseException | None) -> None:
        """Note how the request ended, for policies.

        Args:
            ending: The error or cancellation that leaves the stream.
            failure: The error of the request.
        """
        call = self._call
        call.usage, call.ending = self.usage, ending
        call.error = failure if isinstance(failure, Exception) else None

    async def _enter(self, source: Events, *, is_cached: bool) -> None:
        call, step = self._call, None if self._environment is None else self._environment.step
        if isinstance(source, ResponseStream):
            source.settle_first(self._settle)
        activity = RequestActivity(
            model=call.model,
            request=call.request,
            is_replay=isinstance(source, ResponseStream) and source.is_replay,
            journal_place=source.journal_place if isinstance(source, ResponseStream) else None,
            is_cached=is_cached,
            agent=None if step is None else step.agent_span,
        )
        span = self._span = begin_span(activity)
        try:
            with nullcontext() if span is None else span.active():
                await self.enter_source(source)
        except BaseException as error:
            self._end_span(error, usage_so_far(source))
            raise

    def _end_span(self, error: BaseException | None, usage: Usage | None) -> None:
        if self._span is not None:
            if usage is not None:
                self._span.note(usage)
            self._span.end(error)
            self._span = None

    async def _close(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        assert self._response is not None
        try:
            self._settle(exception)
        finally:
            is_swallowed = await self._response.__aexit__(exception_type, exception, traceback)
        if exception is None and self._pricing_error is not None:
            raise self._pricing_error
        return is_swallowed

    def _note(self, event: ModelEvent) -> None:
        """Note an event of the source, for what it costs."""
        if isinstance(event, UsageReported):
            self._reported = event.usage
        elif isinstance(event, ResponseFinished):
            self._call.finish_reason = event.reason
        elif isinstance(event, CitationAdded):
            self._call.citations += (event.citation,)
        if self._call.charges is not None:
            self._call.charges.note(event)

    def _show(self, event: ModelEvent) -> None:
        """Note an event as policies gave it."""
        if isinstance(event, ResponseFinished):
            self._call.finish_reason = event.reason
        if self._node is not None:
            self._node.note(event)

    def _settle(self, leaving: BaseException | None) -> None:
        """Charge the request, unless it has been charged.

        A pricing error does not replace an error that leaves the stream.

        Args:
            leaving: The error or cancellation that leaves the stream.
        """
        charges, self._call.charges = self._call.charges, None
        if charges is None:
            return
        known, is_possible = self._known_usage(), self.source is not None and self.may_have_consumed
        if known is None and self.events is None and leaving is not None and self._was_turned_away(leaving):
            is_possible = False
            if isinstance(leaving, ModelStatusError):
                known = Usage(requests=1, retries=leaving.retries)
        self._settled = charges.settle(known, may_have_consumed=is_possible)
        self._pricing_error = charges.pricing_error
        if self._pricing_error is not None and leaving is not None:
            name = self._call.model.name
            _LOGGER.warning("%s: a request could not be priced: %r", name, self._pricing_error)

    def _was_turned_away(self, error: BaseException) -> bool:
        """Whether a request that could not be opened, without any report, has consumed nothing."""
        if isinstance(self.source, ResponseStream):
            return True  # it would know if something was sent
        if isinstance(error, ModelError):
            return isinstance(error, ConnectTimeoutError | ModelStatusError)
        return isinstance(error, Exception)

    def _known_usage(self) -> Usage | None:
        usage = usage_so_far(self.source) or self._reported
        return None if usage is None else priced(usage, self._call.model.capabilities.price)

    def _end_node(self, leaving: BaseException | None, *, has_failed: bool = True) -> None:
        """End the node.

        Args:
            leaving: The error or cancellation that leaves the stream.
            has_failed: Whether the request failed with it, rather than the caller.
        """
        if self._node is None:
            return
        if has_failed and self._failure is None and isinstance(leaving, Exception):
            self._failure = leaving
        self._node.end(self._failure, leaving, self.usage)


class _Sending:
    """The innermost response: that of the request's source, or of a policy."""

    __slots__ = ("_answer", "_stream")

    def __init__(self, stream: GovernedStream, answer: OpenResponse | None) -> None:
        self._stream = stream
        self._answer = answer

    async def __aenter__(self) -> Self:
        await self._stream.send(self._answer)
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ModelEvent:
        return await self._stream.next_of_source()

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stream.leave(exception_type, exception, traceback)


async def load_price(model: Model, stream: object = None) -> None:
    """Let a model look up its price, before a request to it is measured, shown or sent.

    Args:
        model: The model to ask.
        stream: The stream that is about to be entered; nothing is waited for if it does that by itself.
    """
    if isinstance(stream, ResponseStream) and stream.loads_price:
        return
    # An object without the method is asked for it first, because `isinstance` takes long to deny a protocol.
    if hasattr(model, "load_price") and isinstance(model, HasCurrentPrice):
        await model.load_price()


def open_stream(
    model: Model, request: ModelRequest, *, may_be_last: bool = True
) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
    """Send a request in the environment of the caller; see `stream_in`."""
    return stream_in(find_environment(), model, request, may_be_last=may_be_last)


def stream_in(
    environment: Environment | None, model: Model, request: ModelRequest, *, may_be_last: bool = True
) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
    """Send a request and stream its response; see `ports.Model.stream`.

    Args:
        environment: The environment of the caller; None outside every run.
        model: The model to ask.
        request: The request.
        may_be_last: Whether its answer may end the step, so that it may take the last of a budget.

    Raises:
        InterceptionError: A recorder is active, for example, and has no answer.
        BudgetExceededError: A budget has no room for it, on entering.
        ExecutionError: A hook vetoed it, on entering.
        ConfigurationError: The request asks for what the model lacks, or a budget cannot be kept.
        ModelError: The request failed.
    """
    policies = () if environment is None else environment.policies.overriding["around_request"]
    if here := find_policies():
        policies = in_order((*policies, *here))
    parent = find_node_writer()
    tracing = find_tracing()
    is_traced = tracing is not None and tracing.collects()
    has_journal = environment is not None and environment.journal is not None
    place = take_turn_place(model, request) if has_journal else None
    if parent is None and not is_traced and not policies:
        return ask_source(environment, model, request, place)
    return GovernedStream(
        environment, model, request, policies=policies, parent=parent, may_be_last=may_be_last, place=place
    )


def find_partial_answer(environment: Environment | None) -> "PartialAnswer | None":
    """Return a reader for the next response of the step in progress; None without listeners.

    Args:
        environment: The environment of the caller; None outside every run.
    """
    step = None if environment is None else environment.step
    if step is None or step.partial_listeners is None:
        return None
    from .partial_answer import PartialAnswer  # here, because few programs read values before their end

    return PartialAnswer(step.context, step.partial_listeners)


def report_request(
    report: Callable[[str, Usage], None], model: Model, stream: object, reported: Usage
) -> None:
    """Report the usage of one request in its place, from the best source, with its cost.

    Args:
        report: Counts it, by model id.
        model: The model that was asked.
        stream: The stream of `open_stream`; it knows about attempts and answers that were cancelled. None
            when there is none.
        reported: The usage of the events, or `unreported_usage`.
    """
    usage = priced(usage_so_far(stream) or reported, model.capabilities.price)
    place = stream.turn_place if isinstance(stream, ResponseStream) else None
    with nullcontext() if place is None else below_place(place):
        report(model.name, usage)


def usage_so_far(stream: object) -> Usage | None:
    """The usage of a request, as far as its stream knows it.

    Args:
        stream: The stream of a model; None when there is none.
    """
    usage = stream.usage if isinstance(stream, ResponseStream) else None
    return None if usage is None else usage.credible()


def unreported_usage(error: ModelError | None = None) -> Usage:
    """The usage of one request whose response reported none.

    Args:
        error: The error of the request, if any; it knows how often the request was sent again.
    """
    return Usage(requests=1, retries=0 if error is None else error.retries, is_complete=False)
