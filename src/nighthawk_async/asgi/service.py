"""The run of an application, its requests in progress, and the arguments of its middleware.

There is one run for the lifespan of the application. Without a lifespan (a server that does not run it, an
application mounted in another, an HTTP client that calls the application directly), a run lasts from the
first request to the end of the last that is in progress at the same time, so that no run is left open.
"""

import logging
import math
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, nullcontext
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from ..errors import NighthawkError
from ..kernel.run import Run
from ..observe.tree import TaskTree
from ..policies.budgets.budget import Budget
from ..policies.people.default_handler import find_default_handler, using_default_handler
from ..types.json import is_number
from .admission import Admission
from .protocol import AsgiScope
from .work import KeptStreams, Work

if TYPE_CHECKING:
    from .durable_requests import DurableRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Arguments of a middleware.

    Args:
        make_run: Returns a new run.
        request_timeout: The time limit of a request, in seconds; None for no limit.
        request_budget: The budget of each request, by an account of its own; None for no budget.
        grace_seconds: The grace period of requests in progress when the service ends, in seconds.
        retry_after_seconds: The number of seconds after which a refused client may try again.
        client_of: Returns the client of a connection; None when clients are unknown.
        tree: The tree that records; None for the active one.
        durable: Answers the requests with an idempotency key; None without a journal.
    """

    make_run: Callable[[], Run]
    request_timeout: float | None
    request_budget: Budget | None
    grace_seconds: float
    retry_after_seconds: float
    client_of: Callable[[AsgiScope], str | None] | None
    tree: TaskTree | None
    durable: "DurableRequests | None"


def checked_count(value: object, name: str, *, least: int) -> int:
    """Check a number of requests, and return it.

    Args:
        value: The given value.
        name: The name of the argument.
        least: The minimum.

    Raises:
        NighthawkError: It is not an integer, or less than the minimum.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise NighthawkError(f"{name} must be an integer of at least {least}, not {value!r}")
    return value


def checked_seconds(value: object, name: str, *, most: float = math.inf) -> float:
    """Check a number of seconds, and return it.

    Args:
        value: The given value.
        name: The name of the argument.
        most: The maximum.

    Raises:
        NighthawkError: It is not a number, negative, or more than the maximum.
    """
    if not is_number(value) or not 0 <= value <= most:
        bound = "" if most == math.inf else f" of at most {most:,.0f}"
        raise NighthawkError(f"{name} must be a number of seconds{bound}, not {value!r}")
    return float(value)


def checked_budget(value: object) -> Budget | None:
    """Check the budget of a request, and return it.

    Args:
        value: The given value.

    Raises:
        NighthawkError: It is not a budget.
    """
    if value is not None and not isinstance(value, Budget):
        raise NighthawkError(
            f"request_budget must be a budget, made by nighthawk_async.budget, not {value!r}."
        )
    return value


_LOGGER = logging.getLogger("nighthawk")

_CLEANUP_SECONDS = 10.0
"""Time for cancelled requests to clean up."""


class Service:
    """The active run, and the requests in progress.

    Args:
        settings: The arguments of the middleware.
        admission: Admits requests.
    """

    def __init__(self, settings: Settings, admission: Admission) -> None:
        self.settings = settings
        self.admission = admission
        self.streams = KeptStreams()
        self._run: Run | None = None
        self._shared: _SharedRun | None = None
        self._works: dict[Work, None] = {}
        self._all_gone: anyio.Event | None = None

    @property
    def run(self) -> Run | None:
        """The active run; None when there is none."""
        return self._run or (None if self._shared is None else self._shared.run)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        """Serve with one run; requests in progress are cancelled on exit.

        Later requests are served without a lifespan: servers continue when an application fails in its own.
        """
        try:
            with self.recording():
                async with self.settings.make_run() as self._run:
                    try:
                        yield
                    finally:
                        self.admission.close()
                        self._cancel_all()
                        self._run = None
        finally:
            self.admission.open()

    @asynccontextmanager
    async def extent(self) -> AsyncGenerator[Run, None]:
        """Enter the active run, or else begin one."""
        if self._run is not None:
            async with self._run.extent("request"):
                yield self._run
            return
        shared = self._shared = self._shared or _SharedRun(self.settings)
        shared.users += 1
        try:
            async with shared.run.extent("request"):
                yield shared.run
        finally:
            shared.users -= 1
            if not shared.users:
                self._shared = None
                shared.close()

    @contextmanager
    def in_progress(self, work: Work) -> Generator[None, None, None]:
        """Allow the work of a request to be ended with the service.

        Args:
            work: The work.
        """
        self._works[work] = None
        try:
            yield
        finally:
            del self._works[work]
            if not self._works and self._all_gone is not None:
                self._all_gone.set()

    def recording(self) -> AbstractContextManager[object]:
        """Record the body of the `with` statement, if a tree was given."""
        return _recording(self.settings)

    async def drain(self) -> None:
        """Admit no more requests; wait for those in progress, and cancel them after the grace period."""
        self.admission.close()
        await self._wait_until_gone(self.settings.grace_seconds)
        self._cancel_all()
        await self._wait_until_gone(_CLEANUP_SECONDS)
        if self._works:
            _LOGGER.warning("%d requests are still running after they were cancelled", len(self._works))

    def _cancel_all(self) -> None:
        for work in tuple(self._works):
            work.ask_to_end("shut_down")

    async def _wait_until_gone(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while self._works:
                self._all_gone = anyio.Event()
                await self._all_gone.wait()


class _SharedRun:
    """A run for the requests in progress at the same time.

    It is entered in a context of its own, because any request may be the last and leave it.

    Args:
        settings: The arguments of the middleware.
    """

    def __init__(self, settings: Settings) -> None:
        self.users = 0
        self._context = Context()
        default_handler = find_default_handler()
        with ExitStack() as stack:
            self._context.run(stack.enter_context, using_default_handler(default_handler))
            self._context.run(stack.enter_context, _recording(settings))
            self.run: Run = self._context.run(settings.make_run)
            self._context.run(stack.enter_context, self.run)
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Leave it."""
        self._context.run(self._stack.close)


def _recording(settings: Settings) -> AbstractContextManager[object]:
    return nullcontext() if settings.tree is None else settings.tree.recording()
