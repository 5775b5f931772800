"""A model's response with the active policies around it.

    before_request -> the model … events … -> settle -> after_request

However the request ends, what it is charged to is settled at once, before anything else is waited for.
"""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self, TypeAlias

from ..catalog.request_cost import priced
from ..errors import ConnectTimeoutError, HookError, ModelError, ModelStatusError
from ..ports import Model
from ..types.model import ModelEvent, ModelRequest, ResponseFinished, UsageReported
from ..types.usage import Usage
from .model_call import ModelCall
from .noted_stream import NotedStream
from .policies import Policies
from .policy import Policy
from .resends import checking_resends
from .told_usage import TellsUsage, may_have_consumed, usage_so_far

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
        policies: The active policies.
        open_stream: Sends the request.
    """

    def __init__(
        self, model: Model, request: ModelRequest, policies: Policies, *, open_stream: OpenStream
    ) -> None:
        self._call = ModelCall(model, request)
        self._before = policies.that("before_request")
        self._after: Sequence[Policy] = policies.that("after_request")
        self._open_stream = open_stream
        self._stream: AbstractAsyncContextManager[AsyncIterator[ModelEvent]] | None = None
        self._reported: Usage | None = None
        self._settled: Usage | None = None
        self._pricing_error: Exception | None = None

    @property
    def usage(self) -> Usage | None:
        """The usage of the request so far; see `told_usage.TellsUsage`.

        Once it is over, what it was charged as, estimates included.
        """
        if self._settled is not None:
            return self._settled
        if self._stream is None:
            return Usage()  # certain, so that nobody takes it for a request that told nothing
        return self._told()

    async def __aenter__(self) -> Self:
        call = self._call
        try:
            for policy in self._before:
                await policy.before_request(call)
        except BaseException as error:
            self._settle(error)
            raise
        charges = call.charges
        try:
            with checking_resends(None if charges is None else charges.check_resend):
                self._stream = self._open_stream(call.model, call.request)
                self._events = await self._stream.__aenter__()
        except BaseException as error:
            self._settle(error)
            await self._tell_after(error, error)
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
                await self._tell_after(error, error)
                raise
        await self._tell_after(exception, self._failure)
        if exception is None and self._pricing_error is not None:
            raise self._pricing_error
        return is_swallowed

    def _note(self, event: ModelEvent) -> None:
        if isinstance(event, UsageReported):
            self._reported = event.usage
        elif isinstance(event, ResponseFinished):
            self._call.finish_reason = event.reason
        if self._call.charges is not None:
            self._call.charges.note(event)

    def _settle(self, leaving: BaseException | None) -> None:
        """Charge the request. That it cannot be priced takes the place of nothing that leaves.

        Args:
            leaving: What leaves the stream.
        """
        charges, self._call.charges = self._call.charges, None
        if charges is None:
            return
        told, is_possible = self._told(), self._stream is not None and may_have_consumed(self._stream)
        is_open = self._events is not None
        if told is None and not is_open and leaving is not None and _was_turned_away(self._stream, leaving):
            is_possible = False
            if isinstance(leaving, ModelStatusError):
                told = Usage(requests=1, retries=leaving.retries)
        self._settled = charges.settle(told, may_have_consumed=is_possible)
        self._pricing_error = charges.pricing_error
        if self._pricing_error is not None and leaving is not None:
            name = self._call.model.name
            _LOGGER.warning("%s: a request could not be priced: %r", name, self._pricing_error)

    def _told(self) -> Usage | None:
        usage = None if self._stream is None else usage_so_far(self._stream) or self._reported
        return None if usage is None else priced(usage, self._call.model.capabilities.price)

    async def _tell_after(self, ending: BaseException | None, failure: BaseException | None) -> None:
        """Tell policies how the request has ended, unless it was cancelled.

        Args:
            ending: What leaves the stream; it stays the primary error when a policy fails as well.
            failure: What the request failed with.
        """
        if ending is not None and not isinstance(ending, Exception):
            return
        call = self._call
        call.usage = self.usage
        call.error = failure if isinstance(failure, Exception) else None
        try:
            for policy in reversed(self._after):
                await policy.after_request(call)
        except HookError as error:
            if ending is None:
                raise
            ending.add_note(str(error))


def _was_turned_away(stream: object, error: BaseException) -> bool:
    """Whether a request that could not be opened, and of which nothing was told, has consumed nothing."""
    if isinstance(stream, TellsUsage):
        return True  # it would have told that something was sent
    if isinstance(error, ModelError):
        return isinstance(error, ConnectTimeoutError | ModelStatusError)
    return isinstance(error, Exception)
