"""Protocols of models and their responses, which the runtime needs and other packages implement.

The step executor protocols use `StepContext`, so they are one floor up, in `runtime.step_executor`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from time import perf_counter
from types import TracebackType
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar, runtime_checkable

from msgspec import Struct

from .types.asked_questions import AskedQuestion, GivenVote
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

ResendCheck: TypeAlias = Callable[[AttemptsSource], bool]
"""Called before a request is sent again, with the attempts so far; returns whether there is room for that.

It raises `BudgetExceededError` when there will be no room even after all requests in progress have ended.
"""


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

    def check_resends(self, check: ResendCheck) -> None:
        """Set a check to make before the request is sent again; called before the stream is entered.

        Args:
            check: The check.
        """


def usage_so_far(stream: object) -> Usage | None:
    """The usage of a request, as far as its stream knows it.

    Args:
        stream: The stream of a model; None when there is none.
    """
    usage = stream.usage if isinstance(stream, ResponseStream) else None
    return None if usage is None else usage.credible()


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


class RunJournal(Protocol):
    """The journal of one run, as the runtime needs it. A place is a path in the run; see `runtime.places`."""

    def begin(self, root: str) -> None:
        """Begin a life of the run.

        Args:
            root: The place of the run, which is left out of the places that are recorded.
        """
        ...

    def begin_step(self, place: str, program: str, inputs: Mapping[str, object]) -> None:
        """Record that a step begins, or compare it with the step that was recorded.

        Args:
            place: The place of the step.
            program: Its program text.
            inputs: The values of its read bindings.

        Raises:
            InterceptionError: The recorded step is another one, or the run was taken over.
        """
        ...

    def find_answer(self, place: str, types: Mapping[str, object]) -> object | None:
        """Return the answer of an executor that asked no model through the journal; None for none.

        Args:
            place: The place of the step.
            types: The types of the write bindings.
        """
        ...

    def keep_answer(self, place: str, answer: object, types: Mapping[str, object]) -> None:
        """Record the answer of an executor that asked no model through the journal.

        Args:
            place: The place of the step.
            answer: The outcome and the bindings.
            types: The types of the write bindings.

        Raises:
            InterceptionError: A value cannot be stored.
        """
        ...

    def respond(
        self,
        place: str,
        model_name: str,
        open_source: OpenSource,
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Return the recorded response of a place, or record the one that the source gives.

        Args:
            place: The place of the request.
            model_name: The model.
            open_source: Asks the model, or another one that it is given instead.
        """
        ...

    def wrap_tool(self, place: str, function: Callable[..., object], call: Callable[[], object]) -> Any:
        """Return the call of a tool that is answered from its record where there is one.

        Args:
            place: The place of the call.
            function: The tool's function.
            call: The call, with its arguments.
        """
        ...

    async def begin_question(self, place: str, content: Mapping[str, object]) -> "BegunQuestion":
        """Record, durably, that people are about to be asked, or compare it with the recorded question.

        Args:
            place: The place of the question.
            content: The parts of the question by name, as plain data.

        Raises:
            InterceptionError: The recorded question is another one, or it cannot be recorded.
        """
        ...

    def find_value(self, place: str, declared: object = None) -> tuple[Any] | None:
        """Return the value that was kept for a place, alone in a tuple; None for none.

        Args:
            place: The place.
            declared: The type of the value; None for plain data.

        Raises:
            Exception: An error was kept for the place, and the program went on after it.
            InterceptionError: The value cannot be read.
        """
        ...

    def keep_value(self, place: str, value: object, declared: object = None) -> Callable[[], Awaitable[None]]:
        """Keep a value for a place that has none.

        Args:
            place: The place.
            value: The value.
            declared: The type of the value; None for plain data.

        Returns:
            The function to wait with until the value is durable.

        Raises:
            InterceptionError: The value cannot be stored.
        """
        ...

    def keep_failure(self, place: str, error: Exception) -> None:
        """Keep the error that a place has ended with in this life; see `find_value`.

        Args:
            place: The place.
            error: The error.
        """
        ...

    async def wait_for_people(
        self,
        place: str,
        asked: AskedQuestion,
        wait: Callable[["GivenAnswers"], Awaitable[PeopleAnswer]],
    ) -> PeopleAnswer:
        """Wait for people, who may answer through the store while no process works on the run.

        Args:
            place: The place of the question.
            asked: The question, as the store shows it.
            wait: Waits for the answer or the decision; it is given what people answer through the store.

        Returns:
            The result of `wait`.

        Raises:
            InterceptionError: The store cannot be used.
        """
        ...

    def enter(self, place: str) -> None:
        """Note that a function or an item has begun; see `parallel.task_node.Decisions`."""
        ...

    def exit(self, place: str) -> None:
        """Note that a function or an item has ended, in whatever way."""
        ...

    def depending(self, place: str) -> AbstractContextManager[None]:
        """Note that a place waits only for other places; see `parallel.task_node.Decisions`."""
        ...

    async def wait_idle(self) -> None:
        """Wait until everything in the run waits for long enough. From then on no effect begins."""
        ...

    def parking_signal(self) -> BaseException | None:
        """Return what leaves a run that is being parked, and becomes an error at its end; None for none."""
        ...

    def leave(self, place: str) -> None:
        """Check, at the regular end of a function, that nothing recorded in it is left.

        Raises:
            InterceptionError: Something is left: the program has changed.
        """
        ...

    def ended(self, place: str) -> None:
        """Note that a task or some calls have ended regularly; see `parallel.task_node.Decisions`."""
        ...

    def raised(self, place: str, to: str | None = None) -> None:
        """Note that errors have been raised in the caller's task; see `parallel.task_node.Decisions`."""
        ...

    def refuse(self, place: str) -> NoReturn:
        """Refuse calls that ended otherwise than in an earlier life; see `parallel.task_node.Decisions`."""
        ...

    def find(self, place: str) -> tuple[int, ...] | None:
        """Return a kept decision; see `parallel.task_node.Decisions`."""
        ...

    def keep(self, place: str, decision: tuple[int, ...], *, is_failure: bool = False) -> None:
        """Keep a decision; see `parallel.task_node.Decisions`."""
        ...

    def count_time(self, place: str) -> float:
        """Count the time of a limit; see `parallel.task_node.Decisions`."""
        ...

    def was_passed(self, place: str) -> bool:
        """Whether an earlier life came further in a place than this one has so far.

        Args:
            place: The place.
        """
        ...

    async def begin_work(self, place: str) -> None:
        """Wait at a step that is new in this life and that an earlier life gave up, until it is cancelled.

        Args:
            place: The place of the step.
        """
        ...

    def note_cancelled(self, place: str) -> None:
        """Record that a call was cancelled in this life, if anything new had begun in it.

        Args:
            place: The place of the function.
        """
        ...


class BegunQuestion(Struct, frozen=True, kw_only=True):
    """A recorded question to people.

    Args:
        id: Its id: the same in every life of the run, and another one for each question.
        begun_at: The time at which it was first asked, in seconds since 1970.
    """

    id: str
    begun_at: float


class GivenAnswers(Protocol):
    """The answers to one question that people give through the store, from any process."""

    async def next_answer(self) -> object:
        """Wait for the answer."""
        ...

    async def find_answer(self) -> tuple[object] | None:
        """Return the answer, alone in a tuple; None while there is none."""
        ...

    async def refuse(self) -> None:
        """Refuse the answer, and let people give another one."""
        ...

    async def claim(self) -> bool:
        """Accept no answer any more, because there is one already; False if one was given before."""
        ...

    async def next_vote(self, after: int) -> GivenVote:
        """Wait for the first vote after a number that has not counted yet."""
        ...

    def note_counted(self, number: int, *, is_pending: bool) -> None:
        """Note that the votes up to a number have counted, and whether the request still is pending."""
        ...


class OpenedJournal(AbstractAsyncContextManager[RunJournal], AbstractContextManager[RunJournal]):
    """The journal of a run, while the run is active: for `async with`, and for `with` in a thread."""


class RunOpener(Protocol):
    """Opens the journals of runs: a store of journals, or the replay of a run."""

    def open_run(self, run_id: str, park_after: float | None = None) -> OpenedJournal:
        """Open the journal of a run for one life of it.

        Args:
            run_id: The run.
            park_after: The seconds after which a run in which everything waits is parked; None for never.

        Raises (on entering):
            InterceptionError: Another process works on the run, or the store cannot be read.
        """
        ...


class JournalStore(RunOpener, Protocol):
    """A store of journals."""

    async def find_values(self, run_id: str, names: Collection[str]) -> Mapping[str, Any]:
        """Return the values that a run has kept for places right below its own, without a life of the run.

        Args:
            run_id: The run.
            names: The last frames of the places.

        Returns:
            The values by name; those that were not kept are missing.

        Raises:
            InterceptionError: The store or a value cannot be read.
        """
        ...
