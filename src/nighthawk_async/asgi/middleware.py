"""`NighthawkMiddleware`: an ASGI application whose requests can call natural functions."""

from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

from ..errors import NighthawkError
from ..observe.tree import TaskTree
from ..policies.arguments import CommonPolicyArguments
from ..policies.budgets.budget import Budget
from ..runs import run
from ..runtime.nesting import DEFAULT_MAX_DEPTH
from ..runtime.run import Run
from ..runtime.run_state import SyncBackend
from ..runtime.step_executor import StepExecutor
from .admission import Admission
from .exchange import Exchange
from .lifespan import Lifespan
from .problems import MOST_RETRY_AFTER_SECONDS
from .protocol import Application, AsgiScope, Receive, Send
from .service import Service
from .settings import Settings, checked_budget, checked_count, checked_seconds
from .socket_connection import SocketConnection

__all__ = ["NighthawkMiddleware"]


class NighthawkMiddleware:
    """An ASGI application around another, whose requests can call natural functions.

        app = NighthawkMiddleware(Starlette(routes=routes), executor=executor, max_concurrent_requests=50)

    There is one `run` for the lifespan of the application, so that all requests share its connections and
    what it has learned of rate limits, and a `scope` for each request, with the id of the request. A server
    or framework that tells of no lifespan gives a run to the requests that are in progress at the same time.

    A request ends when its client leaves, before the response has begun too, and what it has used until then
    counts. When the service ends, nobody is let in any more, and the requests in progress have a grace. What
    the library raises and the application lets out becomes an `application/problem+json` response
    (`find_problem` says which), as long as nothing was sent.

    It waits for nothing but ASGI, works on Trio and on asyncio, and belongs to one event loop at a time.

    Args:
        app: The application.
        executor: What carries the steps out.
        max_concurrent_requests: How many requests and WebSockets may be in progress at once; None for any
            number. Further ones wait and are let in in the order in which they came.
        max_queued_requests: How many may wait. Beyond it the answer is 503, before the application is asked.
        max_requests_per_client: How many of one client may be in progress and waiting; None for any number.
            Beyond it the answer is 429. It needs `client_of`.
        client_of: Gives the client of an ASGI connection, or None for nobody knows: a key, a user, an
            address. With it those who wait are let in one of each client in turn, and when all places are
            taken, the client with the most of them gives its newest up for one with fewer.
        request_timeout_seconds: How many seconds a request has from its arrival to the end of its response;
            None for any number. Then the answer is 504, or the connection is ended. WebSockets have any
            number.
        budget: What each request may spend, by an account of its own.
        grace_seconds: How many seconds requests in progress have when the service ends. Then they are
            cancelled.
        retry_after_seconds: What `Retry-After` says when the service is busy; a day at most.
        sync_backend: As `nighthawk_async.run` takes it, like those that follow.
        max_concurrent_steps: The same.
        max_depth: The same.
        run_budget: What all requests may spend together; what `nighthawk_async.run` takes as `budget`.
        tree: A task tree of `nighthawk_async.observe`, which records the requests, each as a root; None for
            what records where the requests are served anyway.
        policies: As `nighthawk_async.run` takes them, without the budget. Without a lifespan, the hooks of
            the run's own beginning and end must be `def`.

    Raises:
        NighthawkError: An argument has a bad value.
        ConfigurationError: A model to fall back to cannot be had.

    Source: https://asgi.readthedocs.io/en/latest/specs/
    """

    def __init__(
        self,
        app: Application,
        *,
        executor: StepExecutor,
        max_concurrent_requests: int | None = None,
        max_queued_requests: int = 100,
        max_requests_per_client: int | None = None,
        client_of: Callable[[AsgiScope], str | None] | None = None,
        request_timeout_seconds: float | None = None,
        budget: Budget | None = None,
        grace_seconds: float = 10.0,
        retry_after_seconds: float = 1.0,
        sync_backend: SyncBackend = "trio",
        max_concurrent_steps: int | None = None,
        max_depth: int = DEFAULT_MAX_DEPTH,
        run_budget: Budget | None = None,
        tree: TaskTree | None = None,
        **policies: Unpack[CommonPolicyArguments],
    ) -> None:
        if max_requests_per_client is not None and client_of is None:
            raise NighthawkError("max_requests_per_client needs client_of, which says whose a request is")
        make_run = partial(
            run,
            executor,
            sync_backend=sync_backend,
            max_concurrent_steps=max_concurrent_steps,
            max_depth=max_depth,
            budget=run_budget,
            **policies,
        )
        make_run()  # so that bad arguments are refused here
        self._app = app
        settings = Settings(
            make_run=make_run,
            request_timeout_seconds=_seconds_or_none(request_timeout_seconds, "request_timeout_seconds"),
            budget=checked_budget(budget),
            grace_seconds=checked_seconds(grace_seconds, "grace_seconds"),
            retry_after_seconds=_retry_after_seconds(retry_after_seconds),
            client_of=client_of,
            tree=tree,
        )
        admission = Admission(
            max_concurrent=_count_or_none(max_concurrent_requests, "max_concurrent_requests"),
            max_queued=checked_count(max_queued_requests, "max_queued_requests", least=0),
            max_per_client=_count_or_none(max_requests_per_client, "max_requests_per_client"),
        )
        self._service = Service(settings, admission)

    @property
    def run(self) -> Run | None:
        """The run in force, with its id and its usage; None when there is none at present."""
        return self._service.run

    @property
    def tree(self) -> TaskTree | None:
        """The task tree that records the requests, as it was given; None when none was."""
        return self._service.settings.tree

    @property
    def requests_in_progress(self) -> int:
        """The number of requests and WebSockets in progress."""
        return self._service.admission.in_progress

    @property
    def requests_waiting(self) -> int:
        """The number of requests that wait for admission."""
        return self._service.admission.queued

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve a connection, or go through the lifespan.

        Args:
            scope: What ASGI calls a scope: the connection, or the lifespan.
            receive: Gives the next event of the server.
            send: Takes the events for the server.

        Raises:
            Exception: What the application raises, unless the client could be told of it.
        """
        match scope["type"]:
            case "http":
                await Exchange(self._service, scope, receive, send).carry_out(self._app)
            case "websocket":
                await SocketConnection(self._service, scope, receive, send).carry_out(self._app)
            case "lifespan":
                lifespan = Lifespan(receive, send, stop=self._service.drain)
                async with self._service.lifespan():
                    await lifespan.carry_out(self._app, scope)
                await lifespan.send_last()
            case _:
                await self._app(scope, receive, send)


def _count_or_none(value: object, name: str) -> int | None:
    return None if value is None else checked_count(value, name, least=1)


def _seconds_or_none(value: object, name: str) -> float | None:
    return None if value is None else checked_seconds(value, name)


def _retry_after_seconds(value: object) -> float:
    return checked_seconds(value, "retry_after_seconds", most=MOST_RETRY_AFTER_SECONDS)
