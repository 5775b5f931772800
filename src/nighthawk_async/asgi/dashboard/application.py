"""`Dashboard`: the page, its data and its actions, as one ASGI application.

`Beside` serves an application together with a dashboard: it records the application and asks people for it.
"""

import re
import time
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from ...errors import NighthawkError
from ...lazy_exports import LazyModule
from ...observation import find_node_writer
from ...observe.errors import NodeNotFoundError
from ...observe.page.export import view_as_page
from ...observe.page.files import CONTENT_TYPES, PAGE
from ...observe.page.search import nodes_with
from ...observe.page.summaries import OWN_REQUEST, node_details, summarize_tree
from ...observe.recording_file import view_as_recording
from ...observe.tree import TaskTree, find_node_id, find_tree
from ...observe.views import NodeView
from ...policies.people.default_handler import using_default_handler
from ...policies.people.request import HumanHandler
from ...types.json import JsonableValue
from ..protocol import Application, AsgiScope, Receive, Send, ServedApplication, header_values
from ..service import checked_seconds
from .actions import ACTIONS, carry_out
from .approvals import AskedPeople, DashboardHandler
from .live import HEARTBEAT_SECONDS, OpenStreams, node_changes, tree_changes
from .paths import check_method, path_below, query_of, redirect_below, whole_number
from .request import (
    NOTHING_HERE,
    NOTHING_RECORDED,
    ClientLeftError,
    RefusalError,
    check_stream,
    no_such_node,
    store_is_away,
    stream_id,
)
from .responses import (
    Response,
    file_response,
    json_response,
    problem_response,
    send_response,
    static_response,
)
from .security import Guard, checked_hosts, checked_tokens

if TYPE_CHECKING:
    from ... import journal as journals, memory as memories
    from ...journal import located, store_tree
    from . import memory_records, stored_budgets, stored_questions
else:  # other dashboards need no database
    journals = LazyModule("nighthawk_async.journal")
    located = LazyModule("nighthawk_async.journal.located")
    store_tree = LazyModule("nighthawk_async.journal.store_tree")
    memories = LazyModule("nighthawk_async.memory")
    memory_records = LazyModule("nighthawk_async.asgi.dashboard.memory_records")
    stored_budgets = LazyModule("nighthawk_async.asgi.dashboard.stored_budgets")
    stored_questions = LazyModule("nighthawk_async.asgi.dashboard.stored_questions")


class Beside:
    """An application, and a dashboard under a path of its own.

    Args:
        app: The application.
        dashboard: The dashboard.
        tree: The tree that records the application.
        human: The handler that asks people, for runs without a handler of their own.
        path: The path of the dashboard.

    Raises:
        NighthawkError: The path has no slash at its beginning, or one at its end.
    """

    def __init__(
        self, app: Application, dashboard: Application, *, tree: TaskTree, human: HumanHandler, path: str
    ) -> None:
        if not path.startswith("/") or path.endswith("/"):
            raise NighthawkError(f"the path of a dashboard begins with a slash and ends without: {path!r}")
        self._app = app
        self._dashboard = dashboard
        self._tree = tree
        self._human = human
        self._path = path

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve a connection, or go through the lifespan of the application.

        Args:
            scope: The scope of ASGI.
            receive: Receives the next event of the server.
            send: Sends events to the server.
        """
        path, root = str(scope.get("path", "")), str(scope.get("root_path") or "").rstrip("/")
        below = path[len(root) :] if root and path.startswith(f"{root}/") else path
        if scope["type"] == "http" and (below == self._path or below.startswith(f"{self._path}/")):
            own = {**scope, "path": root + below, "root_path": root + self._path}
            await self._dashboard(own, receive, send)
            return
        with self._tree.recording(), using_default_handler(self._human):
            await self._app(scope, receive, send)


_MAX_NODES = 5_000
_MOST_NODES = 50_000

_TOP = "0"
"""The id of the root node, by which the tree cannot look it up."""

_NODE = re.compile(r"api/nodes/([0-9]{1,20})(?:/([a-z]+))?")
_MEMORY = "api/memory"


class Dashboard:
    """A page on which people observe a running program and control it: an ASGI application.

        dashboard = Dashboard(tree, token=os.environ["DASHBOARD_TOKEN"])
        routes = [Mount("/dashboard", dashboard), Mount("/", NighthawkMiddleware(api, model=m, tree=tree))]

    Mount it under any path, on Trio or asyncio. Without a token it is read-only. With one, people who have
    the token can cancel, steer, suspend and resume nodes, and answer questions and requests for approval that
    are asked through `human`.

    Args:
        tree: The task tree to show; None for the tree that is active where the dashboard is served.
        journal: The store of durable runs to show instead, its path or its address: the runs of all
            processes, past, parked and in progress. Answers to their questions go into the store.
        max_runs: The maximum number of runs of the store: those that have not ended, then those that ended
            last.
        memory: The memory whose records people can search, correct and erase here; None for none. Where there
            is a token, reading them needs it, too.
        token: The secret that permits changes: a text of at least 16 characters, or one for each name, where
            it matters who approves. None for a dashboard that is read-only.
        protect_reading: Whether reading needs the token, too.
        allowed_hosts: The names of the hosts under which the dashboard is served, without ports; None for
            any. Where reading is not protected, they keep pages of other sites from reading it.
        title: The title of the page.
        heartbeat_seconds: The number of seconds without an event after which a heartbeat is sent.

    Raises:
        NighthawkError: An argument has a bad value, or there are both a tree and a journal.
        ValueError: `max_runs` is no whole number, or too small.

    Source: https://www.w3.org/WAI/ARIA/apg/patterns/treeview/ for the page,
    https://html.spec.whatwg.org/multipage/server-sent-events.html for its events.
    """

    def __init__(
        self,
        tree: TaskTree | None = None,
        *,
        journal: "journals.JournalStore | located.StoreLocation | None" = None,
        max_runs: int = 200,
        memory: "memories.Memory | None" = None,
        token: str | Mapping[str, str] | None = None,
        protect_reading: bool = False,
        allowed_hosts: Collection[str] | None = None,
        title: str = "nighthawk-async",
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        tokens = checked_tokens(token)
        if protect_reading and not tokens:
            raise NighthawkError("protect_reading needs a token")
        self._tree = tree
        self._title = title
        self._heartbeat_seconds = checked_seconds(heartbeat_seconds, "heartbeat_seconds")
        self._guard = Guard(
            tokens=tokens, protect_reading=protect_reading, allowed_hosts=checked_hosts(allowed_hosts)
        )
        self._streams = OpenStreams()
        self._memory = memory
        self._followed: store_tree.StoreTree | None = None
        self._journal: journals.JournalStore | None = None
        self._people: AskedPeople
        self._human: HumanHandler
        if journal is None:
            handler = DashboardHandler(can_answer=self._guard.can_act, shown_tree=lambda: self._tree)
            self._people = self._human = handler
            return
        if tree is not None:
            raise NighthawkError("a dashboard shows a task tree, or the runs of a journal")
        store = self._journal = located.store_at(journal)
        self._followed = store_tree.StoreTree(store, max_runs=max_runs)
        self._people = stored_questions.StoredQuestions(store, self._followed)
        self._tree, self._human = self._followed.tree, store.people()

    @property
    def human(self) -> HumanHandler:
        """Handler that asks the people here; for `run(…, human=…)` and `NighthawkMiddleware(…, human=…)`.

        That of a dashboard of a journal asks in the runs that are recorded there; see `JournalStore.people`.
        """
        return self._human

    def beside(self, app: Application, *, path: str = "/dashboard") -> ServedApplication:
        """Add the dashboard to an application under its own path, and record everything the application does.

            app = Dashboard(token=token).beside(app)

        Use it for applications that record into no tree of their own: the dashboard's tree becomes the active
        one. Runs without a handler for questions (`human`) ask the people at the dashboard.

        Args:
            app: The application.
            path: The path of the dashboard.

        Raises:
            NighthawkError: The path has no slash at its beginning, or one at its end; or the dashboard shows
                a journal, which records no application.
        """
        if self._followed is not None:
            raise NighthawkError("the dashboard of a journal records no application: mount it beside one")
        if self._tree is None:
            self._tree = TaskTree()
        return Beside(app, self, tree=self._tree, human=self._human, path=path)

    def end_streams(self) -> None:
        """End the open event streams; their readers reconnect. Thread-safe.

        Open pages can delay the shutdown of a server by up to half a minute, unless it calls this when it
        begins.
        """
        self._streams.end()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve a request.

        Args:
            scope: The scope of ASGI: the connection, or the lifespan.
            receive: Receives the next event of the server.
            send: Sends events to the server.
        """
        match scope["type"]:
            case "http":
                _mark_own_request()
                with suppress(ClientLeftError):
                    await self._serve(scope, receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1008})
            case "lifespan":
                await _pass_lifespan(receive, send)
            case _:
                raise NighthawkError(f"the dashboard does not serve {scope['type']!r}")

    async def _serve(self, asgi_scope: AsgiScope, receive: Receive, send: Send) -> None:
        is_head = asgi_scope["method"] == "HEAD"
        try:
            self._guard.check_host(asgi_scope)
            path = path_below(asgi_scope)
            if path is None:
                response = redirect_below(asgi_scope)
            elif path.startswith("api/"):
                found = await self._serve_data(path, asgi_scope, receive, send)
                if found is None:
                    return
                response = found
            else:
                response = _serve_file(path, asgi_scope)
        except RefusalError as refusal:
            response = problem_response(refusal.problem, refusal.headers)
        await send_response(send, response, is_head=is_head)

    async def _serve_data(
        self, path: str, asgi_scope: AsgiScope, receive: Receive, send: Send
    ) -> Response | None:
        """Return the data of a request, or the result of its action; None when it was streamed."""
        match = _NODE.fullmatch(path)
        node_id, action = match.groups() if match else (None, None)
        if node_id is not None and action is not None and action in ACTIONS:
            return await self._act(node_id, action, asgi_scope, receive)
        if path == _MEMORY or path.startswith(f"{_MEMORY}/"):
            return await self._serve_memory(path.removeprefix(_MEMORY), asgi_scope, receive)
        check_method(asgi_scope, "GET", "HEAD")
        if path == "api/actor":
            return json_response({"actor": self._guard.check_acting(asgi_scope)})
        self._guard.check_reading(asgi_scope)
        tree = await self._current_tree()
        if node_id is not None and action in ("recording", "page"):
            return await self._export(tree, node_id, action, asgi_scope)
        if node_id is not None and action in (None, "changes"):
            return await self._serve_node(tree, node_id, action, asgi_scope, receive, send)
        if path == "api/tree":
            return json_response(self._tree_as_json(tree, asgi_scope))
        if path == "api/remembered":
            return json_response({"approvals": [*await self._people.remembered()]})
        if path == "api/budgets" and self._followed is not None:
            return json_response({"budgets": [*await stored_budgets.read(self._journal)]})
        if path == "api/search":
            return await _search(tree, asgi_scope)
        if path != "api/changes":
            raise RefusalError(NOTHING_HERE)
        if asgi_scope["method"] == "HEAD":
            return Response(headers={"content-type": "text/event-stream; charset=utf-8"})
        since = [*header_values(asgi_scope, b"last-event-id"), *query_of(asgi_scope).get("since", ())]
        events = tree_changes(tree, since[0] if since else None, self._greeting(), self._heartbeat_seconds)
        await self._send_stream(events, receive, send)
        return None

    async def _act(self, node_id: str, action: str, asgi_scope: AsgiScope, receive: Receive) -> Response:
        check_method(asgi_scope, "POST")
        actor = self._guard.check_acting(asgi_scope)
        await carry_out(
            action,
            node_id,
            actor,
            tree=await self._current_tree(),
            people=self._people,
            asgi_scope=asgi_scope,
            receive=receive,
        )
        return json_response({"accepted": True}, status=202)

    async def _serve_memory(self, action: str, asgi_scope: AsgiScope, receive: Receive) -> Response:
        """Return records of the memory, or the result of a change of it."""
        memory = self._memory
        if memory is None or (action and action.removeprefix("/") not in memory_records.ACTIONS):
            raise RefusalError(NOTHING_HERE)
        if action:
            check_method(asgi_scope, "POST")
            actor = self._guard.check_acting(asgi_scope)
            changed = await memory_records.change(
                memory, action.removeprefix("/"), actor, asgi_scope=asgi_scope, receive=receive
            )
            return json_response(changed)
        check_method(asgi_scope, "GET", "HEAD")
        self._guard.check_reading_private(asgi_scope)
        return json_response(await memory_records.search(memory, query_of(asgi_scope)))

    async def _serve_node(
        self,
        tree: TaskTree,
        node_id: str,
        action: str | None,
        asgi_scope: AsgiScope,
        receive: Receive,
        send: Send,
    ) -> Response | None:
        _check_seen(tree, asgi_scope)
        try:
            watched = None if node_id == _TOP else node_id
            view = tree.snapshot(watched)
            if action is None or asgi_scope["method"] == "HEAD":
                return json_response(node_details(view, self._people.describe(node_id)))
            events = node_changes(tree, watched, self._people.describe, self._heartbeat_seconds)
        except NodeNotFoundError as error:
            raise RefusalError(no_such_node(str(error))) from None
        await self._send_stream(events, receive, send)
        return None

    async def _send_stream(self, events: AsyncGenerator[bytes, None], receive: Receive, send: Send) -> None:
        follow = None if self._followed is None else self._followed.follow
        await self._streams.send(events, receive, send, follow)

    async def _export(self, tree: TaskTree, node_id: str, form: str, asgi_scope: AsgiScope) -> Response:
        """Return a node and everything below it as a file. A view never changes, so a thread writes it."""
        _check_seen(tree, asgi_scope)
        try:
            view = tree.snapshot(None if node_id == _TOP else node_id)
        except NodeNotFoundError as error:
            raise RefusalError(no_such_node(str(error))) from None
        return await to_thread.run_sync(self._file_of, view, form)

    def _file_of(self, view: NodeView, form: str) -> Response:
        if form == "page":
            text, content_type, ending = view_as_page(view, title=self._title), "text/html", "html"
        else:
            text, content_type, ending = view_as_recording(view), "application/x-ndjson", "jsonl"
        return file_response(text, name=f"node-{view.id}.{ending}", content_type=content_type)

    def _tree_as_json(self, tree: TaskTree, asgi_scope: AsgiScope) -> dict[str, JsonableValue]:
        query = query_of(asgi_scope)
        depth = whole_number(query, "depth", None, least=0, most=1_000)
        max_nodes = whole_number(query, "max_nodes", _MAX_NODES, least=1, most=_MOST_NODES)
        view = tree.snapshot()
        shown, is_cut = summarize_tree(view, depth=depth, max_nodes=max_nodes)
        identified: dict[str, JsonableValue] = {"stream": stream_id(view), "version": view.version}
        return {**self._greeting(), **identified, "is_cut": is_cut, "tree": shown}

    def _greeting(self) -> dict[str, JsonableValue]:
        """Return the data that a page needs besides the tree."""
        return {
            "title": self._title,
            "can_act": self._guard.can_act,
            "protects_reading": self._guard.protects_reading,
            "has_memory": self._memory is not None,
            "now": time.time(),
        }

    async def _current_tree(self) -> TaskTree:
        if self._followed is not None:
            await self._followed.refresh()
            if self._followed.error is not None:
                raise RefusalError(store_is_away(self._followed.error))
        tree = self._tree or find_tree()
        if tree is None:
            raise RefusalError(NOTHING_RECORDED)
        return tree


async def _search(tree: TaskTree, asgi_scope: AsgiScope) -> Response:
    """Return the nodes that contain a text. A view never changes, so a thread searches it."""
    _check_seen(tree, asgi_scope)
    text = "".join(query_of(asgi_scope).get("text", ())[:1])
    nodes = await to_thread.run_sync(nodes_with, tree.snapshot(), text) if text else []
    return json_response({"nodes": [*nodes]})


def _check_seen(tree: TaskTree, asgi_scope: AsgiScope) -> None:
    """Refuse a request that names another tree than this one."""
    if seen := query_of(asgi_scope).get("stream"):
        check_stream(seen[0], tree)


def _serve_file(path: str, asgi_scope: AsgiScope) -> Response:
    """Return the page, or one of its files."""
    name = PAGE if not path else path.removeprefix("static/")
    if path and (name in (path, PAGE) or name not in CONTENT_TYPES):
        raise RefusalError(NOTHING_HERE)
    check_method(asgi_scope, "GET", "HEAD")
    return static_response(name, asgi_scope)


def _mark_own_request() -> None:
    """Mark the dashboard's own requests, where it is served below the application that it shows."""
    tree, node_id, writer = find_tree(), find_node_id(), find_node_writer()
    if tree is None or node_id is None or writer is None:
        return
    with suppress(NodeNotFoundError):
        if node_id != _TOP and tree.snapshot(node_id).kind == "request":
            writer.set_attributes({OWN_REQUEST: True})


async def _pass_lifespan(receive: Receive, send: Send) -> None:
    """Complete a lifespan that has nothing to start or stop."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
