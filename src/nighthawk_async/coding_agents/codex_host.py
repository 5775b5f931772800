"""The process of Codex for the steps of a run: its command line, its directories, its start and restart.

Everything that Codex would take from the user's own configuration is off unless it is asked for, and so are
its own tools.

They are in the cache directory of the user, where no sandbox of Codex lets a command write, as it does among
temporary files. Each has a lock while its program lives; those of programs that were killed are removed.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from ..actors import BareTaskGroup
from ..catalog.coding_agents import CODING_AGENTS, DEFAULT_NAME
from ..configuration import ModelId
from ..line_process import LineProcess
from ..types.json import is_json_list, is_json_mapping
from ..types.messages import ToolDefinition
from .codex_server import CodexServer, hooks_configuration, serve_gate
from .errors import (
    CodingAgentCrashedError,
    CodingAgentError,
    CodingAgentMissingError,
    CodingAgentProtocolError,
    CodingAgentVersionError,
)
from .process import find_executable
from .settings import CodexSettings

if sys.platform != "win32":  # where `_make_directory` refuses to go on
    import fcntl

KEY_VARIABLE = "NIGHTHAWK_CODEX_API_KEY"
"""The environment variable of the key for `base_url`."""

_WITH_SERVERS = {
    "granular": {
        "sandbox_approval": False,
        "rules": False,
        "skill_approval": False,
        "request_permissions": False,
        "mcp_elicitations": True,
    }
}
"""An approval policy with which only calls of MCP servers are asked about.

Without servers nothing is: the gate asks about all calls, and nothing leaves the sandbox.
"""

_OFF = (
    "apps",
    "auth_elicitation",
    "browser_use",
    "code_mode",
    "computer_use",
    "daemon_auto_start",
    "fast_mode",
    "goals",
    "guardian_approval",
    "image_generation",
    "in_app_browser",
    "in_app_chat",
    "in_app_local_automation",
    "in_app_voice",
    "memories",
    "mentions_v2",
    "multi_agent",
    "plugin_sharing",
    "plugins",
    "remote_plugin",
    "shell_snapshot",
    "skill_mcp_dependency_install",
    "skill_search",
    "sleep_tool",
    "tool_call_mcp_elicitation",
    "tool_suggest",
    "unified_exec_tty",
    "workspace_dependencies",
)


class Launch(Struct, frozen=True, kw_only=True):
    """One process of Codex; steps with an equal one share it.

    Args:
        executable: The command line: a path, or a name that is searched for.
        arguments: Its arguments.
        variables: Its environment variables besides those of the program, as sorted pairs.
        uses_usual_provider: Whether the models are those of Codex's usual provider.
        uses_own_home: Whether it gets a home directory of its own, without the user's configuration.
        api_key: The key of its provider; None for its own login.
    """

    executable: str
    arguments: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    uses_usual_provider: bool
    uses_own_home: bool
    api_key: str | None

    def __repr__(self) -> str:  # the others are secret
        return f"Launch({self.executable!r})"


def launch_of(settings: CodexSettings) -> Launch:
    """The process that settings ask for."""
    key = None if settings.api_key is None else settings.api_key.get_secret_value()
    overrides: dict[str, Any] = {
        "check_for_update_on_startup": False,
        "analytics": {"enabled": False},
        "thread_unload_delay_secs": 0,
    }
    variables = dict(settings.environment)
    if settings.base_url is not None:
        provider: dict[str, Any] = {
            "name": "nighthawk",
            "base_url": settings.base_url,
            "wire_api": "responses",
            "supports_websockets": False,
        }
        if key is not None:
            provider["env_key"] = KEY_VARIABLE
            variables[KEY_VARIABLE] = key
        overrides |= {"model_provider": "nighthawk", "model_providers.nighthawk": provider}
        key = None
    flags = [part for name, value in overrides.items() for part in ("-c", f"{name}={toml(value)}")]
    return Launch(
        executable=settings.executable or "codex",
        arguments=("app-server", *flags, *settings.extra_arguments),
        variables=tuple(sorted(variables.items())),
        uses_usual_provider=settings.base_url is None,
        uses_own_home="user" not in settings.setting_sources,
        api_key=key,
    )


def needs_gate(settings: CodexSettings) -> bool:
    """Whether Codex may have tools of its own that do something, so that it must ask before their calls."""
    return bool(settings.native_tools or settings.setting_sources)


def thread_parameters(
    model: ModelId,
    settings: CodexSettings,
    *,
    directory: str,
    instructions: str,
    tools: Sequence[ToolDefinition],
    gate: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The parameters of `thread/start`.

    Args:
        model: The model.
        settings: The settings.
        directory: The working directory.
        instructions: The system prompt.
        tools: The tools on offer.
        gate: The configuration that makes it ask before native calls; None if it has none.
    """
    parameters: dict[str, Any] = {
        "baseInstructions": instructions,
        "ephemeral": True,
        "cwd": directory,
        "approvalPolicy": _WITH_SERVERS if "user" in settings.setting_sources else "never",
        "sandbox": settings.sandbox if {"shell", "apply_patch"} & {*settings.native_tools} else "read-only",
        "experimentalRawEvents": True,
        "dynamicTools": [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "inputSchema": tool.parameters,
            }
            for tool in tools
        ],
        "config": _thread_configuration(settings, gate),
    }
    if model.name != DEFAULT_NAME:
        parameters["model"] = model.name
    return parameters


def _thread_configuration(settings: CodexSettings, gate: Mapping[str, Any] | None) -> dict[str, Any]:
    has_shell, brings_own = "shell" in settings.native_tools, "user" in settings.setting_sources
    features: dict[str, Any] = dict.fromkeys(_OFF, False)
    features |= {
        "shell_tool": has_shell,
        "unified_exec": has_shell,
        "view_image": "view_image" in settings.native_tools,
        "hooks": gate is not None,
        "multi_agent_v2": {"enabled": False, "disable_native_tools": True},
    }
    configuration: dict[str, Any] = {
        "features": features,
        "web_search": "disabled",
        "include_permissions_instructions": has_shell,
        "include_apps_instructions": False,
        "include_collaboration_mode_instructions": False,
        "include_environment_context": bool(settings.native_tools),
        "skills": {"include_instructions": settings.skills, "bundled": {"enabled": False}},
        "tools": {"experimental_request_user_input": {"enabled": False}},
        "shell_environment_policy": {"ignore_default_excludes": False},
    }
    if "project" not in settings.setting_sources:
        configuration["project_doc_max_bytes"] = 0
    if settings.reasoning_effort is not None:
        configuration["model_reasoning_effort"] = settings.reasoning_effort
    if gate is not None:
        configuration["hooks"] = gate
    if not brings_own:
        configuration["mcp_servers"] = {}
    return configuration


def toml(value: object) -> str:
    """A value as TOML, on one line."""
    if is_json_mapping(value):
        return "{" + ", ".join(f"{json.dumps(name)} = {toml(each)}" for name, each in value.items()) + "}"
    if is_json_list(value):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


_NAME = CODING_AGENTS["codex"].title
_LOGIN = "auth.json"
_LOCK = "lock"
_LOGGED = "error,codex_core::tools::router=off"  # the outcome is a call that never gets its result
_KEY_VARIABLES = ("CODEX_API_KEY", "OPENAI_API_KEY")


class CodexHome(Struct, frozen=True, kw_only=True):
    """The surroundings of one process.

    Args:
        environment: All its environment variables.
        api_key: The key to log in with; None for the login of the user, or none.
        directory: A directory of its own, for the socket of the gate.
    """

    environment: Mapping[str, str]
    api_key: str | None
    directory: str

    def __repr__(self) -> str:  # the others are secret
        return f"CodexHome({self.directory!r})"


@asynccontextmanager
async def codex_home(launch: Launch) -> AsyncGenerator[CodexHome, None]:
    """Make the directories of a process, and remove them.

    Args:
        launch: The process to start.

    Raises:
        CodingAgentError: They cannot be made.
    """
    variables = {name: value for name, value in os.environ.items() if not name.startswith("CODEX_")}
    variables |= {"NO_COLOR": "1", "RUST_LOG": _LOGGED, **dict(launch.variables)}
    users = _home_of_user(variables)
    directory, lock = await anyio.to_thread.run_sync(_make_directory)
    try:
        variables["CODEX_HOME"] = str(_make_home(directory, users) if launch.uses_own_home else users)
        yield CodexHome(
            environment=variables,
            api_key=launch.api_key or _key_without_login(launch, users),
            directory=directory,
        )
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(shutil.rmtree, directory, True)
        os.close(lock)


def _home_of_user(variables: Mapping[str, str]) -> Path:
    named = variables.get("CODEX_HOME") or os.environ.get("CODEX_HOME")
    return Path(os.path.abspath(named)) if named else Path.home() / ".codex"


def _key_without_login(launch: Launch, users: Path) -> str | None:
    """The key of the environment where there is no login, and the provider is the usual one."""
    if (users / _LOGIN).exists() or not launch.uses_usual_provider:
        return None
    variables = {**os.environ, **dict(launch.variables)}
    return next((key for name in _KEY_VARIABLES if (key := variables.get(name))), None)


def _make_home(directory: str, users: Path) -> str:
    """Make a home directory."""
    home = os.path.join(directory, "home")
    os.mkdir(home, 0o700)
    if (users / _LOGIN).exists():
        os.symlink(users / _LOGIN, os.path.join(home, _LOGIN))  # Codex renews the login through the link
    return home


def _make_directory() -> tuple[str, int]:
    """Make a directory, and return it with its lock."""
    if sys.platform == "win32":
        raise CodingAgentError(f"{_NAME} is run on Linux and macOS, not on Windows", agent=_NAME)
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nighthawk_async/codex"
        caches.mkdir(parents=True, exist_ok=True)
        with _locked(caches.with_name("codex.lock")):  # a directory has no lock yet when it is made
            for each in caches.iterdir():
                _remove_forgotten(each)
            directory = tempfile.mkdtemp(dir=caches)
            lock = os.open(os.path.join(directory, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, RuntimeError) as error:  # there may be no home directory
        raise CodingAgentError(
            f"{_NAME} needs a directory of its own in the user's cache directory, and none can be made: "
            f"{error}; set XDG_CACHE_HOME to a directory that is writable",
            agent=_NAME,
        ) from None
    return directory, lock


def _remove_forgotten(directory: Path) -> None:
    """Remove a directory if its program was killed: then nothing locks it."""
    try:
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:  # it was killed while it made or removed the directory
        shutil.rmtree(directory, ignore_errors=True)
        return
    except OSError:
        return
    try:
        if _lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(lock)


@contextmanager
def _locked(path: Path) -> Generator[None, None, None]:
    """Hold a lock among all programs of the user."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _lock(file: int, operation: int) -> bool:
    """Lock a file; return whether it is locked now. Some file systems have no locks."""
    try:
        fcntl.flock(file, operation)
    except OSError:
        return False
    return True


_LOGGER = logging.getLogger("nighthawk.codex")
_FACTS = CODING_AGENTS["codex"]
_AGENT = _FACTS.title
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
                _LOGGER.warning("%s could not be ended cleanly: %r", _AGENT, error)
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
                _AGENT,
                [launch.executable, *launch.arguments, *flags],
                environment=home.environment,
                folder=None,
                logger=_LOGGER,
            )
        except OSError as error:
            raise CodingAgentMissingError(
                f"{_AGENT} cannot be started as {launch.executable!r} ({error.strerror or error}): "
                f"install it, for example with `npm install -g {_FACTS.package}`, or set `executable`",
                agent=_AGENT,
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
