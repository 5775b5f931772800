"""Keeps the process of Codex for the steps of a run: started when needed, and again when it has ended."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import TaskGroup

from ..actors import BareTaskGroup
from ..catalog.coding_agents import CODING_AGENTS
from ..line_process import LineProcess
from .codex_gate import hooks_configuration, serve_gate
from .codex_home import CodexHome, codex_home
from .codex_launch import Launch, toml
from .codex_server import CodexServer
from .coding_agent_errors import (
    CodingAgentCrashedError,
    CodingAgentMissingError,
    CodingAgentProtocolError,
    CodingAgentVersionError,
)
from .coding_agent_process import find_executable
from .coding_agent_settings import CodexSettings

_LOGGER = logging.getLogger("nighthawk.codex")
_FACTS = CODING_AGENTS["codex"]
_NAME = _FACTS.title
_CLOSE_SECONDS = 0.25
_TERMINATE_SECONDS = 0.25


class CodexHost:
    """Keeps one server, which is started when it is needed, and again after it has ended.

    Args:
        launch: The process to start.
        task_group: Runs it.
    """

    def __init__(self, launch: Launch, task_group: TaskGroup) -> None:
        self._launch = launch
        self._task_group = task_group
        self._started: _Started | None = None
        self._scopes = set[anyio.CancelScope]()

    async def server(self) -> CodexServer:
        """Return the server, started if need be.

        Raises:
            CodingAgentError: It cannot be started, or is too old.
        """
        started = self._started
        if started is None or started.is_over:
            started = self._started = _Started()
            scope = anyio.CancelScope(shield=True)  # a step that is cancelled still has to leave its thread
            self._scopes.add(scope)
            self._task_group.start_soon(self._serve, started, scope)
        return await started.wait()

    def close(self) -> None:
        """End its servers."""
        for scope in self._scopes:
            scope.cancel()

    async def _serve(self, started: "_Started", scope: anyio.CancelScope) -> None:
        """Run a server until it ends; its errors are those of the steps that use it."""
        try:
            with scope:
                async with codex_home(self._launch) as home:
                    await self._serve_in(home, started)
        except Exception as error:
            if not started.fail(await self._explained(error)):
                _LOGGER.warning("%s could not be ended cleanly: %r", _NAME, error)
        finally:
            self._scopes.discard(scope)

    async def _explained(self, error: Exception) -> Exception:
        """The error of a start; that of the version, if it is the cause."""
        if not isinstance(error, CodingAgentCrashedError | CodingAgentProtocolError):
            return error
        with suppress(CodingAgentMissingError):  # it does not tell its version
            try:
                await find_executable(_FACTS, CodexSettings(executable=self._launch.executable))
            except CodingAgentVersionError as too_old:
                return too_old
        return error

    async def _serve_in(self, home: CodexHome, started: "_Started") -> None:
        launch, gate = self._launch, hooks_configuration(home.directory)
        flags = ["-c", f"hooks={toml(gate)}"]
        if home.api_key is not None:
            flags += ["-c", 'cli_auth_credentials_store="ephemeral"']
        try:
            process = await LineProcess.start(
                _NAME,
                [launch.executable, *launch.arguments, *flags],
                environment=home.environment,
                folder=None,
                logger=_LOGGER,
            )
        except OSError as error:
            raise CodingAgentMissingError(
                f"{_NAME} cannot be started as {launch.executable!r} ({error.strerror or error}): "
                f"install it, for example with `npm install -g {_FACTS.package}`, or set `executable`",
                agent=_NAME,
            ) from None
        try:
            async with BareTaskGroup() as group:
                server = CodexServer(process, gate, group)
                try:
                    for task in (server.read, server.read_log, server.write, server.watch):
                        group.start_soon(task)
                    await group.start(serve_gate, home.directory, server.answer_question)
                    await server.initialize(home.api_key)
                    started.succeed(server)
                    await server.concluded.wait()
                finally:
                    server.conclude()
                    group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):  # every wait in it is bounded
                await process.end(close_seconds=_CLOSE_SECONDS, terminate_seconds=_TERMINATE_SECONDS)


class _Started:
    """A server from its start on, which callers wait for."""

    def __init__(self) -> None:
        self._done = anyio.Event()
        self._server: CodexServer | None = None
        self._error: Exception | None = None

    @property
    def is_over(self) -> bool:
        """Whether it failed to start, or has ended."""
        return self._error is not None or (self._server is not None and self._server.has_ended)

    def succeed(self, server: CodexServer) -> None:
        """Note that it has started."""
        self._server = server
        self._done.set()

    def fail(self, error: Exception) -> bool:
        """Note an error; return whether it is that of the start."""
        if self._done.is_set():
            return False
        self._error = error
        self._done.set()
        return True

    async def wait(self) -> CodexServer:
        """Wait until it has started, and return it.

        Raises:
            Exception: The error of its start.
        """
        await self._done.wait()
        if self._error is not None:
            raise self._error
        assert self._server is not None
        return self._server


@asynccontextmanager
async def open_host(launch: Launch) -> AsyncGenerator[CodexHost, None]:
    """Keep a server while the context lasts; its processes have ended afterwards.

    Args:
        launch: The process to start.
    """
    async with BareTaskGroup() as group:
        host = CodexHost(launch, group)
        try:
            yield host
        finally:
            host.close()
