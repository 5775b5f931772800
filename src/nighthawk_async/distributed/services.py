"""Services of the program for calls on workers, and their counterparts there.

What must not be divided among workers stays in the program: budgets, the live tree, questions to people. A
service has a topic, a part in the program for each placement of a call, and a counterpart on the worker that
changes the environment of the call. Both are made only where the caller's scope needs them.

A small service is one file. A large one is two or three: `x_service` in the program, `x_counterpart` on
workers, and `x_messages` between them.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import cache
from importlib import import_module
from typing import Any, Protocol, TypeAlias

from ..kernel.environment import Environment
from .counting import Counted, Counting
from .worker_store import WorkerStore


class ProgramPart:
    """The part of a service in the program, for one placement of a call. It runs in the caller's context.

    Attributes:
        counted: What has counted for the call, over all placements.
    """

    counted: Counted

    def note_writer(self, writer: str) -> None:
        """Note that the worker can append to a journal itself; called before `setup`.

        Args:
            writer: Its name as a writer, which it has made up; see `journal.writer_table`.
        """

    def setup(self) -> bytes:
        """Return what the counterpart is made from."""
        return b""

    async def answer(self, body: bytes) -> bytes:
        """Answer a question of the counterpart. Cancelled when the asking code is, or the call has ended.

        Args:
            body: The question.

        Raises:
            Exception: The error to raise there.
        """
        raise NotImplementedError(f"{type(self).__name__} takes reports, and no questions")

    def note(self, body: bytes) -> None:
        """Take a report of the counterpart.

        Args:
            body: The report.
        """
        raise NotImplementedError(f"{type(self).__name__} takes questions, and no reports")

    def note_lost(self, reason: str) -> None:
        """Note that the worker was lost; called before `end`.

        Args:
            reason: How it ended.
        """

    def end(self, *, is_lost: bool) -> None:
        """Note the end of the placement, before the result of the call is given to anyone.

        Args:
            is_lost: Whether its worker was lost, so that what the counterpart did is unknown.
        """


class CallChannel(Protocol):
    """The way from a call on a worker to the program's parts of services."""

    @property
    def worker(self) -> str:
        """The name of the worker."""
        ...

    @property
    def attempt(self) -> int:
        """The number of times that the call was placed before."""
        ...

    @property
    def counting(self) -> Counting:
        """Decides what counts for the call."""
        ...

    async def ask(self, topic: str, body: bytes) -> bytes:
        """Ask the program's part of a service, and return its answer.

        Raises:
            Exception: The error that it raised.
        """
        ...

    def tell(self, topic: str, body: bytes) -> None:
        """Report to the program's part of a service, without an answer, in order. From any thread."""
        ...

    def tell_soon(self, topic: str, take: Callable[[], bytes]) -> None:
        """Report with the next message, or after a short time in which more may come. From any thread.

        Args:
            topic: The service.
            take: Makes the report; called once, on the event loop, also after the call has ended.
        """
        ...

    def start_soon(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a task in the context of the caller; it is cancelled with the worker, not with the call."""
        ...

    @property
    def blocks_loop(self) -> bool:
        """Whether synchronous code of the caller blocks the event loop of the worker while it waits."""
        ...

    @property
    def exchanges_blocked(self) -> bool:
        """Whether the worker can exchange messages while its event loop is blocked."""
        ...

    def exchange_until(self, is_done: Callable[[], bool]) -> None:
        """Exchange messages until a condition holds, while the caller blocks the event loop.

        Args:
            is_done: The condition, which messages of the program change.

        Raises:
            BrokenResourceError: The program has ended.
            EndOfStream: The program has ended.
        """
        ...

    @property
    def store(self) -> WorkerStore | None:
        """The store that the worker can append to itself; None without one."""
        ...

    @property
    def charges(self) -> int:
        """The number of reports of what the call has consumed, for budgets and usage."""
        ...

    @property
    def is_withdrawn(self) -> bool:
        """Whether the program has cancelled the call, or its deadline has."""
        ...

    def before_questions(self, wait: Callable[[], Awaitable[None]]) -> None:
        """Have each later question of the call wait for something first."""
        ...

    def on_order(self, topic: str, take: Callable[[bytes], None]) -> None:
        """Have a function take the orders of the program's part of a service, on the event loop."""
        ...


SendOrder: TypeAlias = Callable[[bytes], None]
"""Sends an order to the counterpart of a service, in order."""

BeginService: TypeAlias = Callable[[Environment | None, str, int, SendOrder], ProgramPart | None]
"""Begins a service for one placement of a call, in the caller's context.

It is given the caller's environment, the name of the worker, the number of times that the call was placed
before, and the way to its counterpart. None where the scope does not need it.
"""

EnteredService: TypeAlias = (
    AbstractContextManager[Environment | None] | AbstractAsyncContextManager[Environment | None]
)

EnterService: TypeAlias = Callable[[CallChannel, bytes, Environment | None], EnteredService]
"""Enters the counterpart for a call on a worker: it is given the setup and the environment so far, and gives
the environment of the call."""

SERVICES: Mapping[str, tuple[str, str]] = {
    "usage": ("usage", "usage"),
    "budgets": ("budget_service", "budget_counterpart"),
    "pacing": ("pacing_service", "pacing_counterpart"),
    "limits": ("limit_service", "limit_counterpart"),
    "tree": ("live_tree", "live_tree"),
    "task": ("task_control", "task_control"),
    "people": ("people", "people"),
    "hooks": ("hook_calls", "hook_calls"),
    "partials": ("partial_values", "partial_values"),
    "names": ("name_service", "name_counterpart"),
    "steps": ("step_slots", "step_slots"),
    "journal": ("journal_service", "journal_counterpart"),
}
"""For each topic, the module below `distributed` with the function `begin`, and the one with `enter`.

In the order in which they are entered on workers.
"""


CHARGES = frozenset({"usage", "budgets"})
"""The topics whose reports say what a call has consumed."""


def begin_services(
    environment: Environment | None,
    counted: Counted,
    worker: str,
    attempt: int,
    send: Callable[[str, bytes], None],
) -> dict[str, ProgramPart]:
    """Begin the services that a scope needs, for one placement of a call.

    Args:
        environment: The environment of the caller.
        counted: What has counted for the call.
        worker: The name of the worker.
        attempt: The number of times that the call was placed before.
        send: Sends an order to the counterpart of a topic.
    """
    parts: dict[str, ProgramPart] = {}
    for topic, (module, _) in SERVICES.items():
        begin: BeginService = _loaded(module).begin

        def send_order(body: bytes, topic: str = topic) -> None:
            send(topic, body)

        part = begin(environment, worker, attempt, send_order)
        if part is not None:
            part.counted = counted
            parts[topic] = part
    return parts


def enter_functions(topics: Sequence[str]) -> list[tuple[str, EnterService]]:
    """Return the functions that enter the counterparts of topics, in order."""
    return [(topic, _loaded(module).enter) for topic, (_, module) in SERVICES.items() if topic in topics]


@cache
def _loaded(module: str) -> Any:
    """Return a module of a service. Every call asks for several."""
    return import_module(f"{__package__}.{module}")
