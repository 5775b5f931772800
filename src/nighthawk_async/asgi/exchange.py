"""One HTTP request: carried out, ended before its time when need be, and answered."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from ..observation import NodeWriter
from ..parallel.endings import state_after
from .admission import RefusedError
from .outbox import Outbox
from .problem_log import log_problem
from .problems import TIMED_OUT, Problem, find_problem, problem_messages
from .protocol import Application, AsgiScope, Receive, Send, says_client_left
from .request_ids import choose_request_id
from .request_in_force import RequestInForce, using_request
from .service import Service
from .serving import Connection, find_path_template
from .work import Work

__all__ = ["Exchange"]


class Exchange(Connection):
    """A request and its response.

    Args:
        service: What the application serves with.
        asgi_scope: The connection.
        receive: Gives the next message of the server.
        send: Takes the messages for the server.
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
        self._time_limit_seconds = service.settings.request_timeout_seconds

    async def _answer(self, app: Application, node: NodeWriter | None) -> None:
        error = await self._carry_out(app)
        problem = self._find_problem(error)
        self._tell_watchers(node, problem, error)
        if error is not None and (says_client_left(error) or error is self._outbox.refusal):
            return  # nobody is there to be told
        if self._work.end_reason == "disconnected":
            if error is not None and problem is None:
                raise error
            return
        if problem is not None and not self._outbox.is_started:
            self._log(problem, error)
            await self._outbox.replace(*problem_messages(problem, self._request_id))
            return
        await self._outbox.end()
        if error is not None:
            raise error  # so that the server ends the connection, if it has sent something

    async def _carry_out(self, app: Application) -> Exception | None:
        """Let the application do its work; what it has raised."""
        call = partial(app, self._asgi_scope, self._inbox.receive, self._outbox.send)
        request = RequestInForce(request_id=self._request_id, work=self._work, streams=self._service.streams)
        try:
            with self._work.scope, using_request(request):
                await self._serve(call)
        except Exception as error:  # answered, or raised again
            return error
        return None

    async def _note_disconnect(self) -> None:
        await self._outbox.wait_until_taken()
        self._work.ask_to_end("disconnected")

    def _find_problem(self, error: Exception | None) -> Problem | None:
        """Return the problem for the client; None when there is none, or none of the library's own."""
        refused = error.problem if isinstance(error, RefusedError) else None
        problem = refused or self._work.problem
        if problem is None:
            return None if error is None else find_problem(error)
        if problem is TIMED_OUT:
            return problem
        return replace(problem, retry_after_seconds=self._service.settings.retry_after_seconds)

    def _attributes(self) -> Mapping[str, str]:
        return {"http.request.method": self._method, "nighthawk.request.id": self._request_id}

    def _tell_watchers(
        self, node: NodeWriter | None, problem: Problem | None, error: Exception | None
    ) -> None:
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
        if error is not None and not isinstance(error, RefusedError):
            log_problem(f"request {self._request_id} is answered", problem, error)
