"""Protocols of journals of runs, which the runtime needs and `journal` implements."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Literal, NoReturn, Protocol, TypeVar

from anyio.abc import TaskGroup
from msgspec import Struct

from .actors.ordering import Orders
from .ports import OpenSource
from .types.model import ModelEvent


class AskedQuestion(Struct, frozen=True, kw_only=True):
    """A question to people, as the store shows it.

    Args:
        id: Its id; see `BegunQuestion`.
        kind: Its kind.
        content: Its parts by name, as plain data.
        schema: The JSON schema of the answers; None where there is none.
        ends_at: The time at which it ends without an answer, in seconds since 1970; None for never.
    """

    id: str
    kind: Literal["question", "approval"]
    content: Mapping[str, object]
    schema: Mapping[str, object] | None = None
    ends_at: float | None = None


class GivenVote(Struct, frozen=True, kw_only=True):
    """An answer to a request for approval that was given through the store.

    Args:
        number: Its number among those of the request, from 1.
        voter: The person.
        approves: Whether the person approves.
        reason: The reason, if one was given.
        at: The time, in seconds since 1970.
        is_remembered: Whether an approval counts for equal calls of the run as well.
        role: The role that the request is handed on to; empty for other answers.
    """

    number: int
    voter: str
    approves: bool
    reason: str
    at: float
    is_remembered: bool = False
    role: str = ""


class StoredApproval(Struct, frozen=True, kw_only=True):
    """An approval that counts for equal calls of a run, as the store keeps it.

    Args:
        id: The id of its request.
        content: The parts of the request; see `AskedQuestion`.
        implementation: The digest of what was to run; empty for none.
        votes: The approvals, as plain data.
        ends_at: The time at which it ends, in seconds since 1970; None for never.
    """

    id: str
    content: Mapping[str, Any]
    implementation: str
    votes: Sequence[Mapping[str, Any]]
    ends_at: float | None = None


PeopleAnswer = TypeVar("PeopleAnswer")


class RecordedAnswer(Struct, frozen=True, kw_only=True, eq=False):
    """The recorded answer of an executor.

    Args:
        outcome: The outcome.
        bindings: The values of the write bindings.
        converted: The names of the values that had their types when they were recorded, "return" for the
            value to return. The others are converted as they were then.
    """

    outcome: object
    bindings: Mapping[str, object]
    converted: tuple[str, ...] = ()


class StepInputs(Struct, frozen=True, kw_only=True, eq=False):
    """Everything in a step that could change its answer and that the program gives it.

    Args:
        named: The values that its author names in angle brackets, by names and dotted paths.
        read_names: The names among them that are read bindings.
        unnamed: The other arguments of its function, which the model sees too, and the values of variables
            that the step writes.
        text: The values in its text by the interpolations as written; the whole text of a chosen step, "".
    """

    named: Mapping[str, object]
    read_names: tuple[str, ...] = ()
    unnamed: Mapping[str, object] = {}
    text: Mapping[str, object] = {}


class RunJournal(Protocol):
    """The journal of one run, as the runtime needs it. A place is a path in the run; see `kernel.calls`."""

    @property
    def orders(self) -> Orders:
        """The orders in which the tasks of the run use mailboxes, locks, channels and pools."""
        ...

    @property
    def is_replay(self) -> bool:
        """Whether the run is replayed from its records alone, without effects."""
        ...

    @property
    def identity_version(self) -> int:
        """The version of the digests in places of tasks that were started by hand."""
        ...

    def begin(self, root: str) -> None:
        """Begin a life of the run.

        Args:
            root: The place of the run, which is left out of the places that are recorded.
        """
        ...

    def begin_step(self, place: str, program: str, inputs: StepInputs) -> bytes | None:
        """Begin a step, or compare it with the step that was recorded.

        Args:
            place: The place of the step.
            program: Its program text.
            inputs: Its inputs.

        Returns:
            What `begin_work` is to record; None if the step is recorded.

        Raises:
            InterceptionError: The recorded step is another one, or the run was taken over.
        """
        ...

    def find_answer(self, place: str, types: Mapping[str, object]) -> RecordedAnswer | None:
        """Return the answer of an executor that asked no model through the journal; None for none.

        Args:
            place: The place of the step.
            types: The types of the write bindings.
        """
        ...

    async def deliver_answer(self, place: str) -> None:
        """Wait until the answer that was found for a place may be used.

        Recorded answers are used in the order in which they came.

        Args:
            place: The place of the step.
        """
        ...

    async def deliver_decision(self, place: str) -> None:
        """Wait until a kept decision may be taken again; see `parallel.task_node.Decisions`."""
        ...

    def items_in(self, place: str) -> frozenset[int]:
        """Return the calls of a group that had begun; see `parallel.task_node.Decisions`."""
        ...

    def drive(self, place: str) -> None:
        """Let a call end with its records; see `parallel.task_node.Decisions`."""
        ...

    def close(self, place: str) -> None:
        """Note that calls have ended, in whatever way; see `parallel.task_node.Decisions`."""
        ...

    def keep_answer(
        self, place: str, answer: object, types: Mapping[str, object], converted: Collection[str]
    ) -> None:
        """Record the answer of an executor that asked no model through the journal.

        Args:
            place: The place of the step.
            answer: The outcome and the bindings.
            types: The types of the write bindings.
            converted: The names of the values that have their types already; see `RecordedAnswer`.

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
            open_source: Asks the model, or another one that it is given instead. The model may keep records
                of its own below the place.
        """
        ...

    def find_cached(self, place: str) -> bool | None:
        """Return whether the recorded response of a place came from a response cache.

        Args:
            place: The place of the request.

        Returns:
            None where the journal has no response, so that the model is asked.
        """
        ...

    def has_counted(self, place: str) -> bool:
        """Return whether the recorded response of a place counted in this life, on a worker that was lost.

        Args:
            place: The place of the request.
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

    def note_escalation(self, question_id: str, *, voter: str, role: str, reason: str) -> None:
        """Let the people of a role answer through the store: a request was handed on to it elsewhere."""
        ...

    async def remember_approval(
        self, question_id: str, implementation: str, votes: Sequence[Mapping[str, object]]
    ) -> None:
        """Let an approval count for equal calls of the run, durably, unless it was revoked.

        Args:
            question_id: The request.
            implementation: The digest of what was to run; empty for none.
            votes: The approvals, as plain data.
        """
        ...

    async def find_remembered(self) -> Sequence[StoredApproval]:
        """Return the approvals that count for equal calls of the run."""
        ...

    async def revoke_approval(self, question_id: str, *, voter: str, reason: str) -> None:
        """Let an approval count for no further call, durably.

        Raises:
            NighthawkError: No such approval is remembered.
        """
        ...

    def revoke_approval_soon(self, question_id: str, *, voter: str, reason: str) -> None:
        """Let an approval count for no call that begins from now on; from any thread."""
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

    def open_tasks(self) -> AbstractAsyncContextManager[TaskGroup]:
        """The task group of a run with `park_after`: it ends the run when everything in it waits long enough.

        From then on no effect begins. The run is left with what becomes an error at its end.
        """
        ...

    def call_when_written(self, function: Callable[[], object]) -> None:
        """Call a function when everything that this process has recorded is durable, or cannot be.

        For messages to workers that append to the store themselves: nothing that they record after such a
        message may be durable before.

        Args:
            function: Called here at once, or on another thread.
        """
        ...

    def begins_only(self, place: str, items: Sequence[int]) -> None:
        """Note that only some calls of a combinator are begun; see `parallel.task_node.Decisions`."""
        ...

    def leave(self, place: str, *, is_recorded: bool = False) -> None:
        """Check, at the regular end of a function, that nothing recorded in it is left.

        Args:
            place: Its place.
            is_recorded: Whether its end is recorded, so that tasks that it has started by hand have ended.

        Raises:
            InterceptionError: Something is left: the program has changed.
        """
        ...

    def ended(self, place: str) -> None:
        """Note that a task or some calls have ended regularly; see `parallel.task_node.Decisions`."""
        ...

    def all_ended(self, place: str) -> None:
        """Note that all calls or tasks have ended regularly; see `parallel.task_node.Decisions`."""
        ...

    def miss(self, place: str) -> None:
        """Note that a call which counted is not there; see `parallel.task_node.Decisions`."""
        ...

    def failed(self, place: str, error: Exception) -> None:
        """Note that a function, an item or a task has failed; see `parallel.task_node.Decisions`."""
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

    async def begin_work(self, place: str, step: bytes | None) -> None:
        """Wait until a step may ask a model or an executor, and record it if it is new.

        Args:
            place: The place of the step.
            step: What `begin_step` has returned for it.
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

    def note_counted(self, number: int) -> None:
        """Note that the votes up to a number have counted, and have not decided the request."""
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


class LocatedStores(Protocol):
    """Opens a store for each life of a run, from its path or address."""

    def LocatedStore(self, location: str | os.PathLike[str]) -> RunOpener:  # noqa: N802  (a class of the journal)
        """Return what opens the journals of runs in the store at a path or address.

        Raises:
            ConfigurationError: It is none.
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
