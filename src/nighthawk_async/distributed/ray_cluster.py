"""`RayCluster`: the connection of the program with a cluster of Ray, which its placements share."""

import logging
import os
import sys
import threading
from collections.abc import Generator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

import anyio

from ..errors import ConfigurationError
from ..parallel.event_loop import LoopEvent
from .errors import WorkerStartError
from .ray_library import ray

Result = TypeVar("Result")

_PROBE_SECONDS = 15.0
"""The seconds within which the head of a cluster must accept a connection.

Ray itself tries for minutes, and may then end the program.
"""


def check_package() -> None:
    """Check that Ray is installed, without importing it.

    Raises:
        ConfigurationError: It is not.
    """
    if find_spec("ray") is None:
        raise ConfigurationError("RayWorkers needs the extra 'ray': pip install 'nighthawk-async[ray]'")


async def outcome_of(future: "Future[Result]") -> Result:
    """Wait for a future of any thread, and return its result. A cancelled wait does not cancel it.

    Raises:
        BaseException: The error of the future.
    """
    done = LoopEvent()
    future.add_done_callback(lambda _: done.set())
    await done.wait()
    return future.result()


class RayCluster:
    """The connection of a placement with a cluster.

    A program has one connection at a time. The first placement opens it, unless the program has done so, and
    the last one closes it; with that, a cluster ends that was started here.

    Args:
        address: The address of the cluster: `host:port`, `auto` for the one on this machine, or `local` for a
            new one. None for the one that the program is connected with, or that of the environment variable
            `RAY_ADDRESS`, or a new one.
        runtime_env: The runtime environment of workers.

    Attributes:
        is_connected: Whether it is connected.
    """

    def __init__(self, address: str | None, runtime_env: Mapping[str, Any] | None) -> None:
        self._address = address
        self._runtime_env = None if runtime_env is None else dict(runtime_env)
        self._connection: _Connection | None = None
        self.is_connected = False

    @property
    def has_own_folder(self) -> bool:
        """Whether workers have copies of the working directory."""
        environment = {**ray.get_runtime_context().runtime_env, **(self._runtime_env or {})}
        return bool(environment.get("working_dir"))

    @property
    def worker_environment(self) -> dict[str, Any] | None:
        """The runtime environment that workers need beside that of the connection; None for none."""
        if self._connection is not None and self._connection.runtime_env == self._runtime_env:
            return None
        return self._runtime_env

    async def connect(self) -> None:
        """Connect with the cluster, or start it.

        Raises:
            WorkerStartError: It cannot be reached or started, or the program is connected with another one.
        """
        address = self._address or os.environ.get("RAY_ADDRESS") or "local"
        if "://" in address:
            raise WorkerStartError(
                f"the Ray cluster {address!r} is an address of Ray Client, which has no part of Ray in this "
                "program: run the program on a machine of the cluster, as a job for example, with the "
                "address 'auto' or 'host:port'"
            )
        while True:
            with _registry_lock:
                connection = _find_connection(self._address, address, self._runtime_env)
            if connection is None:  # the program's own
                self.is_connected = True
                return
            if not connection.is_left:
                break
            with anyio.CancelScope(shield=True):  # another placement has just closed it
                await outcome_of(connection.closed)
        self._connection = connection
        try:
            await _probe(address)
            connection.open()
            await outcome_of(connection.opened)
            self.is_connected = True
        except BaseException as error:
            await self.disconnect()
            if isinstance(error, Exception):
                raise WorkerStartError(
                    f"Ray cannot be reached or started at {address!r}: {_text_of(error)}"
                ) from error
            raise

    async def disconnect(self) -> None:
        """Close the connection, if no other placement needs it. Closing again has no effect."""
        connection, self._connection, self.is_connected = self._connection, None, False
        if connection is None:
            return
        with _registry_lock:
            is_last = connection.leave()
        if is_last:
            with anyio.CancelScope(shield=True):
                await outcome_of(connection.closed)


class _Connection:
    """A connection that placements of this program share.

    A thread of its own opens and closes it: the processes of a cluster that is started here end with the
    thread that has started them.
    """

    def __init__(self, address: str, runtime_env: dict[str, Any] | None) -> None:
        self.address = address
        self.runtime_env = runtime_env
        self.users = 1
        self.opened: Future[None] = Future()
        self.closed: Future[None] = Future()
        self._left = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_left(self) -> bool:
        """Whether no placement needs it any more."""
        return self._left.is_set()

    def open(self) -> None:
        """Open it, in its thread; `opened` reports success. Opening again has no effect."""
        with _registry_lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._hold, name="nighthawk-ray", daemon=True)
                self._thread.start()

    def leave(self) -> bool:
        """Note that a placement needs it no more, and return whether that was the last one."""
        self.users -= 1
        if self.users:
            return False
        self._left.set()
        if self._thread is None:
            _forget(self)
        return True

    def _hold(self) -> None:
        try:
            local: dict[str, Any] = {"include_dashboard": False} if self.address == "local" else {}
            with _without_word_of_signals():
                ray.init(address=self.address, runtime_env=self.runtime_env, **local)
        except BaseException as error:  # Ray may exit
            self.opened.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))
        else:
            self.opened.set_result(None)
        self._left.wait()
        try:
            ray.shutdown()
        finally:
            with _registry_lock:
                _forget(self)


@contextmanager
def _without_word_of_signals() -> Generator[None, None, None]:
    """Keep out of the log that Ray handles no SIGTERM in this thread: the program does, as it wants."""
    logger = logging.getLogger("ray._private.worker")

    def is_shown(record: logging.LogRecord) -> bool:
        return "SIGTERM handler is not set" not in record.getMessage()

    logger.addFilter(is_shown)
    try:
        yield
    finally:
        logger.removeFilter(is_shown)


_registry_lock = threading.Lock()
_registry: list[_Connection] = []
"""The connection that placements have opened; at most one."""


def _find_connection(
    wanted: str | None, address: str, runtime_env: dict[str, Any] | None
) -> _Connection | None:
    """Return the connection that placements share, or a new one; None for one that the program has opened."""
    if _registry:
        connection = _registry[0]
        if not connection.is_left:
            _check_same(wanted, address, connection.address)
            connection.users += 1
        return connection
    own = _own_address()
    if own is not None:
        _check_same(wanted, address, own)
        return None
    connection = _Connection(address, runtime_env)
    _registry.append(connection)
    return connection


def _forget(connection: _Connection) -> None:
    _registry.remove(connection)
    connection.closed.set_result(None)


def _own_address() -> str | None:
    """Return the address of the cluster that the program itself is connected with; None for none."""
    if "ray" not in sys.modules:
        return None
    return ray.get_runtime_context().gcs_address if ray.is_initialized() else None


def _check_same(wanted: str | None, address: str, connected: str) -> None:
    if wanted not in (None, "auto", connected) and address != connected:
        raise WorkerStartError(
            f"the program is connected with the Ray cluster {connected!r}, and cannot use {wanted!r} at the "
            "same time"
        )


async def _probe(address: str) -> None:
    """Check that the head of a cluster accepts connections."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        return
    with anyio.fail_after(_PROBE_SECONDS):
        stream = await anyio.connect_tcp(host, int(port))
    await stream.aclose()


def _text_of(error: Exception) -> str:
    """The first line of an error of Ray, most of which are long."""
    if isinstance(error, TimeoutError):
        return f"it did not accept a connection within {_PROBE_SECONDS:g} seconds"
    return str(error).strip().partition("\n")[0] or type(error).__name__
