"""Models that run on this machine: `local:NAME` and `local:/path/to/model.gguf`.

Joins the parts: the weights, the server, and the HTTP client that speaks to it as to any other endpoint. A
model object holds no process; the server belongs to the run, or to the single request outside a run.
"""

import importlib.util
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Annotated, Any, Self, TypeAlias

import anyio
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..catalog.local import GGUF_FILE, LOCAL_MODELS, LocalModelFacts
from ..errors import ConfigurationError, ModelConnectionError, NighthawkError, UnknownModelError
from ..kernel.environment import needs_endpoint, shared_in_run
from ..ports import ForwardedStream, ResponseStream
from ..suggestions import did_you_mean
from ..types.model import ModelCapabilities, ModelRequest, OpenAIChatSettings
from ..wire.openai_chat.codec import OpenAIChatCodec
from ..wire.transport_settings import check_setting_names
from .endpoint import Endpoint, parse_base_url
from .exchange import PoolSource
from .http_model import HttpModel
from .http_pool import pool_of_run
from .local_process import (
    SERVER_PROGRAM,
    LocalServerLaunch,
    ServerAccess,
    ServerProcess,
    available_processors,
)
from .time_limits import TransportSettings, overridden_capabilities
from .weights import are_weights_whole, weights_path

_STARTS_PER_RUN = 4
_ADMITTED_PER_SLOT = 2


class LocalServer:
    """A server that is started when it is first needed and shared by all requests on one event loop.

    Made by `open_local_server`. Holds no task group and no cancel scope: the first request starts the process
    and waits for it; if that request is cancelled, the next one waits for the same process.
    """

    def __init__(self, launch: LocalServerLaunch, program: Path) -> None:
        self._launch = launch
        self._program = program
        self._starting = anyio.Lock()
        self._admission = anyio.Semaphore(launch.parallel_requests * _ADMITTED_PER_SLOT)
        self._process: ServerProcess | None = None
        self._access: ServerAccess | None = None
        self._failure: NighthawkError | None = None
        self._starts = 0
        self._is_closed = False

    @property
    def starts(self) -> int:
        """The number of processes started."""
        return self._starts

    @property
    def process_id(self) -> int | None:
        """The process id of the child; None without a child."""
        return None if self._process is None else self._process.process_id

    @property
    def is_running(self) -> bool:
        """Whether the server answers requests now."""
        return self._access_nowait() is not None

    @asynccontextmanager
    async def admit(self) -> AsyncGenerator[ServerAccess]:
        """Wait for a turn at the server, which is started if it does not run; return its address and key.

        The server takes few connections at a time. A thousand requests queue here, in order, and a request
        that is cancelled in the queue costs the server nothing.

        Raises:
            ConfigurationError: The server cannot be started; later requests get the same error at once.
            ModelConnectionError: The server crashed repeatedly, or its run has ended.
        """
        async with self._admission:
            yield await self._ensure_running()

    async def aclose(self) -> None:
        """End the process within a few seconds, in any state. Never cancelled."""
        self._is_closed = True
        await self._discard()

    async def _ensure_running(self) -> ServerAccess:
        if (access := self._access_nowait()) is not None:
            return access
        async with self._starting:
            if (access := self._access_nowait()) is not None:
                return access
            if self._failure is not None:
                raise copy(self._failure)
            try:
                return await self._start()
            except NighthawkError as error:
                self._failure = error
                await self._discard()
                raise

    def _access_nowait(self) -> ServerAccess | None:
        return None if self._process is None or self._process.has_ended else self._access

    async def _start(self) -> ServerAccess:
        """Start the process, or wait for the one that a cancelled request started."""
        if self._is_closed:
            raise ModelConnectionError(f"The run that served {self._launch.gguf} is over.")
        if self._access is not None:  # it had been serving, and crashed
            await self._discard()
        if self._process is None:
            if self._starts == _STARTS_PER_RUN:
                raise ModelConnectionError(
                    f"The model server for {self._launch.gguf} crashed {self._starts} times in this run."
                )
            self._process = await ServerProcess.spawn(self._launch, self._program)
            self._starts += 1
        self._access = await self._process.wait_until_ready()
        return self._access

    async def _discard(self) -> None:
        process, self._process, self._access = self._process, None, None
        if process is not None:
            await process.stop()


@asynccontextmanager
async def open_local_server(
    launch: LocalServerLaunch, *, program: Path = SERVER_PROGRAM
) -> AsyncGenerator[LocalServer]:
    """A server for the duration of a `with` block; nothing is started before the first request.

    Args:
        launch: The way to start the server.
        program: The program that the child runs.
    """
    if not launch.gguf.is_file():
        raise ConfigurationError(f"There is no model file {launch.gguf}.")
    server = LocalServer(launch, program)
    try:
        yield server
    finally:
        await server.aclose()


ServerSource: TypeAlias = Callable[[LocalServerLaunch], AbstractAsyncContextManager[LocalServer]]
"""Provides the server for a request."""

_MOST_THREADS = 8  # more of them do not make models of this size faster
_REFUSED_SETTINGS = ("base_url", "api_key", "credentials")


class _ServerSettings(BaseModel):
    """The model settings that configure the server. They are never part of a request."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    context_tokens: Annotated[int, Field(ge=128)] | None = None
    parallel_requests: Annotated[int, Field(ge=1)] | None = None
    threads: Annotated[int, Field(ge=1)] | None = None
    start_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0


def create_local_model(
    name: str,
    *,
    settings: Mapping[str, Any] = MappingProxyType({}),
    environment: Mapping[str, str] | None = None,
    pool_source: PoolSource = pool_of_run,
) -> "LocalModel":
    """The model that runs on this machine under that name. Nothing is started.

    Args:
        name: A name of `catalog.local`, or the path of a GGUF file.
        settings: Settings of every request, and of the server: `context_tokens` of each request,
            `parallel_requests` worked on at the same time, `threads`, `start_timeout`.
        environment: Environment variables; None for the process's own.
        pool_source: Provides the connection pool for a request.

    Raises:
        UnknownModelError: There is no such name, and it is no path of a GGUF file.
        ConfigurationError: The extra `local` is not installed, the weights are not here, or a setting is bad.
            The extra and the weights are not needed while all answers are replayed.
    """
    facts = _facts(name)
    if needs_endpoint():
        require_local_extra()
    return LocalModel(
        name=name,
        launch=_launch(_find_gguf(name, facts, environment), facts, settings),
        capabilities=overridden_capabilities(
            facts.capabilities, TransportSettings.from_settings(settings).capabilities
        ),
        settings={**facts.settings, **settings},
        pool_source=pool_source,
    )


def require_local_extra() -> None:
    """Make sure that models can run on this machine.

    Raises:
        ConfigurationError: The extra `local` is not installed.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigurationError(
            "Models that run on this machine need the extra 'local': pip install 'nighthawk-async[local]'"
        )


def server_of_run(launch: LocalServerLaunch) -> AbstractAsyncContextManager[LocalServer]:
    """The server that the active run shares among its steps; without a run, one for the block alone.

    Args:
        launch: The way to start it.
    """
    return shared_in_run(launch, lambda: open_local_server(launch))


class LocalModel:
    """A model that runs on this machine; implements `ports.Model`.

    It holds no process, connection or event-loop object. Made by `create_local_model`.

    Args:
        name: The model's name, without the provider.
        launch: The way to start its server.
        capabilities: Its capabilities.
        settings: Settings of every request.
        pool_source: Provides the connection pool for a request.
        server_source: Provides the server for a request.
    """

    def __init__(
        self,
        *,
        name: str,
        launch: LocalServerLaunch,
        capabilities: ModelCapabilities,
        settings: Mapping[str, Any] = MappingProxyType({}),
        pool_source: PoolSource = pool_of_run,
        server_source: ServerSource = server_of_run,
    ) -> None:
        self._name = name
        self._launch = launch
        self._capabilities = capabilities
        self._settings = _without_server_settings(settings)
        self._pool_source = pool_source
        self._server_source = server_source

    def __repr__(self) -> str:
        return f"LocalModel({self.name!r})"

    @property
    def name(self) -> str:
        """The model id, `local:name`."""
        return f"local:{self._name}"

    @property
    def capabilities(self) -> ModelCapabilities:
        """The capabilities of the model."""
        return self._capabilities

    def settings_of(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """The settings that a request is sent with, those of the model included; for telemetry and budgets.

        Args:
            settings: The settings of the request.
        """
        return {**self._settings, **settings}

    def stream(self, request: ModelRequest) -> ResponseStream:
        """Send a request and stream its response; see `ports.Model.stream`.

        Starts the server when it does not run, and waits for a turn at it.

        Args:
            request: The request.

        Raises:
            ConfigurationError: The request asks for what the model lacks, or the server cannot be started.
            ModelError: The request failed.
        """
        fitted = replace(request, settings=_without_server_settings(request.settings))
        return _LocalResponseStream(lambda: self._server_source(self._launch), self._http_model, fitted)

    def _http_model(self, access: ServerAccess) -> HttpModel:
        return HttpModel(
            codec=OpenAIChatCodec(),
            endpoint=Endpoint(
                model_id=self.name,
                base_url=parse_base_url(f"{access.address}/v1"),
                headers={"authorization": f"Bearer {access.key}"},
            ),
            model_name=self._name,
            capabilities=self._capabilities,
            settings=self._settings,
            pool_source=self._pool_source,
        )


class _LocalResponseStream(ForwardedStream):
    """A response of the server on this machine, which may have to be started first.

    Args:
        server_source: Provides the server.
        http_model: Provides the HTTP client for a request that has a turn at the server.
        request: The request.
    """

    def __init__(
        self,
        server_source: Callable[[], AbstractAsyncContextManager[LocalServer]],
        http_model: Callable[[ServerAccess], HttpModel],
        request: ModelRequest,
    ) -> None:
        self._server_source = server_source
        self._http_model = http_model
        self._request = request
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(self._server_source())
            access = await stack.enter_async_context(server.admit())
            stream = self._http_model(access).stream(self._request)
            await self.enter_source(stream)
            stack.push_async_exit(stream)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stack.__aexit__(exception_type, exception, traceback)


def _facts(name: str) -> LocalModelFacts:
    if name in LOCAL_MODELS:
        return LOCAL_MODELS[name]
    if name.lower().endswith(".gguf"):
        return GGUF_FILE
    raise UnknownModelError(
        f"No local model is called {name!r}; known are {', '.join(LOCAL_MODELS)}, and the path of any GGUF "
        f"file, for example 'local:/path/to/model.gguf'.{did_you_mean(name, LOCAL_MODELS)}"
    )


def _find_gguf(name: str, facts: LocalModelFacts, environment: Mapping[str, str] | None) -> Path:
    if facts.weights is None:
        path = Path(name).expanduser().absolute()
        if needs_endpoint() and not path.is_file():
            raise ConfigurationError(f"There is no model file {path} (in 'local:{name}').")
        return path
    path = weights_path(facts.weights, environment=environment)
    if needs_endpoint() and not are_weights_whole(facts.weights, path):
        raise ConfigurationError(
            f"The weights of local:{name} are not on this machine; fetch them with: "
            f"nighthawk-async models pull {name}"
        )
    return path


def _launch(gguf: Path, facts: LocalModelFacts, settings: Mapping[str, Any]) -> LocalServerLaunch:
    for name in _REFUSED_SETTINGS:
        if settings.get(name) is not None:
            raise ConfigurationError(f"A model that runs on this machine takes no model setting {name!r}.")
    TransportSettings.from_settings(settings)
    names = frozenset(_ServerSettings.model_fields)
    check_setting_names(settings, OpenAIChatSettings, more=names, may_have_others=True)
    try:
        chosen = _ServerSettings.model_validate(_server_settings(settings))
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, each['loc']))!r}: {each['msg']}" for each in error.errors()]
        raise ConfigurationError(f"Bad model setting {'; '.join(faults)}.") from None
    return LocalServerLaunch(
        gguf=gguf,
        context_tokens=chosen.context_tokens or facts.context_tokens,
        parallel_requests=chosen.parallel_requests or facts.parallel_requests,
        threads=chosen.threads or _default_threads(),
        start_timeout=chosen.start_timeout,
    )


def _default_threads() -> int:
    """Leave one processor for the program: llama.cpp's threads spin while they wait for each other."""
    return max(1, min(available_processors() - 1, _MOST_THREADS))


def _server_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in _ServerSettings.model_fields}


def _without_server_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in _ServerSettings.model_fields}
