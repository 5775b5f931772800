"""The package `mcp`, which is loaded at the first connection, in a worker thread: that takes seconds."""

import sys
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import Any

import anyio.to_thread

from ..errors import ConfigurationError

_SESSION = f"{__name__.rpartition('.')[0]}.session"
_loading = Lock()


async def load_session_module() -> Any:
    """Return the module `session`, which imports the package `mcp`.

    Raises:
        ConfigurationError: The package is not installed, or too old.
    """
    loaded = sys.modules.get(_SESSION)
    if loaded is not None and hasattr(loaded, "Session"):
        return loaded
    return await anyio.to_thread.run_sync(_load)


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
