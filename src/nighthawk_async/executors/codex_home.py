"""The directories of one process of Codex: its home, in which only the login is the user's, and its socket.

They are in the cache directory of the user, where no sandbox of Codex lets a command write, as it does among
temporary files. Each has a lock while its program lives; those of programs that were killed are removed.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct

from ..catalog.coding_agents import CODING_AGENTS
from .codex_launch import Launch
from .coding_agent_errors import CodingAgentError

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
