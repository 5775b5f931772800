"""The package `mcp`, which implements the protocol. It is loaded at the first use, which takes seconds."""

from importlib import import_module
from importlib.util import find_spec
from threading import Lock

from ..errors import ConfigurationError
from ..threads import call_in_thread

_PACKAGES = ("mcp", "mcp_types", "httpx2")
_INSTALL = (
    "The Model Context Protocol needs the package mcp, version 2.3 or later: "
    "pip install 'nighthawk-async[mcp]'"
)
_loading = Lock()  # its modules import each other: two threads that import them wait for each other
_loaded: set[str] = set()


def check_package() -> None:
    """Check that the package is installed, without importing it.

    Raises:
        ConfigurationError: It is not.
    """
    if find_spec("mcp") is None:
        raise ConfigurationError(_INSTALL)


async def load_modules(*names: str) -> None:
    """Import modules that import the package, in a worker thread.

    Args:
        names: The names of the modules.

    Raises:
        ConfigurationError: The package is not installed.
    """
    if not _loaded.issuperset(names):
        await call_in_thread(_load, names)


def _load(names: tuple[str, ...]) -> None:
    with _loading:
        try:
            for name in names:
                import_module(name)
                _loaded.add(name)
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in _PACKAGES:
                raise
            raise ConfigurationError(f"{_INSTALL} ({error})") from error
