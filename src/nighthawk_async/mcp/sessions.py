"""The sessions of runs with servers.

The package `mcp` is loaded for the first one, in a worker thread: that takes seconds.
"""

import sys
from functools import partial
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import anyio.to_thread

from ..errors import ConfigurationError
from ..runtime.run_state import RunServices
from .description import ServerDescription

if TYPE_CHECKING:
    from .session import Session

_SESSION = f"{__name__.rpartition('.')[0]}.session"
_loading = Lock()


async def session_in(services: RunServices, description: ServerDescription) -> "Session":
    """Return the session of a run with a server, which is opened by the first caller.

    Args:
        services: The services of the run.
        description: The server.

    Raises:
        ServerUnavailableError: The server cannot be started or reached.
        ConfigurationError: The package `mcp` is not installed.
    """
    return cast("Session", await services.get(description, partial(_serve, description)))


def find_session(services: RunServices, description: ServerDescription) -> "Session | None":
    """Return the session of a run with a server; None if it has none.

    Args:
        services: The services of the run.
        description: The server.
    """
    return cast("Session | None", services.find(description))


async def _serve(description: ServerDescription, services: RunServices) -> None:
    """Hold a session open, as a service of a run, until the run ends."""
    loaded: Any = sys.modules.get(_SESSION)
    if not hasattr(loaded, "Session"):  # not loaded, or being loaded by another thread
        loaded = await anyio.to_thread.run_sync(_load)
    await loaded.Session(description).serve(services)


def _load() -> ModuleType:
    with _loading:
        try:
            return import_module(_SESSION)
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "httpx2"):
                raise
            raise ConfigurationError(
                "Servers of the Model Context Protocol need the package mcp, version 2.3 or later: "
                f"pip install 'nighthawk-async[mcp]' ({error})"
            ) from error
