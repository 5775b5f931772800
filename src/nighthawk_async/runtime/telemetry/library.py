"""Name and version of this library for telemetry backends. Floor 3."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version

__all__ = ["LIBRARY", "library_version"]

LIBRARY = "nighthawk_async"


@cache
def library_version() -> str | None:
    """The version of the library; None where it is not installed but imported from its source."""
    try:
        return version("nighthawk-async")
    except PackageNotFoundError:
        return None
