"""`batched`: a model whose requests go to the provider's batch endpoint, at half the price."""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from decimal import Decimal
from functools import partial
from math import inf
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple, Self

from ..catalog.providers import PROVIDERS
from ..configuration import StepExecutorConfiguration, parse_model_id
from ..errors import ConfigurationError, ModelError, NighthawkError
from ..kernel.environment import find_environment, find_journal
from ..kernel.reports import waiting_state, write_retry
from ..observation import find_node_writer
from ..parallel.resources import use_resource
from ..parallel.task_current import find_positions
from ..ports import Model, ResendCheck, ResponseStream, may_send_again
from ..types.model import ModelCapabilities, ModelEvent, ModelPrice, ModelRequest, UsageReported
from ..types.usage import Usage
from ..wire.codec import Codec
from .batch import Ticket
from .batch_collector import Collector, open_collector
from .batch_protocol import BatchProtocol, ItemResult
from .batch_records import BatchRecords
from .endpoint import Endpoint, name_error
from .endpoint_calls import copied_error
from .exchange import raise_failure
from .http_model import HttpModel
from .prepared_settings import HttpRequestPlan, PreparedSettings
from .pricing import UsageTally
from .protocols import create_batches
from .providers import create_model
from .response_body import in_thread

_PRICE = Decimal("0.5")
"""The share of the price that all providers charge for a request in a batch."""

_MOST_BYTES_ON_THE_LOOP = 8 * 1024


def batched(
    model: str | StepExecutorConfiguration | Model,
    *,
    window_seconds: float = 60.0,
    max_requests: int | None = None,
) -> Model:
    """Return a model that asks through the batch endpoint of its provider, at half the price.

        async with nh.run(nh.batched("anthropic:claude-sonnet-4-5")):
            reviews = await nh.parallel.map(review, reports)

    Requests that parallel steps make within a window are submitted together. The provider answers when it
    has time, mostly within an hour and at the latest after a day; each step goes on with its response. A step
    with several turns takes part in as many batches.

    An item that failed for a passing reason, or that its batch did not get to, is part of a later batch,
    `max_retries` times at most. A step that is cancelled leaves its batch; when all have left, the batch is
    cancelled. In a run with a journal the process may end meanwhile: the next life of the run finds its
    batches again.

    Args:
        model: A model id; a configuration, of which the model and its settings count; or a model made from
            either.
        window_seconds: Seconds from the first request of a batch to its submission.
        max_requests: The number of requests with which a batch is submitted at once; None for the limit of
            the provider.

    Raises:
        ConfigurationError: The model has no batch endpoint that is known, an argument is invalid, or the
            model cannot be had.
    """
    if isinstance(window_seconds, bool) or not 0 <= window_seconds < inf:
        raise ConfigurationError(f"window_seconds must be a number of seconds, not {window_seconds!r}.")
    if max_requests is not None and (isinstance(max_requests, bool) or max_requests < 1):
        raise ConfigurationError(f"max_requests must be a whole number, at least 1, not {max_requests!r}.")
    made = _made(model)
    return BatchedModel(made, _protocol_of(made), window_seconds=window_seconds, max_requests=max_requests)


def _made(model: object) -> HttpModel:
    if isinstance(model, str):
        model = create_model(model)
    elif isinstance(model, StepExecutorConfiguration):
        model = create_model(model.model, settings=model.model_settings)
    if isinstance(model, HttpModel):
        return model
    name = getattr(model, "name", None) or type(model).__qualname__
    raise ConfigurationError(
        f"{name} has no batch endpoint. Give nighthawk_async.batched a model id of a provider that has one, "
        "for example 'anthropic:claude-sonnet-4-5', or a configuration with one."
    )


def _protocol_of(model: HttpModel) -> BatchProtocol:
    facts = PROVIDERS.get(parse_model_id(model.name).provider)
    if facts is None or not facts.has_batches:
        known = ", ".join(sorted(name for name, each in PROVIDERS.items() if each.has_batches))
        raise ConfigurationError(
            f"{model.name}: no batch endpoint of this provider is known; there are those of {known}."
        )
    return create_batches(facts.protocol)


def batch_price(price: ModelPrice | None) -> ModelPrice | None:
    """The price of a request in a batch; None when that outside a batch is unknown.

    Args:
        price: The price outside a batch.
    """
    if price is None:
        return None
    return ModelPrice(
        input=price.input * _PRICE,
        output=price.output * _PRICE,
        cache_read=None if price.cache_read is None else price.cache_read * _PRICE,
        cache_write=None if price.cache_write is None else price.cache_write * _PRICE,
        cache_write_1h=None if price.cache_write_1h is None else price.cache_write_1h * _PRICE,
        long_request=batch_price(price.long_request),
        long_request_tokens=price.long_request_tokens,
    )


class BatchedModel:
    """A model behind a batch endpoint; implements `ports.Model`. Made by `batched`.

    Args:
        model: The model.
        protocol: Speaks to the batch endpoint.
        window_seconds: Seconds for which a window is open.
        max_requests: The greatest number of requests in a batch; None for that of the provider.
    """

    def __init__(
        self, model: HttpModel, protocol: BatchProtocol, *, window_seconds: float, max_requests: int | None
    ) -> None:
        self._model = model
        self._protocol = protocol
        self._window_seconds = window_seconds
        self._max_requests = max_requests or protocol.max_requests
        self._halved: tuple[ModelCapabilities, ModelCapabilities] | None = None

    def __repr__(self) -> str:
        return f"batched({self.name!r}, window_seconds={self._window_seconds:g})"

    @property
    def name(self) -> str:
        """The model id, `provider:name`."""
        return self._model.name

    @property
    def capabilities(self) -> ModelCapabilities:
        """The capabilities of the model, with the price of requests in a batch."""
        known = self._model.capabilities
        if self._halved is None or self._halved[0] is not known:
            self._halved = known, replace(known, price=batch_price(known.price))
        return self._halved[1]

    async def load_price(self) -> ModelPrice | None:
        """Look up the price of requests that begin now; see `ports.HasCurrentPrice`."""
        return batch_price(await self._model.load_price())

    def endpoint_of(self, settings: Mapping[str, Any]) -> Endpoint:
        """Return the endpoint of a request; see `HttpModel.endpoint_of`."""
        return self._model.endpoint_of(settings)

    def settings_of(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings that a request is sent with; see `ports.HasSettings`."""
        return self._model.settings_of(settings)

    def stream(self, request: ModelRequest) -> "BatchedResponse":
        """Ask through the batch endpoint; see `ports.Model.stream`. The response comes in one piece.

        Args:
            request: The request.

        Raises:
            ConfigurationError: The request asks for what the model or its protocol lacks, or has a bad
                setting.
        """
        whole = replace(request, settings={**request.settings, "stream": False})
        # A key for each request would let no two of them be in one batch.
        settings = replace(self._model.prepare(whole.settings), idempotency_header=None)
        if settings.transport.upload_media_above_bytes is None:
            return BatchedResponse(self, settings, self._model.plan(whole, settings))
        return BatchedResponse(self, settings, lambda: self._plan_with_files(whole, settings))

    async def _plan_with_files(self, request: ModelRequest, settings: PreparedSettings) -> "_PlanWithFiles":
        """Upload the large media of a request, and plan it."""
        from .uploads import uploads_of_run  # here, because few requests have large media

        terms = self._model.upload_terms(settings)
        async with uploads_of_run(terms) as uploads:
            request = await uploads.replace_in(request, terms)
        return _PlanWithFiles(self._model.plan(request, settings), partial(uploads.keep, request))

    async def collector(self) -> Collector:
        """The collector of the run on this event loop.

        Raises:
            NighthawkError: No run is active, or it keeps nothing on this event loop.
        """
        environment = find_environment()
        keeper = None if environment is None else environment.run_state.find_keeper()
        if keeper is None or not keeper.is_here:
            raise NighthawkError(
                f"{self!r} collects the requests of a run: ask it in a run that was entered with "
                "`async with` on this event loop, or from synchronous functions in one that was entered with "
                "`with`."
            )
        return await use_resource(keeper, self, f"batches of {self.name}", self._open)

    def _open(self) -> AbstractAsyncContextManager[Collector]:
        return open_collector(
            self._protocol,
            self._model.pool_source(),
            window_seconds=self._window_seconds,
            max_requests=self._max_requests,
            journal=find_journal(),
        )


class _PlanWithFiles(NamedTuple):
    """A request with uploaded files, and the function that keeps them after the run while they are needed."""

    plan: HttpRequestPlan
    keep: Callable[[Callable[[], bool]], None]


class BatchedResponse(ResponseStream):
    """The events of one response. Entering it waits for the batch; see `ports.Model.stream`.

    Args:
        model: The model.
        settings: The settings of the request.
        plan: The request, or a function that plans it.
    """

    def __init__(
        self,
        model: BatchedModel,
        settings: PreparedSettings,
        plan: HttpRequestPlan | Callable[[], Awaitable[_PlanWithFiles]],
    ) -> None:
        self._model = model
        self._settings = settings
        self._plan = plan
        self._place = find_positions().path  # that of the request, when the run has a journal
        self._resend_check: ResendCheck | None = None
        self._tally: UsageTally | None = None
        self._ticket: Ticket | None = None
        self._events: deque[ModelEvent] = deque()
        self._arrived_at = 0.0

    @property
    def usage(self) -> Usage | None:
        """The usage of the request so far, over all batches; None when nothing was sent."""
        return self._tally.usage if self._tally is not None and self.may_have_consumed else None

    @property
    def may_have_consumed(self) -> bool:
        """Whether the provider may have worked on the request; see `ports.ResponseStream`."""
        if self._ticket is not None and self._ticket.batch is not None and self._ticket.batch.was_sent:
            return True
        return self._tally is not None and bool(self._tally.failed)

    @property
    def arrived_at(self) -> float:
        """The arrival time of the response, by `time.perf_counter`."""
        return self._arrived_at

    def check_resends(self, check: ResendCheck) -> None:
        """Set a check to make before the request is asked again."""
        self._resend_check = check

    async def __aenter__(self) -> Self:
        tally = self._tally = UsageTally(await self._model.load_price())
        collector = await self._model.collector()
        journal = find_journal()
        has_place = self._place.rpartition("/")[2].startswith("turn[")  # not where a program asks it directly
        records = BatchRecords(journal, self._place) if journal is not None and has_place else None
        plan, keep_files = (
            (self._plan, None) if isinstance(self._plan, HttpRequestPlan) else await self._plan()
        )
        while True:
            ticket = self._ticket = Ticket(plan, find_node_writer(), records)
            tally.attempt_begun()
            try:
                with waiting_state():
                    result = await collector.ask(ticket)
            except BaseException:
                if keep_files is not None and (batch := ticket.batch) is not None:
                    keep_files(lambda batch=batch: batch.is_left)
                raise
            self._arrived_at = perf_counter()
            try:
                self._events = deque(await _decode(plan.codec, result, tally))
            except ModelError as error:
                await self._may_ask_again(error, result, tally)
            else:
                return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._events.clear()

    async def __anext__(self) -> ModelEvent:
        if not self._events:
            raise StopAsyncIteration
        return self._events.popleft()

    async def _may_ask_again(self, error: ModelError, result: ItemResult, tally: UsageTally) -> None:
        """Prepare another batch after an error.

        Raises:
            ModelError: The error, if the request is not asked again.
            BudgetExceededError: A budget has no room for it.
        """
        self._ticket = None
        tally.attempt_failed(may_have_consumed=result.was_processed)
        name_error(error, self._settings.endpoint)
        error.retries = tally.retries
        if not error.is_transient or tally.retries >= self._settings.transport.max_retries:
            raise error
        if self._resend_check is not None and not await may_send_again(
            self._resend_check, lambda: tally.failed
        ):
            error.add_note(
                "Not asked again: for now a budget has no room, because of what others have set aside."
            )
            raise error
        tally.retries += 1
        write_retry(f"asked again in another batch: {error}")


async def _decode(codec: Codec, result: ItemResult, tally: UsageTally) -> list[ModelEvent]:
    """The events of a result.

    Raises:
        ModelError: It is an error, or not what the protocol promises.
    """
    if result.body is None:
        assert result.error is not None
        raise copied_error(result.error)
    decode, body = codec.decode_response, result.body
    is_long = len(body) > _MOST_BYTES_ON_THE_LOOP
    events = await in_thread(decode, body) if is_long else decode(body)
    counted = [
        UsageReported(usage=tally.report(event.usage)) if isinstance(event, UsageReported) else event
        for event in events
    ]
    return [raise_failure(event) for event in counted]
