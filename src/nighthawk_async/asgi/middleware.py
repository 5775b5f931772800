"""`NighthawkMiddleware`: an ASGI application whose requests can call natural functions."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Never, cast

import anyio

from ..errors import NighthawkError
from ..executors.choice import ExecutorChoice
from ..former_names import takes_former
from ..kernel.policy import Policy
from ..kernel.run import Run
from ..kernel.run_state import DEFAULT_MAX_DEPTH, SyncBackend
from ..kernel.tools import ToolSource
from ..lazy_exports import LazyModule
from ..observation import NodeWriter
from ..observe.tree import TaskTree
from ..parallel.outcomes import state_after
from ..policies.arguments import (
    attempt_types,
    budget_types,
    egress_types,
    given_policies,
    hook_types,
    mutation_types,
    oversight_types,
    people_types,
    permission_types,
)
from ..policies.budgets.budget import Budget
from ..runs import run
from ..types.code import CodeLevel, CodeLevelName
from ..types.unset import UNSET, Unset
from .admission import Admission, RefusedError
from .exchange import Outbox
from .problems import (
    MOST_RETRY_AFTER_SECONDS,
    TIMED_OUT,
    Problem,
    find_problem,
    log_problem,
    problem_messages,
)
from .protocol import Application, AsgiScope, Message, Receive, Send, choose_request_id, says_client_left
from .service import Service, Settings, checked_budget, checked_count, checked_seconds
from .serving import Connection, SocketConnection, find_path_template
from .work import ActiveRequest, Work, using_request

if TYPE_CHECKING:
    from ..journal import JournalStore, located
    from ..journal.located import StoreLocation
    from ..skills.skill import SkillSource
    from .durable_requests import DurableRequests
else:
    JournalStore = SkillSource = StoreLocation = object
    located = LazyModule("nighthawk_async.journal.located")

_LOGGER = logging.getLogger("nighthawk")

_NO_LATER = (400, 413, 422)
"""The statuses of refused requests that would be refused again."""


class Lifespan:
    """The lifespan messages between the server and the application.

    Args:
        receive: Receives the next event of the server.
        send: Sends messages to the server.
        stop: Called when the server ends the lifespan, before the application is notified.
    """

    def __init__(self, receive: Receive, send: Send, *, stop: Callable[[], Awaitable[None]]) -> None:
        self._server_receive = receive
        self._server_send = send
        self._stop = stop
        self._app_scope = anyio.CancelScope()
        self._is_asked = False
        self._is_started = False
        self._has_failed = False
        self._is_ending = False
        self._last: Message | None = None

    async def carry_out(self, app: Application, asgi_scope: AsgiScope) -> None:
        """Run the lifespan up to the last message, which is held back.

        Args:
            app: The application.
            asgi_scope: The server's scope of the lifespan.
        """
        try:
            with self._app_scope:
                await app(asgi_scope, self._receive, self._send)
        except Exception as error:
            if self._is_asked:
                raise
            _LOGGER.debug("the application takes no part in its lifespan", exc_info=error)
        if not self._has_failed and self._last is None:
            await self._go_on_alone()

    async def send_last(self) -> None:
        """Report to the server that everything has ended."""
        if self._last is not None:
            await self._server_send(self._last)

    async def _receive(self) -> Message:
        if self._last is not None:  # no further event will come
            self._app_scope.cancel()
            await anyio.sleep_forever()
        self._is_asked = True
        return await self._next_event()

    async def _send(self, message: Message) -> None:
        match message["type"]:
            case "lifespan.shutdown.complete" | "lifespan.shutdown.failed":
                self._last = message
                return
            case "lifespan.startup.complete":
                self._is_started = True
            case "lifespan.startup.failed":
                self._has_failed = True
            case _:
                pass
        await self._server_send(message)

    async def _next_event(self) -> Message:
        message = await self._server_receive()
        if message["type"] == "lifespan.shutdown":
            self._is_ending = True
            await self._stop()
        return message

    async def _go_on_alone(self) -> None:
        if not self._is_asked:
            await self._next_event()
        if not self._is_started:
            await self._server_send({"type": "lifespan.startup.complete"})
        while not self._is_ending:
            await self._next_event()
        self._last = {"type": "lifespan.shutdown.complete"}


class Exchange(Connection):
    """A request and its response.

    Args:
        service: The service of the application.
        asgi_scope: The connection.
        receive: Receives the next message of the server.
        send: Sends messages to the server.
    """

    def __init__(self, service: Service, asgi_scope: AsgiScope, receive: Receive, send: Send) -> None:
        request_id = choose_request_id(asgi_scope)
        self._outbox = outbox = Outbox(send, request_id, start_soon=self._start_soon)
        work = Work({"type": "http.disconnect"}, is_complete=lambda: outbox.is_complete, on_end=outbox.close)
        super().__init__(
            service,
            asgi_scope,
            receive,
            method=asgi_scope["method"],
            request_id=request_id,
            work=work,
        )
        self._time_limit_seconds = service.settings.request_timeout

    async def _answer(self, app: Application, node: NodeWriter | None) -> None:
        error = await self._carry_out(app)
        problem = self._find_problem(error)
        self._report_end(node, problem, error)
        if error is not None and self._says_left(error):
            return  # no client is left to respond to
        if self._work.end_reason == "disconnected":
            if error is not None and problem is None:
                raise error
            return
        if problem is not None and not self._outbox.is_started:
            self._log(problem, error)
            await self._replace(problem)
            return
        await self._outbox.end()
        if error is not None:
            raise error  # so that the server ends the connection, if it has sent something

    def _says_left(self, error: Exception) -> bool:
        """Whether an error says that the client has left, and not that the application had to end.

        One that waits for a body when its time is over is told that its client has left, as ASGI has no other
        message. Its client waits for an answer, though (`test_slow_bodies.py`).
        """
        return error is self._outbox.refusal or (says_client_left(error) and self._work.problem is None)

    async def _replace(self, problem: Problem) -> None:
        """Answer with a problem; a server that cannot send it has no client any more."""
        try:
            await self._outbox.replace(*problem_messages(problem, self._request_id))
        except Exception as error:
            _LOGGER.debug("request %s: its client has left", self._request_id, exc_info=error)

    async def _carry_out(self, app: Application) -> Exception | None:
        """Run the application; return the error that it has raised."""
        request = ActiveRequest(request_id=self._request_id, work=self._work, streams=self._service.streams)
        try:
            with self._work.scope, using_request(request):
                await self._serve(self._find_call(app))
        except Exception as error:  # answered, or raised again
            return error
        return None

    def _find_call(self, app: Application) -> Callable[[], Awaitable[object]]:
        """Return the call that answers: of the application, or for all requests with the same key."""
        durable = self._service.settings.durable
        key = None if durable is None else durable.find_key(self._asgi_scope)
        if durable is None or key is None:
            return lambda: app(self._asgi_scope, self._inbox.receive, self._outbox.send)
        self._asgi_scope = durable.scope_for_app(self._asgi_scope)
        return lambda: durable.serve(
            app,
            self._asgi_scope,
            key=key,
            inbox=self._inbox,
            outbox=self._outbox,
            work=self._work,
        )

    async def _note_disconnect(self) -> None:
        await self._outbox.wait_until_taken()
        self._work.ask_to_end("disconnected")

    def _find_problem(self, error: Exception | None) -> Problem | None:
        """Return the problem for the client; None for no problem, or for an error outside the library."""
        refused = error.problem if isinstance(error, RefusedError) else None
        problem = refused or self._work.problem
        if problem is None:
            return None if error is None else find_problem(error)
        if problem is TIMED_OUT or problem.status in _NO_LATER:
            return problem
        return replace(problem, retry_after_seconds=self._service.settings.retry_after_seconds)

    def _attributes(self) -> Mapping[str, str]:
        return {"http.request.method": self._method, "nighthawk.request.id": self._request_id}

    def _report_end(self, node: NodeWriter | None, problem: Problem | None, error: Exception | None) -> None:
        if node is None:
            return
        is_answered = problem is None or self._outbox.is_started
        attributes: dict[str, str | int | float | bool] = {}
        if is_answered and self._outbox.status is not None:
            attributes["http.response.status_code"] = self._outbox.status
        elif problem is not None and self._work.end_reason != "disconnected":
            attributes["http.response.status_code"] = problem.status
        template = find_path_template(self._asgi_scope)
        if template is not None:
            attributes["http.route"] = template
        node.set_attributes(attributes)
        if self._work.end_reason is not None:
            node.end("failed" if self._work.end_reason == "timed_out" else "cancelled", error=error)
        elif error is not None:
            node.end(state_after(error), error=error)

    def _log(self, problem: Problem, error: Exception | None) -> None:
        if error is not None and not isinstance(error, RefusedError) and not says_client_left(error):
            log_problem(f"request {self._request_id} is answered", problem, error)


class NighthawkMiddleware:
    """ASGI middleware for an application whose requests call natural functions.

        app = NighthawkMiddleware(Starlette(routes=routes), model="provider:name")

    There is one `run` for the lifespan of the application, so that all requests share its connections and its
    knowledge of rate limits, and a `scope` for each request, with the id of the request. Where the server or
    framework sends no lifespan events, requests that are in progress at the same time share a run.

    A request ends when its client leaves, also before the response has begun, and its usage until then
    counts. When the service ends, no more requests are admitted, and those in progress have a grace period.
    Errors of the library that the application does not handle become an `application/problem+json` response
    (see `find_problem`), as long as nothing was sent.

    It needs nothing but ASGI, works on Trio and on asyncio, and belongs to one event loop at a time.

    Args:
        app: The application.
        model: The model of the steps, as for `nighthawk_async.run`.
        max_concurrent_requests: The maximum number of requests and WebSockets in progress at once; None for
            no limit. Further ones wait and are admitted in the order in which they came.
        max_queued_requests: The maximum number that waits. Beyond it the response is 503, before the
            application is called.
        max_requests_per_client: The maximum number of one client in progress and waiting; None for no limit.
            Beyond it the response is 429. It needs `client_of`.
        client_of: Returns the client of an ASGI connection, or None when it is unknown: a key, a user, an
            address. With it, waiting requests are admitted one of each client in turn, and when all slots are
            taken, the client with the most of them loses its newest to one with fewer.
        request_timeout: The time limit of a request from its arrival to the end of its response, in
            seconds; None for no limit. After it the response is 504, or the connection is ended. WebSockets
            have no limit.
        request_budget: The budget of each request, by an account of its own.
        grace_seconds: The grace period of requests in progress when the service ends, in seconds. Then they
            are cancelled.
        retry_after_seconds: The value of `Retry-After` when the service is busy; a day at most.
        sync_backend: The same as for `nighthawk_async.run`, like those that follow.
        max_concurrent_steps: The same.
        max_depth: The same.
        budget: The budget of the whole service: of all requests together, as for `nighthawk_async.run`.
        tree: A task tree of `nighthawk_async.observe`, which records each request as a top-level node; None
            for the tree that is active where the requests are served.
        journal: The store (its path, its address, or what `nighthawk_async.journal.open` has made) in which
            each request with the header `Idempotency-Key` is a run of its own: sent again, it gets the
            recorded response, or continues. Keys belong to a client: that of `client_of`, else the one with
            the same credentials, cookies and certificate. None ignores the header.
        tools: The same as for `nighthawk_async.run`.
        skills: The same as for `nighthawk_async.run`.
        hooks: The same as for `nighthawk_async.run`, like those that follow. Without a lifespan, the hooks of
            the run's own beginning and end must be `def`.
        oversight: The same.
        verify: The same.
        human: The same.
        permissions: The same.
        egress: The same.
        step_budget: The same.
        resilience: The same.
        concurrent_mutation: The same.
        code: The same.
        policies: The same.
        unknown: Any other argument is refused.

    Raises:
        NighthawkError: An argument has a bad value.
        ConfigurationError: A fallback model is not available.

    Source: https://asgi.readthedocs.io/en/latest/specs/
    """

    @takes_former(executor="model", request_timeout_seconds="request_timeout", run_budget="budget")
    def __init__(
        self,
        app: Application,
        *,
        model: ExecutorChoice,
        max_concurrent_requests: int | None = None,
        max_queued_requests: int = 100,
        max_requests_per_client: int | None = None,
        client_of: Callable[[AsgiScope], str | None] | None = None,
        request_timeout: float | None = None,
        request_budget: Budget | None = None,
        grace_seconds: float = 10.0,
        retry_after_seconds: float = 1.0,
        sync_backend: SyncBackend = "trio",
        max_concurrent_steps: int | None = None,
        max_depth: int = DEFAULT_MAX_DEPTH,
        budget: Budget | None = None,
        tree: TaskTree | None = None,
        journal: "JournalStore | StoreLocation | None" = None,
        tools: Sequence[ToolSource] | None = None,
        skills: "SkillSource | None" = None,
        hooks: "hook_types.Hooks | Sequence[hook_types.Hooks] | Unset | None" = UNSET,
        oversight: "oversight_types.Oversight | Unset | None" = UNSET,
        verify: "oversight_types.Verify | Unset | None" = UNSET,
        human: "people_types.HumanHandler | Unset | None" = UNSET,
        permissions: "permission_types.Permissions | Unset | None" = UNSET,
        egress: "egress_types.Egress | Unset | None" = UNSET,
        step_budget: "budget_types.Budget | Unset | None" = UNSET,
        resilience: "attempt_types.StepBaseline | Unset | None" = UNSET,
        concurrent_mutation: "mutation_types.ConcurrentMutation | Unset" = UNSET,
        code: "CodeLevelName | CodeLevel | Unset" = UNSET,
        policies: "Policy | Sequence[Policy] | Unset | None" = UNSET,
        **unknown: Never,
    ) -> None:
        if max_requests_per_client is not None and client_of is None:
            raise NighthawkError("max_requests_per_client needs client_of, which identifies the client")

        given = given_policies(
            unknown,
            hooks=hooks,
            oversight=oversight,
            verify=verify,
            human=human,
            permissions=permissions,
            egress=egress,
            budget=budget,
            step_budget=step_budget,
            resilience=resilience,
            concurrent_mutation=concurrent_mutation,
            code=code,
            policies=policies,
        )

        def make_run() -> Run:
            return run(
                model,
                sync_backend=sync_backend,
                max_concurrent_steps=max_concurrent_steps,
                max_depth=max_depth,
                tools=tools,
                skills=skills,
                **cast("Any", given),  # nothing else is in it
            )

        make_run()  # so that bad arguments raise here
        self._app = app
        settings = Settings(
            make_run=make_run,
            request_timeout=_seconds_or_none(request_timeout, "request_timeout"),
            request_budget=checked_budget(request_budget),
            grace_seconds=checked_seconds(grace_seconds, "grace_seconds"),
            retry_after_seconds=_retry_after_seconds(retry_after_seconds),
            client_of=client_of,
            tree=tree,
            durable=None if journal is None else _durable_requests(journal, client_of),
        )
        admission = Admission(
            max_concurrent=_count_or_none(max_concurrent_requests, "max_concurrent_requests"),
            max_queued=checked_count(max_queued_requests, "max_queued_requests", least=0),
            max_per_client=_count_or_none(max_requests_per_client, "max_requests_per_client"),
        )
        self._service = Service(settings, admission)

    @property
    def run(self) -> Run | None:
        """The active run, with its id and its usage; None when there is none."""
        return self._service.run

    @property
    def tree(self) -> TaskTree | None:
        """The task tree that was given to record the requests; None when none was."""
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
        """Serve a connection, or run the lifespan.

        Args:
            scope: The scope of ASGI: the connection, or the lifespan.
            receive: Receives the next event of the server.
            send: Sends events to the server.

        Raises:
            Exception: An error of the application, unless it was reported to the client.
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


def _durable_requests(
    store: "JournalStore | StoreLocation", client_of: Callable[[AsgiScope], str | None] | None
) -> "DurableRequests":
    from .durable_requests import DurableRequests  # here, because many services have no journal

    return DurableRequests(located.store_at(store), client_of)


def _count_or_none(value: object, name: str) -> int | None:
    return None if value is None else checked_count(value, name, least=1)


def _seconds_or_none(value: object, name: str) -> float | None:
    return None if value is None else checked_seconds(value, name)


def _retry_after_seconds(value: object) -> float:
    return checked_seconds(value, "retry_after_seconds", most=MOST_RETRY_AFTER_SECONDS)
