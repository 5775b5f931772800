"""A server for each test."""

from pathlib import Path

import pytest

from tests.unit.mcp.support import PlainServer


@pytest.fixture
def plain(tmp_path: Path) -> PlainServer:
    """The server of `plain_server.py`, in the folder of the test."""
    return PlainServer(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def _loaded_package() -> None:
    """Load the package `mcp` before the first test, whose loop the import would hold up."""
    from nighthawk_async.mcp import session  # noqa: F401
