"""Protocols of models and their responses, which the runtime needs and other packages implement.

The step executor protocols use `StepContext`, so they are one floor up, in `runtime.step_executor`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from time import perf_counter
from types import TracebackType
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from msgspec import Struct

from .types.messages import UserContent
from .types.model import ModelCapabilities, ModelEvent, ModelPrice, ModelRequest
from .types.usage import Usage

PeopleAnswer = TypeVar("PeopleAnswer")


@runtime_checkable
class Model(Protocol):
    """One LLM endpoint.

    A model object holds no connection and no event-loop object: it may be created before any loop runs and
    be used by many runs, on either backend.
    """

    @property
    def name(self) -> str:
        """The model id, `provider:name`."""
        ...

    @property
    def capabilities(self) -> ModelCapabilities:
        """The capabilities of the model."""
        ...

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Send a request and stream its response.

        Entering the context manager sends the request and waits for the response to begin. The iterator ends
        after `ResponseFinished`. Leaving early, or being cancelled, closes the connection.

        Args:
            request: The request.

        Raises:
            ConfigurationError: The request needs a capability that the model lacks; nothing was sent.
            ModelError: The request failed, on entering or while iterating. A stream that ends without
                `ResponseFinished` raises `ModelProtocolError`.
        """
        ...


@runtime_checkable
class HasSettings(Protocol):
    """A model with settings, beside the protocol `Model`."""

    def settings_of(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings to send with a request: the given ones and those of the model.

        Raises:
            ConfigurationError: A setting is bad.
        """
        ...


@runtime_checkable
class HasCurrentPrice(Protocol):
    """A model whose price is looked up, beside the protocol `Model`."""

    async def load_price(self) -> ModelPrice | None:
        """Look up the price of requests that begin now. From then on, `capabilities` has it.

        Returns:
            The price; None when it is unknown.
        """
        ...


class AttemptUsage(Struct, frozen=True, kw_only=True):
    """The known facts of one attempt at a request.

    Args:
        reported: The reported usage, counted as no request; None when none was reported.
        may_have_consumed: Whether the provider may have worked on it: it was sent, and not turned away.
    """

    reported: Usage | None
    may_have_consumed: bool


AttemptsSource: TypeAlias = Callable[[], Sequence[AttemptUsage]]
"""Returns the attempts at a request that have begun, oldest first; may be called at any time."""

ResendCheck: TypeAlias = Callable[[AttemptsSource], bool | Awaitable[bool]]
"""Called before a request is sent again, with the attempts so far; returns whether there is room for that.

On a worker the answer comes from the program: await it, as `may_send_again` does. Not awaited, it is false.

It raises `BudgetExceededError` when there will be no room even after all requests in progress have ended.
"""


Settle: TypeAlias = Callable[[BaseException | None], None]
"""Charges a request that has ended, given the error that ended it; None for a whole response."""


async def may_send_again(check: ResendCheck, attempts: AttemptsSource) -> bool:
    """Make the check before a request is sent again.

    Args:
        check: The check.
        attempts: Returns the attempts so far.

    Raises:
        BudgetExceededError: There will be no room even after all requests in progress have ended.
    """
    answer = check(attempts)
    return answer if isinstance(answer, bool) else await answer


class ResponseStream(AbstractAsyncContextManager["ResponseStream"], AsyncIterator[ModelEvent]):
    """A response that knows more about its request than its events report.

    `Model.stream` may also return any other asynchronous context manager of an iterator; only its events
    count then.

    Subclasses are not generators: no cancel scope is open while the caller holds the stream.
    """

    @property
    def usage(self) -> Usage | None:
        """The usage of the request so far, at any time and after its end; None when nothing was sent.

        Events report nothing about a request that is cancelled before its first one.
        """
        return None

    @property
    def may_have_consumed(self) -> bool:
        """Whether the provider may have worked on the request: it was sent, and not turned away."""
        return True

    @property
    def loads_price(self) -> bool:
        """Whether it looks up the price of its model by itself, so that nobody need do that before."""
        return False

    @property
    def arrived_at(self) -> float:
        """The arrival time of the chunk that held the last event, by `time.perf_counter`.

        A chunk may hold several events.
        """
        return perf_counter()

    @property
    def is_replay(self) -> bool:
        """Whether the response was recorded, so that no model is asked."""
        return False

    @property
    def journal_place(self) -> str | None:
        """The place of the response in a run with a journal; None without one."""
        return None

    @property
    def turn_place(self) -> str | None:
        """The place of the request in a run with a journal, whatever the run is within; None without one."""
        return None

    def check_resends(self, check: ResendCheck) -> None:
        """Set a check to make before the request is sent again; called before the stream is entered.

        Args:
            check: The check.
        """

    async def steer(self, waiting: Sequence[UserContent]) -> None:
        """Put what the user says meanwhile into the running response, where its provider takes that.

        The next request holds it nevertheless: a provider that has taken it recognizes it there.

        Args:
            waiting: All messages that have arrived for the model since the request was made.
        """

    def settle_first(self, settle: Settle) -> None:
        """Have the request charged before its end is recorded, if it is; called before the stream is entered.

        Args:
            settle: Charges it, given the error that ends it; None for a whole response.
        """


class ForwardedStream(ResponseStream):
    """Another response, forwarded event by event. The subclass sets `source` before it enters it."""

    source: AbstractAsyncContextManager[AsyncIterator[ModelEvent]] | None = None
    resend_check: ResendCheck | None = None
    events: AsyncIterator[ModelEvent] | None = None

    @property
    def usage(self) -> Usage | None:
        """The usage of the request so far, if the source knows it."""
        return self.source.usage if isinstance(self.source, ResponseStream) else None

    @property
    def may_have_consumed(self) -> bool:
        """Whether the provider may have worked on the request."""
        return self.source.may_have_consumed if isinstance(self.source, ResponseStream) else True

    @property
    def arrived_at(self) -> float:
        """The arrival time of the chunk with the last event, by `time.perf_counter`."""
        return self.source.arrived_at if isinstance(self.source, ResponseStream) else perf_counter()

    def check_resends(self, check: ResendCheck) -> None:
        """Have the source make a check before it sends the request again."""
        self.resend_check = check

    async def steer(self, waiting: Sequence[UserContent]) -> None:
        """Have the source put what the user says meanwhile into the running response."""
        if isinstance(self.source, ResponseStream):
            await self.source.steer(waiting)

    async def enter_source(self, source: AbstractAsyncContextManager[AsyncIterator[ModelEvent]]) -> None:
        """Enter the other response.

        Args:
            source: The other response.
        """
        self.source = source
        if self.resend_check is not None and isinstance(source, ResponseStream):
            source.check_resends(self.resend_check)
        self.events = await source.__aenter__()

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        assert self.source is not None, "the subclass enters its source"
        return await self.source.__aexit__(exception_type, exception, traceback)

    async def __anext__(self) -> ModelEvent:
        assert self.events is not None
        return await self.events.__anext__()


OpenSource: TypeAlias = Callable[..., AbstractAsyncContextManager[AsyncIterator[ModelEvent]]]
"""Sends a request to its model, or to the model that is given as the only argument."""
