"""Which libraries are imported, and from where."""

import re
import sys
import tomllib
from collections import defaultdict
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .source_tree import PACKAGE, SOURCE, parse_package

IMPORT_NAMES = {
    "azure-identity": "azure",
    "google-auth": "google.auth",
    "opentelemetry-api": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry.sdk",
    "pyyaml": "yaml",
}
"""Import names of distributions where the two differ by more than a hyphen."""

PYTEST_PLUGINS = tuple(
    f"{PACKAGE}.testing.{name}"
    for name in (
        *("pytest_plugin", "pytest_evaluations", "pytest_entry_point"),
        *("cassette_tests", "evaluation_tests"),
    )
)
"""Imported by pytest, and by nothing else: it need not be declared that pytest is there."""

HTTP_MODULES = re.compile(rf"{PACKAGE}\.models\.http_\w+|{PACKAGE}\.cli\.(?:top_client|server_facts)")
"""The transport of models, and what reads a dashboard from elsewhere."""

TRACING_MODULES = re.compile(rf"{PACKAGE}\.(?:telemetry\..*|tracing|models\.exchange|asgi\.client_trace)")
"""What makes spans and metrics, and what takes the context of a trace from one place to another."""

COMMAND_LINE = re.compile(rf"{PACKAGE}\.cli\..*")
"""What the extra `cli` is for."""

TEXTUAL_MODULES = re.compile(rf"{PACKAGE}\.cli\.top_(app|tree)")
"""The classes of the terminal view, which are imported when it is opened."""

MCP_MODULES = re.compile(rf"{PACKAGE}\.mcp\.\w+")
"""The sessions with servers, which are imported at the first connection."""

SOCKET_MODULES = {f"{PACKAGE}.models.websocket_connection", f"{PACKAGE}.testing.model_server_websocket"}
"""The two ends of a WebSocket, which are imported when one is opened."""

MODULES = parse_package(SOURCE, PACKAGE)
ROOT = Path(__file__).parents[2]
TABLES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = TABLES["project"]


def import_names(requirements: list[str]) -> set[str]:
    """The import names of distributions."""
    names = {re.split(r"[\s\[<>=!~;]", requirement)[0] for requirement in requirements}
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names - {PROJECT["name"]}}


def is_below(target: str, names: set[str]) -> bool:
    """Whether an imported name is one of the given modules or stands in one."""
    parts = target.split(".")
    return any(".".join(parts[:count]) in names for count in range(1, len(parts) + 1))


def is_of_pytest(module: str) -> bool:
    """Whether a module is used in tests with pytest alone."""
    return module in PYTEST_PLUGINS or is_below(module, {f"{PACKAGE}.testing.contracts"})


MCP_LIBRARIES = {"mcp", "mcp_types", "httpx2"}
REQUIRED = import_names(PROJECT["dependencies"])
OPTIONAL = import_names([each for extra in PROJECT["optional-dependencies"].values() for each in extra])


def test_every_imported_library_is_declared() -> None:
    known = REQUIRED | OPTIONAL | sys.stdlib_module_names | {PACKAGE, "annotationlib"}  # new in Python 3.14
    undeclared = {
        f"{module.name}:{item.line} {item.target}"
        for module in MODULES.values()
        for item in module.imports
        if not is_below(item.target, known)
        and not (is_of_pytest(module.name) and is_below(item.target, {"pytest"}))
    }
    assert undeclared == set()


def test_optional_libraries_are_imported_on_first_use_only() -> None:
    eager = {
        f"{module.name}:{item.line} {item.target}"
        for module in MODULES.values()
        for item in module.imports
        if item.is_top_level
        and is_below(item.target, OPTIONAL)
        and not (TEXTUAL_MODULES.fullmatch(module.name) and is_below(item.target, {"textual"}))
        and not (COMMAND_LINE.fullmatch(module.name) and is_below(item.target, {"rich", "typer"}))
        and not (MCP_MODULES.fullmatch(module.name) and is_below(item.target, MCP_LIBRARIES))
        and not (module.name in SOCKET_MODULES and is_below(item.target, {"wsproto", "httpcore"}))
        and not (TRACING_MODULES.fullmatch(module.name) and is_below(item.target, {"opentelemetry"}))
    }
    assert eager == set()


def test_the_terminal_view_is_imported_on_first_use_only() -> None:
    eager = {
        module.name
        for module in MODULES.values()
        for item in module.imports
        if item.is_top_level and TEXTUAL_MODULES.match(item.target)
    }
    assert {name for name in eager if not TEXTUAL_MODULES.fullmatch(name)} == set()


def test_the_modules_that_need_the_package_mcp_are_imported_by_each_other_only() -> None:
    """The others load them by name, in a worker thread: see `mcp.server`."""
    need = {
        module.name
        for module in MODULES.values()
        for item in module.imports
        if item.is_top_level and is_below(item.target, MCP_LIBRARIES)
    }
    eager = {
        f"{module.name} {item.target}"
        for module in MODULES.values()
        for item in module.imports
        if item.is_top_level and item.target in need and module.name not in need
    }
    assert need
    assert eager == set()


@pytest.mark.parametrize("plugin", PYTEST_PLUGINS[:2])
def test_the_pytest_plugin_is_imported_by_no_other_module(plugin: str) -> None:
    assert _importers(plugin) == set()


def test_asyncio_is_imported_nowhere() -> None:
    """Apart from the program of a sandbox's process, which is none of the library's modules."""
    assert _importers("asyncio") == {f"{PACKAGE}.sandbox.process_program"}


def test_httpx_is_imported_by_http_clients_only() -> None:
    assert {name for name in _importers("httpx") if not HTTP_MODULES.fullmatch(name)} == set()


def test_opentelemetry_is_imported_by_tracing_only() -> None:
    """Everything else reports what happens, once; see `tracing`."""
    assert {name for name in _importers("opentelemetry") if not TRACING_MODULES.fullmatch(name)} == set()


def _importers(library: str) -> set[str]:
    return {
        module.name
        for module in MODULES.values()
        for item in module.imports
        if is_below(item.target, {library})
    }


def test_every_requirement_is_locked_to_releases_that_it_allows() -> None:
    lock = defaultdict[str, list[str]](list)
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        locked = Requirement(line)
        assert not locked.url, f"{line}: a lock names no place"
        lock[canonicalize_name(locked.name)].append(str(locked.specifier).removeprefix("=="))
    optional = chain.from_iterable(PROJECT["optional-dependencies"].values())
    groups = chain.from_iterable(TABLES["dependency-groups"].values())
    named = [*PROJECT["dependencies"], *optional, *(each for each in groups if isinstance(each, str))]
    wrong = [
        each
        for each in map(Requirement, named)
        if each.name != PROJECT["name"]
        and not any(map(each.specifier.contains, lock.get(canonicalize_name(each.name), [])))
    ]
    assert not wrong, f"`make lock ARGS=--no-upgrade` brings constraints.txt up to date: {wrong}"
