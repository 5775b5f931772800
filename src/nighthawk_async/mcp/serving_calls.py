"""Calls of served functions: each a task in the run of the server, with limits, progress and questions."""

import json
import uuid
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ..actors import BareTaskGroup
from ..asgi.admission import RefusedError
from ..asgi.event_stream_live import count_progress, reported_progress
from ..asgi.exchange import Inbox
from ..asgi.problems import CANCELLED, SHUTTING_DOWN, TIMED_OUT, Problem
from ..asgi.protocol import Application, AsgiScope, Message, Receive, Send, choose_request_id
from ..asgi.service import Service
from ..asgi.work import Work
from ..errors import NoHumanError, ToolBoundaryError
from ..kernel.tool_calls import excess_of
from ..observation import NodeWriter, observed
from ..observe.node_words import progress_text
from ..observe.tree import TaskTree, find_node_id, find_tree
from ..observe.views import NodeView
from ..parallel.task_current import find_node
from ..policies.people.policy import find_human_handler
from ..scopes import Scope, scope
from .json_data import characters
from .serving_questions import ClientPeople, Elicit, Rounds
from .serving_results import checked_result, failure_of, failure_text, problem_text
from .serving_tools import ServedTool

SendProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]
"""Sends the progress, the total if it is known, and a message."""

_MIN_INTERVAL_SECONDS = 0.1

_WORDS = {
    "function": "",
    "step": "step ",
    "model_request": "waiting for the model",
    "tool_call": "tool ",
    "question": "waiting for an answer",
    "group": "",
    "task": "",
}
"""The beginning of the message of each kind of node; kinds with a whole message are shown without a name."""

_NAMELESS = ("model_request", "question")


async def report_progress(tree: TaskTree, node_id: str, send: SendProgress) -> None:
    """Send the progress of a node until it ends.

    Args:
        tree: The tree that records it.
        node_id: The id of the node.
        send: Sends it.
    """
    progress = GrowingProgress()
    async with tree.watch(node_id, min_interval=_MIN_INTERVAL_SECONDS) as changes:
        async for view in changes:
            step = progress.next(view)
            if step is not None:
                progress_so_far, total, message = step
                await send(progress_so_far, total, None if message is None else characters(message))


class GrowingProgress:
    """Progress whose value grows with each report, as the protocol demands.

    Units of work that have ended count as one each: steps, and the calls of `parallel.map` and its siblings.
    Where there is one unit or none, the numbers of `nighthawk_async.progress` count instead. A report in
    between, of what goes on, counts as a part of the next unit.
    """

    def __init__(self) -> None:
        self._done = 0.0
        self._reports = 0
        self._message: str | None = None

    def next(self, view: NodeView) -> tuple[float, float | None, str | None] | None:
        """Return the progress, the total and a message; None when nothing new is to be said.

        Args:
            view: The newest view of the call.
        """
        counts, reported = count_progress(view), reported_progress(view)
        done, of_all = float(counts.done), float(counts.total)
        if counts.total <= 1 and isinstance(given := reported.get("done"), int | float):
            known = reported.get("total")
            done, of_all = float(given), float(known) if isinstance(known, int | float) else 0.0
        message = describe_activity(view)
        if done > self._done:
            self._done, self._reports = done, 0
        elif message is None or message == self._message:
            return None
        else:
            self._reports += 1
        self._message = message
        value = self._done + self._reports / (self._reports + 1)
        return value, of_all if of_all > 1 and of_all >= value else None, message


def describe_activity(view: NodeView) -> str | None:
    """Return what goes on in a call: the names of its newest activity and those around it; None for nothing.

    Transcripts and values are left out: they quote models and errors, which are not for clients.

    Args:
        view: The view of the call.
    """
    path: list[str] = []
    if reported := progress_text(view):
        path.append(reported)
    node = _newest_running(view.children)
    while node is not None:
        words = _describe(node)
        if words and (not path or path[-1] != words):
            path.append(words)
        node = _newest_running(node.children)
    return ", ".join(path) or None


def _newest_running(nodes: Iterable[NodeView]) -> NodeView | None:
    return next((node for node in reversed(tuple(nodes)) if not node.is_ended), None)


def _describe(node: NodeView) -> str:
    words = _WORDS.get(node.kind)
    if words is None:
        return ""
    named = words if node.kind in _NAMELESS else f"{words}{node.name}"
    reported = progress_text(node)
    return f"{named}: {reported}" if reported else named


_KEY = "nighthawk_async.mcp.request"
_DISCONNECT: Message = {"type": "http.disconnect"}


class HttpRequest:
    """A request of a client, and its response.

    Args:
        asgi_scope: The connection.
        receive: Receives the next message of the server.
        send: Sends messages to the server.
    """

    def __init__(self, asgi_scope: AsgiScope, receive: Receive, send: Send) -> None:
        self.asgi_scope = asgi_scope
        self.id = choose_request_id(asgi_scope)
        self._server_send = send
        self._inbox = Inbox(asgi_scope, receive, on_disconnect=self._end_calls)
        self._works: set[Work] = set()
        self._is_started = False
        self._is_complete = False
        self._has_left = False

    @property
    def is_listening(self) -> bool:
        """Whether it is no call but a stream of messages, which ends only when somebody ends it."""
        return self.asgi_scope["method"] == "GET"

    async def carry_out(self, app: Application) -> None:
        """Let an application answer it.

        Args:
            app: The application.
        """
        async with BareTaskGroup() as helpers:
            helpers.start_soon(self._inbox.read_ahead)
            try:
                await app({**self.asgi_scope, _KEY: self}, self._inbox.receive, self._send)
                if self._is_started and not self._is_complete:
                    await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                helpers.cancel_scope.cancel()
                self._end_works()  # nobody gets their results any more

    @contextmanager
    def making(self, work: Work) -> Generator[None, None, None]:
        """End a call when the client leaves during the `with` statement.

        Args:
            work: The call.
        """
        if self._has_left:
            work.ask_to_end("disconnected")
        self._works.add(work)
        try:
            yield
        finally:
            self._works.discard(work)

    def end(self) -> None:
        """Let the application end the response."""
        self._inbox.end(_DISCONNECT)

    async def _end_calls(self) -> None:
        self._has_left = True
        self._end_works()

    def _end_works(self) -> None:
        for work in tuple(self._works):
            work.ask_to_end("disconnected")

    async def _send(self, message: Message) -> None:
        self._is_started = True
        is_body = message["type"] == "http.response.body"
        self._is_complete = is_body and not message.get("more_body", False)
        await self._server_send(message)


def find_http_request(request: Any) -> HttpRequest | None:
    """Return the HTTP request that brought a message; None for another transport.

    Args:
        request: The request as the package `mcp` hands it on; None for another transport.
    """
    asgi_scope: Mapping[str, Any] = getattr(request, "scope", None) or {}
    return asgi_scope.get(_KEY)


if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.types import CallToolRequestParams

    Context: TypeAlias = ServerRequestContext[Any, Any]
else:
    Context = CallToolRequestParams = object


class ServedCalls:
    """Answers the requests for tools and their calls.

    Args:
        tools: The tools by name.
        service: The run, and the calls in progress.
        max_argument_bytes: The maximum size of the arguments of a call.
    """

    def __init__(self, tools: Mapping[str, ServedTool], service: Service, *, max_argument_bytes: int) -> None:
        self._tools = tools
        self._service = service
        self._max_argument_bytes = max_argument_bytes
        self.rounds: Rounds | None = None
        """The calls that continue over several requests; None while nothing is served."""

    def find_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the JSON Schema of a tool's arguments; None for an unknown tool."""
        tool = self._tools.get(name)
        return None if tool is None else tool.definition["inputSchema"]

    async def list_tools(self, context: Context, params: object) -> dict[str, Any]:
        """Return the tools."""
        return {"resultType": "complete", "tools": [tool.definition for tool in self._tools.values()]}

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> dict[str, Any]:
        """Call a tool; return its result, its failure, or its questions to the person at the client.

        Raises:
            MCPError: There is no such tool.
        """
        from mcp.shared.exceptions import MCPError
        from mcp.types import INVALID_PARAMS
        from mcp.types.version import MODERN_PROTOCOL_VERSIONS

        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        rounds = self.rounds
        if params.request_state is not None and rounds is not None:
            answers = {key: _as_json(each) for key, each in (params.input_responses or {}).items()}
            return await rounds.continue_with(params.name, params.request_state, answers)
        is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        call = _Call(self, tool, params.arguments or {}, context, ends_with_request=not is_modern)
        if not _takes_forms(context):
            return await call.carry_out(None)
        if context.session.can_send_request:
            return await call.carry_out(lambda message, schema: _elicit(context, message, schema))
        if is_modern and rounds is not None:
            return await rounds.begin(params.name, call.carry_out)
        return await call.carry_out(None)

    @property
    def service(self) -> Service:
        """The run, and the calls in progress."""
        return self._service

    def text_of(self, tool: ServedTool, arguments: Mapping[str, Any]) -> str:
        """Return arguments as JSON.

        Raises:
            ToolBoundaryError: They are too large.
        """
        text = json.dumps(arguments, ensure_ascii=False)
        excess = excess_of(text, self._max_argument_bytes)
        if excess is None:
            return text
        raise ToolBoundaryError(
            kind="invalid_input",
            message=f"the arguments of {tool.tool.name} {excess}",
            guidance="Make the call smaller, or split it.",
        )


def _as_json(value: Any) -> Any:
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


def _takes_forms(context: Context) -> bool:
    """Whether the client can show forms to a person."""
    capabilities = context.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


async def _elicit(context: Context, message: str, schema: dict[str, Any]) -> Mapping[str, Any]:
    """Send a form to the client while the call is in progress, as before version 2026-07-28."""
    from mcp.shared.exceptions import MCPError

    try:
        answer = await context.session.elicit_form(message, schema, context.request_id)
    except MCPError as error:
        raise NoHumanError("The client did not ask its person.") from error
    return _as_json(answer)


class _Call:
    """One call.

    Args:
        calls: The calls of the server.
        tool: The tool.
        arguments: The arguments, as JSON values.
        context: The request.
        ends_with_request: Whether the end of its HTTP request must be noticed here. Before version
            2026-07-28, calls run in a task of the session; since then, in that of the request.
    """

    def __init__(
        self,
        calls: ServedCalls,
        tool: ServedTool,
        arguments: Mapping[str, Any],
        context: Context,
        *,
        ends_with_request: bool,
    ) -> None:
        self._calls = calls
        self._service = calls.service
        self._tool = tool
        self._arguments = arguments
        self._context = context
        self._title = f"tools/call {tool.tool.name}"
        self._work = Work({"type": "mcp.cancelled"})
        self._http: HttpRequest | None = find_http_request(context.request)
        self._ends_with_request = ends_with_request

    async def carry_out(self, elicit: Elicit | None) -> dict[str, Any]:
        """Make the call when it is admitted; return its result or its failure.

        Args:
            elicit: Sends forms to the client; None when it shows none.
        """
        with (
            self._service.recording(),
            self._recording(),
            observed(
                "request",
                self._title,
                inputs=lambda: self._arguments,
                attributes=self._attributes,
                control=self._work,
            ) as node,
        ):
            async with BareTaskGroup() as helpers:
                seconds = self._service.settings.request_timeout
                if seconds is not None:
                    helpers.start_soon(self._work.end_after, seconds)
                tree, node_id = find_tree(), find_node_id()
                if self._wants_progress and tree is not None and node_id is not None:
                    helpers.start_soon(report_progress, tree, node_id, self._context.session.report_progress)
                result = await self._answer(elicit)
                self._report_end(node, result)
                helpers.cancel_scope.cancel()
        return result

    async def _answer(self, elicit: Elicit | None) -> dict[str, Any]:
        result: dict[str, Any] | None = None
        try:
            with self._work.scope:
                result = await checked_result(await self._serve(elicit), self._tool.object_form)
        except Exception as error:
            if isinstance(error, RefusedError):
                error = RefusedError(self._with_retry(error.problem))
            return failure_of(error, call=self._title)
        return result or failure_text(self._describe_end())

    async def _serve(self, elicit: Elicit | None) -> object:
        """Call the function when the call is admitted, with the run, in its own scope."""
        arguments = self._calls.text_of(self._tool, self._arguments)
        with self._service.in_progress(self._work), self._with_client():
            turn = self._service.admission.ask(self._client)
            try:
                await turn.wait()
                async with self._service.extent(), self._scope(elicit):
                    self._work.task_node = find_node()
                    return await self._tool.call(arguments)
            finally:
                self._service.admission.leave(turn)

    def _scope(self, elicit: Elicit | None) -> Scope:
        budget = self._service.settings.request_budget
        scope_id = uuid.uuid4().hex if self._http is None else self._http.id
        fresh = None if budget is None else budget.fresh()
        if elicit is None:
            return scope(scope_id=scope_id, budget=fresh)
        return scope(scope_id=scope_id, budget=fresh, human=ClientPeople(elicit, find_human_handler()))

    @contextmanager
    def _with_client(self) -> Generator[None, None, None]:
        """End the call when its client leaves."""
        if self._http is None or not self._ends_with_request:
            yield
            return
        with self._http.making(self._work):
            yield

    @property
    def _client(self) -> str | None:
        client_of = self._service.settings.client_of
        return None if client_of is None or self._http is None else client_of(self._http.asgi_scope)

    @contextmanager
    def _recording(self) -> Generator[None, None, None]:
        """Record the call in a tree of its own when the client wants progress, and nothing records it."""
        if not self._wants_progress or find_node_id() is not None:
            yield
            return
        with TaskTree(max_finished_trees=1).recording():
            yield

    @property
    def _wants_progress(self) -> bool:
        return bool(self._context.meta) and "progress_token" in (self._context.meta or {})

    def _attributes(self) -> Mapping[str, str]:
        client = self._context.session.client_params
        named = {} if client is None else {"mcp.client.name": client.client_info.name}
        return {
            "mcp.method.name": "tools/call",
            "mcp.protocol.version": self._context.protocol_version,
            "gen_ai.tool.name": self._tool.tool.name,
            **named,
        }

    def _with_retry(self, problem: Problem) -> Problem:
        return replace(problem, retry_after_seconds=self._service.settings.retry_after_seconds)

    def _describe_end(self) -> str:
        """Return the reason for which the call was ended early."""
        problem = self._work.problem or CANCELLED
        text = problem_text(self._with_retry(problem) if problem is SHUTTING_DOWN else problem)
        if problem is TIMED_OUT or self._work.reason_given is None:
            return text
        return f"{text} Reason: {self._work.reason_given}"

    def _report_end(self, node: NodeWriter | None, result: Mapping[str, Any]) -> None:
        if node is None:
            return
        if self._work.end_reason is not None:
            node.end("failed" if self._work.end_reason == "timed_out" else "cancelled")
        elif result.get("isError"):
            node.end("failed", outputs={"error": result["content"][0]["text"]})
        else:
            node.end("completed")
