"""The sessions of runs with servers: resources of the run, opened at the first use."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

from ..errors import NighthawkError
from ..kernel.environment import find_environment
from ..parallel.resources import use_resource
from ..parallel.task_node import ResourceKeeper
from .description import ServerDescription
from .package import load_modules

if TYPE_CHECKING:
    from .session import Session

_SESSION = f"{__name__.rpartition('.')[0]}.session"
_NO_NAME = re.compile(r"[/\[\]]")  # characters that places in the tree use


@asynccontextmanager
async def open_session(description: ServerDescription) -> "AsyncGenerator[Session, None]":
    """Open a session with a server, which ends with the `async with` statement.

    Args:
        description: The server.

    Raises:
        ServerUnavailableError: The server cannot be started or reached.
        ConfigurationError: The package `mcp` is not installed.
    """
    await load_modules(_SESSION)
    from .session import Session

    async with Session(description).opened() as session:
        yield session


async def session_in_run(description: ServerDescription) -> "Session":
    """Return the session of the run with a server, which is opened by the first caller.

    Args:
        description: The server.

    Raises:
        NighthawkError: The run was not entered with `async with`, or belongs to another event loop.
        ServerUnavailableError: The server cannot be started or reached.
        ConfigurationError: The package `mcp` is not installed.
    """
    keeper = find_run_keeper()
    if keeper is None:
        raise NighthawkError(
            "Servers belong to an active run that was entered with `async with`: "
            "`async with nighthawk_async.run(…): …`."
        )
    if not keeper.is_here:
        raise NighthawkError(
            "The servers of a run can be used on its event loop only, and this call comes from another one. "
            "Call it in an async function, or from a thread of anyio.to_thread."
        )
    name = f"server {_NO_NAME.sub('_', description.name)}"
    opener = partial(open_session, description)
    return await use_resource(keeper, description, name, opener, ends_last=True)


def find_session(description: ServerDescription) -> "Session | None":
    """Return the session of the run with a server; None if it has none.

    Args:
        description: The server.
    """
    keeper = find_run_keeper()
    return None if keeper is None else cast("Session | None", keeper.find(description))


def find_run_keeper() -> ResourceKeeper | None:
    """The keeper of the resources of the innermost run; None where there is none."""
    environment = find_environment()
    return None if environment is None else environment.run_state.find_keeper()
