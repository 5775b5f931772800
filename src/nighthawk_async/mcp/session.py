"""A session with a server: a task holds its connection, and opens another one when that is lost.

Calls are made by their callers, in their own tasks: cancelling a caller cancels its call at the server.
"""

import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from copy import copy
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskStatus
from anyio.lowlevel import current_token
from mcp.shared.exceptions import MCPError
from mcp_types import URL_ELICITATION_REQUIRED, ElicitationRequiredErrorData
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from ..actors import BareTaskGroup
from ..backoff import backoff_seconds
from ..causes import leaves_of
from ..errors import EgressDeniedError, NighthawkError, ToolRegistrationError
from ..journal.effects import once, repeatable
from ..kernel.tool_sets import valid_tool_name
from ..observation import observed
from ..policies.egress.policy import ActiveEgress, find_egress
from ..values.error_text import describe_error
from .callbacks import Callbacks, CallInFlight, CallsInFlight
from .connection import Connection
from .description import HttpDescription, ServerDescription
from .errors import McpError, ServerCallError, ServerLostError, ServerUnavailableError
from .json_data import characters, json_data
from .methods import ConnectedServer, ToolFacts, check_method_names, make_class, set_methods
from .results import (
    ConnectionLostError,
    check_result,
    failure_of,
    is_lost_session,
    is_unknown_session,
    raise_if_error,
    value_of,
)

Result = TypeVar("Result")

_LOGGER = logging.getLogger("nighthawk.mcp")
_ARGUMENTS = TypeAdapter(dict[str, Any])
_OWN_ERRORS = (ToolRegistrationError, EgressDeniedError)
_MAX_SENDS = 3
_END_SECONDS = 8.0
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0


class Session:
    """A session with a server.

    Args:
        server: The server.

    Attributes:
        server: The server.
        tools: Its tools by the names that it knows them by, as they were listed last.
    """

    def __init__(self, server: ServerDescription) -> None:
        self.server = server
        self.tools: dict[str, ToolFacts] = {}
        self.calls = CallsInFlight(server.options.call_timeout)
        self._callbacks = Callbacks(server, self.calls, self._note_tools_changed)
        self._writers = anyio.Semaphore(server.options.max_concurrent)
        self._loop = current_token()
        self._stopped = anyio.Event()
        self._scope = anyio.CancelScope()
        self._connection: Connection | None = None
        self._failure: Exception | None = None
        self._changed = anyio.Event()
        self._is_started = False
        self._restarts = 0
        self._has_other_tools = False
        self._listing = anyio.Lock()
        self._bound: dict[str, ConnectedServer] = {}
        self._egress = find_egress()
        self._server_says = ""  # of itself: its name and version
        self._approvable: dict[str, Mapping[str, object]] = {}  # what people were asked about, until the call
        self._effects: dict[str, Callable[[dict[str, object]], Awaitable[object]]] = {}  # by digest

    @asynccontextmanager
    async def opened(self) -> "AsyncGenerator[Session, None]":
        """Hold the session open during the `async with` statement, also while that is cancelled.

        Raises:
            ServerUnavailableError: The first connection cannot be opened.
        """
        async with BareTaskGroup() as group:
            try:
                await group.start(self._serve)
                yield self
            finally:
                self._scope.deadline = anyio.current_time() + _END_SECONDS
                self._stopped.set()

    async def _serve(self, *, task_status: TaskStatus[None]) -> None:
        """Hold the session open until it ends."""
        try:
            with self._scope:
                await self._keep_connected(task_status)
        finally:
            text = f"The session with server {self.server.name!r} has ended, as its run or `async with` did."
            self._change(None, McpError(text))

    async def _keep_connected(self, task_status: TaskStatus[None]) -> None:
        """Hold a connection open, and another one when it is lost."""
        name = self.server.name
        while not self._stopped.is_set():
            error = await self._connect(task_status)
            if self._stopped.is_set():
                return
            if not self._is_started:
                raise error if error is not None else McpError(f"Server {name!r} ended at once.")
            if self._restarts >= self.server.options.max_restarts:
                await self._give_up(error)
                return
            wait = backoff_seconds(self._restarts, first=_FIRST_WAIT, longest=_LONGEST_WAIT)
            self._restarts += 1
            _LOGGER.warning(
                "%s was lost, and is connected again%s", name, "" if error is None else f": {error}"
            )
            with anyio.move_on_after(wait):
                await self._stopped.wait()

    async def _give_up(self, error: Exception | None) -> None:
        reason = "" if error is None else f": {error}"
        times = self.server.options.max_restarts + 1
        text = (
            f"server {self.server.name!r} was lost {times} times in a row and is not connected again{reason}"
        )
        self._change(None, ServerCallError(self.server.name, text, kind="execution"))
        await self._stopped.wait()

    async def _connect(self, task_status: TaskStatus[None]) -> ServerUnavailableError | None:
        """Hold one connection until it is lost or the session ends; return the error if it was never open."""
        connection = Connection(self.server, self._callbacks, self._egress)
        seconds = self.server.options.connect_timeout
        is_open = False
        try:
            # One scope for all of it, because the client holds task groups of its own open.
            with anyio.CancelScope(deadline=anyio.current_time() + seconds) as scope:
                await self._check_egress(self._egress)
                async with connection.client:
                    listed = await connection.list_tools()
                    scope.deadline = float("inf")
                    self._server_says = connection.says
                    self._take_tools(listed)
                    is_open = True
                    connection.failed_status = None  # those so far were about the version of the protocol
                    self._change(connection, None)
                    if not self._is_started:
                        self._is_started = self._scope.shield = True  # until the end of those who use it
                        task_status.started()
                    await self._wait_for_end(connection)
                    self._change(None, None)
        except Exception as error:
            if not is_open:
                leaves = leaves_of(error)
                own = next((each for each in leaves if isinstance(each, _OWN_ERRORS)), None)
                if own is not None and not self._is_started:
                    raise own from None
                return connection.failure_to_open(error)
            _LOGGER.debug("%s: the connection broke", self.server.name, exc_info=error)
        finally:
            connection.is_lost.set()
            self._change(None, None)
        return None if is_open else connection.failure_to_open(None)

    async def _wait_for_end(self, connection: Connection) -> None:
        async def wait_stopped() -> None:
            await self._stopped.wait()
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(wait_stopped)
            if connection.announces_changes:
                group.start_soon(_listen, connection)
            await connection.is_lost.wait()
            group.cancel_scope.cancel()

    def _change(self, connection: Connection | None, failure: Exception | None) -> None:
        """Change the connection that calls use, and wake those that wait for one."""
        self._connection = connection
        if failure is not None:
            self._failure = failure
        self._changed.set()
        self._changed = anyio.Event()

    async def _usable_connection(self) -> Connection:
        """Return the connection, when there is one.

        Raises:
            NighthawkError: There will be none.
        """
        if current_token() != self._loop:
            raise NighthawkError(
                f"The session with server {self.server.name!r} can be used on its event loop only, and this "
                "call comes from another one. Call it in an async function, or from a thread of "
                "anyio.to_thread."
            )
        while True:
            if self._failure is not None:
                raise copy(self._failure)  # each caller has a traceback of its own
            connection = self._connection
            if connection is not None and not connection.has_ended:
                return connection
            await self._changed.wait()

    def _take_tools(self, listed: list[ToolFacts]) -> None:
        self._has_other_tools = False
        check_method_names(self.server.name, listed)
        self.tools = {tool.name: tool for tool in listed}
        for each in self._bound.values():
            self._set_methods(type(each))

    def _set_methods(self, server_class: type[ConnectedServer]) -> None:
        invoke = partial(self._invoke, server_class.__qualname__)
        set_methods(server_class, list(self.tools.values()), invoke, self.shown_to_people)

    def shown_to_people(self, tool: str) -> Mapping[str, object]:
        """The definition of a tool as people are asked to approve it; the next call needs the same one."""
        definition = self._approvable[tool] = self._definition_of(tool)
        return definition

    def _definition_of(self, tool: str) -> Mapping[str, object]:
        """The definition that a tool has by now: of this server, and what the server says of it."""
        server = {"name": self.server.name, "target": self.server.target, "says": self._server_says}
        facts = self.tools.get(tool)
        if facts is None:
            return {"server": server, "name": tool, "is": "no longer a tool of the server"}
        return {
            "server": server,
            "name": tool,
            "description": characters(facts.description),
            "input_schema": characters(json.dumps(facts.input_schema, sort_keys=True)),
            "digest": facts.digest,
        }

    def _check_approved(self, tool: ToolFacts, approved: Mapping[str, object] | None) -> None:
        """Refuse a tool that was replaced since people were asked about it.

        Raises:
            ServerCallError: It was.
        """
        if approved is not None and approved != self._definition_of(tool.name):
            raise ServerCallError(
                self.server.name,
                f"{tool.name}: server {self.server.name!r} has replaced the tool since people were asked "
                "about it, so it was not called",
                kind="oversight",
                guidance="Look at the tool as it is now, and call it again to ask for another approval.",
            )

    async def _note_tools_changed(self) -> None:
        self._has_other_tools = True
        try:
            await self.refresh()
        except Exception as error:  # tried again at the next step
            _LOGGER.warning("%s: its tools cannot be listed: %s", self.server.name, describe_error(error))

    async def refresh(self) -> None:
        """List the tools anew, if the server has said that they changed.

        Raises:
            ServerCallError: They cannot be listed.
            ToolRegistrationError: Two tools have the same name.
        """
        if not self._has_other_tools:
            return
        async with self._listing:
            if self._has_other_tools:
                self._has_other_tools = False
                try:
                    self._take_tools(await self.ask(lambda connection, _: connection.list_tools()))
                except BaseException:
                    self._has_other_tools = True
                    raise

    def bound_as(self, name: str) -> ConnectedServer:
        """Return an object whose methods are the tools.

        Args:
            name: The name by which blocks know it.
        """
        if name in self._bound:
            return self._bound[name]
        instructions = self._connection.client.instructions if self._connection is not None else None
        text = characters(instructions or "") or f"The tools of server {self.server.name!r}."
        server_class = make_class(name, text=text, shown=repr(self.server), session=self)
        self._set_methods(server_class)
        bound = self._bound[name] = server_class()
        return bound

    async def call_tool(self, tool: ToolFacts, arguments: dict[str, object]) -> object:
        """Call a tool.

        Raises:
            ServerCallError: It failed.
        """
        data = self._json_of(tool, arguments)

        async def send(connection: Connection, call: CallInFlight) -> object:
            self._check_approved(tool, approved)
            result = await connection.client.call_tool(
                tool.name, data, progress_callback=call.note_progress, read_timeout_seconds=None
            )
            self._restarts = 0  # it is alive, even if the tool failed
            raise_if_error(self.server.name, tool, result)
            if tool.output_schema is not None:
                await check_result(tool.output_schema, result)
            return value_of(result, tool)

        async with self._turn_of(tool):
            approved = self._approvable.pop(tool.name, None)
            if approved is not None:
                await self.refresh()
            return await self.ask(send, is_repeatable=tool.is_repeatable, tool=tool)

    async def _invoke(self, class_name: str, tool: ToolFacts, arguments: dict[str, object]) -> object:
        """Call a tool as a method: in the tree, and at most once in all lives of a durable run."""
        effect = self._effects.get(tool.digest)
        if effect is None:
            effect = self._effects[tool.digest] = as_effect(self.server.name, tool, self.call_tool)
        name = f"{class_name}.{tool.python_name}"
        shown = {"mcp.server": self.server.name, "mcp.tool": tool.name}
        with observed("function", name, inputs=lambda: arguments, attributes=lambda: shown) as node:
            result = await effect(arguments)
            if node is not None:
                node.set_outputs({"return": result})
            return result

    def _turn_of(self, tool: ToolFacts) -> AbstractAsyncContextManager[object]:
        """Let tools that may change something run one at a time, or as many as `max_concurrent` says."""
        return nullcontext() if tool.is_read_only else self._writers

    def _json_of(self, tool: ToolFacts, arguments: dict[str, object]) -> dict[str, object]:
        try:
            return json_data(_ARGUMENTS, arguments, non_finite="refused")
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            raise ServerCallError(
                self.server.name,
                f"{tool.name}: the arguments are no JSON: {error}",
                kind="invalid_input",
                guidance="Pass texts, numbers, booleans, lists and dictionaries.",
            ) from error

    async def ask(
        self,
        send: Callable[[Connection, CallInFlight], Awaitable[Result]],
        *,
        is_repeatable: bool = True,
        tool: ToolFacts | None = None,
    ) -> Result:
        """Make a request, again on another connection if it may be repeated.

        Args:
            send: Makes it.
            is_repeatable: Whether it may be repeated when its connection was lost.
            tool: The tool that is called; None for other requests.

        Raises:
            ServerCallError: It failed.
        """
        egress = find_egress()
        if egress is not self._egress:  # that of an inner scope
            await self._check_egress(egress)
        for sends in range(1, _MAX_SENDS + 1):
            connection = await self._usable_connection()
            try:
                result = await self._sent(connection, send, tool)
            except ConnectionLostError as lost:
                connection.is_lost.set()
                if sends < _MAX_SENDS and (is_repeatable or not lost.may_have_begun):
                    continue
                text = f"{_subject(tool)}the connection to server {self.server.name!r} was lost: {lost}"
                raise ServerLostError(self.server.name, text, may_have_begun=lost.may_have_begun) from lost
            self._restarts = 0
            return result
        raise AssertionError("unreachable")

    async def _check_egress(self, egress: ActiveEgress | None) -> None:
        """Refuse a server over HTTP that may not be reached.

        Raises:
            EgressDeniedError: It may not.
        """
        if egress is None or not isinstance(self.server, HttpDescription):
            return
        try:
            await egress.check_url(self.server.url)
        except OSError as error:
            text = f"server {self.server.name!r} cannot be resolved: {error}"
            raise ServerLostError(self.server.name, text, may_have_begun=False) from error

    async def _sent(
        self,
        connection: Connection,
        send: Callable[[Connection, CallInFlight], Awaitable[Result]],
        tool: ToolFacts | None,
    ) -> Result:
        name = self.server.name
        try:
            return await self.calls.run(lambda call: self._send_after_visits(connection, send, call))
        except TimeoutError as error:
            seconds = self.server.options.call_timeout
            limit = "" if seconds is None else f" in {seconds:g} seconds (call_timeout)"
            text = f"{_subject(tool)}server {name!r} gave no sign of life{limit}"
            raise ServerLostError(name, text) from error
        except MCPError as error:
            if is_lost_session(error, connection):
                has_begun = not is_unknown_session(error, connection)
                raise ConnectionLostError(error.message, may_have_begun=has_begun) from error
            raise failure_of(error, name, _subject(tool), connection) from error
        except (RuntimeError, ValidationError) as error:
            if connection.is_lost.is_set():
                raise ConnectionLostError(str(error)) from error
            text = f"{_subject(tool)}server {name!r} broke the protocol: {describe_error(error)}"
            raise ServerCallError(name, text, kind="execution") from error

    async def _send_after_visits(
        self,
        connection: Connection,
        send: Callable[[Connection, CallInFlight], Awaitable[Result]],
        call: CallInFlight,
    ) -> Result:
        """Send, and once more if a person had to open addresses before."""
        try:
            return await send(connection, call)
        except MCPError as error:
            if error.code != URL_ELICITATION_REQUIRED:
                raise
            asked = ElicitationRequiredErrorData.model_validate(error.data).elicitations
            with self.calls.paused():
                for params in asked:
                    if (await self._callbacks.ask_to_visit(params)).action != "accept":
                        raise
        return await send(connection, call)


def _subject(tool: ToolFacts | None) -> str:
    return "" if tool is None else f"{tool.name}: "


async def _listen(connection: Connection) -> None:
    """Have changes of the tools announced."""
    try:
        async with connection.client.listen(tools_list_changed=True):
            await anyio.sleep_forever()
    except (MCPError, RuntimeError, TimeoutError) as error:
        _LOGGER.info("changes of the tools are not announced: %s", error)


def as_effect(
    server: str, tool: ToolFacts, call: Callable[[ToolFacts, dict[str, object]], Awaitable[object]]
) -> Callable[[dict[str, object]], Awaitable[object]]:
    """Return the calls of a tool as effects: repeatable ones where the tool says so."""

    async def effect(arguments: dict[str, object]) -> object:
        return await call(tool, arguments)

    effect.__name__ = effect.__qualname__ = valid_tool_name(f"{server}_{tool.name}")
    return repeatable(effect) if tool.is_repeatable else once(effect)
