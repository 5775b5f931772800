"""A watcher over what attacks try to change: files, connections, the environment, functions and tables."""

import os
import socket
import sys
from pathlib import Path
from types import ModuleType

DECIDING = (
    "nighthawk_async.confined_files",
    "nighthawk_async.sealed_attributes",
    "nighthawk_async.kernel.commands",
    "nighthawk_async.kernel.context",
    "nighthawk_async.library.web",
    "nighthawk_async.library.workspace",
    "nighthawk_async.mcp.methods",
    "nighthawk_async.policies.code_levels.checking",
    "nighthawk_async.policies.code_levels.members",
    "nighthawk_async.policies.code_levels.modules",
    "nighthawk_async.policies.code_levels.replaced_members",
    "nighthawk_async.policies.code_levels.rewriting",
    "nighthawk_async.policies.code_levels.shown",
    "nighthawk_async.policies.permissions.call_checks",
    "nighthawk_async.policies.permissions.free_calls",
    "nighthawk_async.policies.permissions.guarded_calls",
    "nighthawk_async.policies.permissions.protected_parts",
    "nighthawk_async.policies.permissions.rules",
    "builtins",
    "json",
    "math",
    "os",
    "re",
)
"""The modules whose variables stay as they are."""

_FILLED_ON_USE = ("_MADE", "_", "__builtins__", "_cache", "_cache2", "_names", "_shown")


class Watcher:
    """What attacks must not change.

    Args:
        folder: The folder of the canary file, which stays empty.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.canary = str(folder / "canary")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self.done: list[str] = []
        self._before = self._state()

    def note_tables(self) -> None:
        """Take the tables as they are now, after what is loaded on first use."""
        self._before = self._state()

    def close(self) -> None:
        self._listener.close()

    def changes(self) -> list[str]:
        """What has changed since the beginning."""
        found = [f"the file {each}" for each in os.listdir(self.folder)]
        found += [f"the hidden function was called: {each}" for each in self.done]
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            pass
        else:
            connection.close()
            found.append("a connection")
        now = self._state()
        return [*found, *(name for name, value in self._before.items() if now.get(name) != value)]

    def _state(self) -> dict[str, object]:
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        state: dict[str, object] = {"environment": environment, "path": tuple(sys.path)}
        for name in DECIDING:
            module = sys.modules.get(name)
            if isinstance(module, ModuleType):
                state |= {f"{name}.{each}": value for each, value in _variables(module).items()}
        return state


def _variables(module: ModuleType) -> dict[str, object]:
    """The variables of a module: their identities, and copies of what is in containers and classes."""
    return {
        name: (id(value), _contents(value))
        for name, value in vars(module).items()
        if name not in _FILLED_ON_USE
    }


def _contents(value: object) -> object:
    if isinstance(value, set | frozenset | list | tuple):
        return len(value)
    if isinstance(value, dict):
        tables = [each for each in value.values() if isinstance(each, dict)]
        return (*map(id, value.values()), *map(_contents, tables))
    if isinstance(value, type) and value.__module__.startswith("nighthawk_async"):
        return tuple(map(id, vars(value).values()))
    return None
