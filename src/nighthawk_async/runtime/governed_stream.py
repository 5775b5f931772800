"""A model's response under the budgets and hooks in force. Floor 3.

    BeforeModelRequest -> reserve -> the model … events … -> settle -> AfterModelRequest

However the request ends, what it reserved is settled at once, before anything else is waited for.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self, TypeAlias

from ..errors import BudgetExceededError, ConnectTimeoutError, HookError, ModelError, ModelStatusError
from ..ports import Model
from ..types.model import FinishReason, ModelEvent, ModelRequest, ResponseFinished, UsageReported
from ..types.usage import Usage
from .budgets.conclusion import concluding_request
from .budgets.notices import record_exceeded, tell_thresholds
from .budgets.request import BudgetedRequest, open_request
from .budgets.request_cost import priced
from .budgets.resends import AttemptsSource, checking_resends
from .budgets.told_usage import TellsUsage, may_have_consumed, usage_so_far
from .environment import Environment
from .hooks.calls import emit
from .hooks.events import AfterModelRequest, BeforeModelRequest
from .hooks.shown_request import as_answered, as_shown
from .noted_stream import NotedStream

__all__ = ["GovernedStream", "OpenStream"]

OpenStream: TypeAlias = Callable[
    [Model, ModelRequest], AbstractAsyncContextManager[AsyncIterator[ModelEvent]]
]
"""Sends a request and streams its response, as `ports.Model.stream` does."""


_LOGGER = logging.getLogger("nighthawk")


class GovernedStream(NotedStream):
    """The events of one response; see `ports.Model.stream`.

    Args:
        model: The model.
        request: The request.
        environment: What is in force.
        open_stream: Sends the request.
    """

    def __init__(
        self, model: Model, request: ModelRequest, environment: Environment, *, open_stream: OpenStream
    ) -> None:
        self._model = model
        self._request = request
        self._environment = environment
        self._open_stream = open_stream
        self._budgeted: BudgetedRequest | None = None
        self._stream: AbstractAsyncContextManager[AsyncIterator[ModelEvent]] | None = None
        self._reported: Usage | None = None
        self._finish_reason: FinishReason | None = None
        self._settled: Usage | None = None
        self._pricing_error: Exception | None = None

    @property
    def usage(self) -> Usage | None:
        """The usage of the request so far; see `told_usage.TellsUsage`.

        Once it is over, what budgets were charged for it, estimates included.
        """
        if self._settled is not None:
            return self._settled
        if self._stream is None:
            return Usage()  # certain, so that nobody takes it for a request that told nothing
        return self._told()

    async def __aenter__(self) -> Self:
        request = await self._before()
        await self._reserve(request)
        try:
            with checking_resends(None if self._budgeted is None else self._check_resend):
                self._stream = self._open_stream(self._model, self._request)
                self._events = await self._stream.__aenter__()
        except BaseException as error:
            self._settle(error)
            await self._after(error, error)
            raise
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        assert self._stream is not None
        try:
            self._settle(exception)
        finally:
            try:
                is_swallowed = await self._stream.__aexit__(exception_type, exception, traceback)
            except BaseException as error:
                await self._after(error, error)
                raise
        await self._after(exception, self._failure)
        if exception is None and self._pricing_error is not None:
            raise self._pricing_error
        return is_swallowed

    def _note(self, event: ModelEvent) -> None:
        if isinstance(event, UsageReported):
            self._reported = event.usage
        elif isinstance(event, ResponseFinished):
            self._finish_reason = event.reason
        if self._budgeted is not None:
            self._budgeted.note(event)

    async def _before(self) -> ModelRequest:
        if not self._environment.policies.hooks:
            return self._request
        shown = as_shown(self._request)
        event = BeforeModelRequest(
            execution_ref=self._environment.execution_ref, model_name=self._model.name, request=shown
        )
        answer = (await emit(self._environment, event)).request
        return as_answered(answer, shown=shown, request=self._request)

    async def _reserve(self, request: ModelRequest) -> None:
        """Set the request aside in the budgets, and make it the last one when it is."""
        self._request = request
        environment = self._environment
        accounts = environment.policies.budgets
        if not accounts:
            return
        try:
            self._budgeted = await open_request(
                self._model,
                request,
                accounts,
                executor=environment.step_executor,
                payers=environment.policies.payers,
            )
        except BudgetExceededError as error:
            record_exceeded(error)
            raise
        self._request = self._budgeted.request
        if self._budgeted.concludes:
            self._request = concluding_request(self._request, self._model, environment.step)

    def _check_resend(self, attempts: AttemptsSource) -> bool:
        assert self._budgeted is not None
        try:
            return self._budgeted.check_resend(attempts)
        except BudgetExceededError as error:
            record_exceeded(error)
            raise

    def _settle(self, leaving: BaseException | None) -> None:
        """Charge the request. That it cannot be priced takes the place of nothing that leaves.

        Args:
            leaving: What leaves the stream.
        """
        if self._budgeted is None:
            return
        told, is_possible = self._told(), self._stream is not None and may_have_consumed(self._stream)
        is_open = self._events is not None
        if told is None and not is_open and leaving is not None and _was_turned_away(self._stream, leaving):
            is_possible = False
            if isinstance(leaving, ModelStatusError):
                told = Usage(requests=1, retries=leaving.retries)
        budgeted, self._budgeted = self._budgeted, None
        self._settled = budgeted.settle(told, may_have_consumed=is_possible)
        self._pricing_error = budgeted.pricing_error
        if self._pricing_error is not None and leaving is not None:
            _LOGGER.warning("%s: a request could not be priced: %r", self._model.name, self._pricing_error)

    def _told(self) -> Usage | None:
        usage = None if self._stream is None else usage_so_far(self._stream) or self._reported
        return None if usage is None else priced(usage, self._model.capabilities.price)

    async def _after(self, ending: BaseException | None, failure: BaseException | None) -> None:
        """Tell hooks how the request has ended, and of thresholds that were passed, unless it was cancelled.

        Args:
            ending: What leaves the stream; it stays the primary error when a hook fails as well.
            failure: What the request failed with.
        """
        if ending is not None and not isinstance(ending, Exception):
            return
        try:
            if self._environment.policies.hooks:
                await self._tell_hooks(failure if isinstance(failure, Exception) else None)
            await tell_thresholds(self._environment)
        except HookError as error:
            if ending is None:
                raise
            ending.add_note(str(error))

    async def _tell_hooks(self, failure: Exception | None) -> None:
        event = AfterModelRequest(
            execution_ref=self._environment.execution_ref,
            model_name=self._model.name,
            usage=self.usage,
            finish_reason=self._finish_reason,
            error=failure,
        )
        await emit(self._environment, event)


def _was_turned_away(stream: object, error: BaseException) -> bool:
    """Whether a request that could not be opened, and of which nothing was told, has consumed nothing."""
    if isinstance(stream, TellsUsage):
        return True  # it would have told that something was sent
    if isinstance(error, ModelError):
        return isinstance(error, ConnectTimeoutError | ModelStatusError)
    return isinstance(error, Exception)
