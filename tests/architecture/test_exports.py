"""Public modules say exactly what they export."""

import ast
import importlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from .source_tree import PACKAGE, SOURCE, Module, parse_package

PUBLIC_ROOMS = (
    *("resilience", "hooks", "human", "oversight", "testing", "asgi", "actors", "parallel"),
    *("observe", "errors", "models", "executors", "policies", "runtime", "telemetry", "journal"),
    *("library", "skills", "mcp", "credentials", "evals", "distributed", "memory"),
)
"""The rooms whose exports are public, beside the package itself."""

MODULES = parse_package(SOURCE, PACKAGE)
PUBLIC_MODULES = [
    name for name in (PACKAGE, *(f"{PACKAGE}.{room}" for room in PUBLIC_ROOMS)) if name in MODULES
]

LAZY_PACKAGES = [name for name, module in MODULES.items() if module.deferred is not None]
"""The packages that load what they export on first use; type checkers see imports under `TYPE_CHECKING`."""

LAZY_LOADING = (
    "from typing import TYPE_CHECKING",
    "from .lazy_exports import attach_exports",
    "from .lazy_exports import LazyModule, attach_exports",
    "from .tracing import offer_tracing",
    "from ..lazy_exports import attach_exports",
    "from ...lazy_exports import attach_exports",
)


def declared_exports(module: Module) -> list[str] | None:
    """The names in the `__all__` of a module, in order; None when it has none.

    Raises:
        AssertionError: It is not a plain list of names.
    """
    for node in (module.deferred or module.tree).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            assert isinstance(node, ast.Assign)
            names: object = ast.literal_eval(node.value)
            assert isinstance(names, list), f"{module.name}: __all__ is a plain list"
            return [str(name) for name in names]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return None


UNLISTED_IN_MODULES = {
    "errors": {
        *("ConnectTimeoutError", "FirstEventTimeoutError", "IdleTimeoutError", "RequestTimeoutError"),
        *("StepEndedError", "RunForkedError", "UnpicklableError", "RepeatedToolCallError"),
        *("NestedStepLimitError", "ModelProtocolError", "ModelProviderError", "ToolBoundaryError"),
        *("StepStoppedError", "UnsupportedContentError", "SandboxUnavailableError", "AnnotationError"),
        *("TranscriptError", "VerificationError", "AnswerTimeoutError", "TextReplacedError"),
        *("KnownModelError", "ContextTooLongError", "ContentFilterError", "QuotaExhaustedError"),
        *("ModelNotFoundError", "AuthenticationError", "PermissionDeniedError", "RateLimitError"),
        *("OverloadedError", "ToolSearchError"),
    },
}
"""Errors that a module defines and does not list: their families stand for them."""

MOST_ROOT_NAMES = 45
MOST_NAMES = 420


def unexported_names(module: Module, loaded: ModuleType) -> set[str]:
    """Public names a module defines, or a package takes from its modules, that `__all__` leaves out.

    A name that is imported as itself is one that the package has without listing it: the type of a result, or
    an error that its family stands for.
    """
    own: set[str] = set()
    for node in (module.deferred or module.tree).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.ImportFrom) and node.level and module.is_package:
            own |= {alias.name for alias in node.names if alias.asname is None}
    exported = set(declared_exports(module) or ())
    exported |= UNLISTED_IN_MODULES.get(module.name.removeprefix(f"{PACKAGE}."), set())
    return {
        name
        for name in own - exported
        if not name.startswith("_") and not isinstance(getattr(loaded, name, None), ModuleType)
    }


def lazy_imports(module: Module) -> list[str]:
    """The names that a lazy package imports for type checkers, and lists.

    Raises:
        AssertionError: It does something else than import names of the library, and list them.
    """
    assert module.deferred is not None
    names: list[str] = []
    for node in module.deferred.body:
        if isinstance(node, ast.ImportFrom):
            assert node.level <= 2, f"{module.name}: line {node.lineno} leaves the library"
            assert all(alias.asname in (None, alias.name) and alias.name != "*" for alias in node.names)
            names += [alias.name for alias in node.names if alias.asname is None]
        else:
            what = ast.unparse(node)
            assert isinstance(node, ast.Expr) or what.startswith(("__all__ = ", "__version__: ")), what
    return names


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_a_public_module_declares_its_exports(name: str) -> None:
    assert declared_exports(MODULES[name]) is not None


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_every_exported_name_exists(name: str) -> None:
    loaded = importlib.import_module(name)
    exported = declared_exports(MODULES[name]) or []
    assert [each for each in exported if not hasattr(loaded, each)] == []
    assert set(exported) <= set(dir(loaded))


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_every_public_name_is_exported(name: str) -> None:
    assert unexported_names(MODULES[name], importlib.import_module(name)) == set()


def test_a_user_finds_few_names() -> None:
    """Whoever adds one that few programs write gives it to a room, or leaves it unlisted."""
    exports = {name: set(declared_exports(MODULES[name]) or ()) for name in PUBLIC_MODULES}
    assert len(exports[PACKAGE]) <= MOST_ROOT_NAMES
    assert len(set().union(*exports.values())) <= MOST_NAMES


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_what_is_not_listed_can_be_imported(name: str) -> None:
    module, loaded = MODULES[name], importlib.import_module(name)
    unlisted = {
        alias.name
        for node in (module.deferred or module.tree).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    assert {each for each in unlisted if not hasattr(loaded, each)} == set()
    assert unlisted.isdisjoint(declared_exports(module) or ())


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_every_exported_exception_names_a_public_module_that_exports_it(name: str) -> None:
    loaded = importlib.import_module(name)
    for each in declared_exports(MODULES[name]) or []:
        value = getattr(loaded, each)
        if isinstance(value, type) and issubclass(value, BaseException):
            assert value.__module__ in PUBLIC_MODULES, each
            assert value.__qualname__ in (declared_exports(MODULES[value.__module__]) or [])
            assert getattr(importlib.import_module(value.__module__), value.__qualname__) is value


def test_no_package_hides_behind_a_stub() -> None:
    """jedi and pylint read the package itself, so what it exports has to stand there."""
    assert list(SOURCE.rglob("*.pyi")) == []


@pytest.mark.parametrize("name", LAZY_PACKAGES)
def test_a_lazy_package_loads_and_defines_nothing_else(name: str) -> None:
    """What it loads by name has a type by its import alone, so nothing may stand beside the two lists."""
    for node in MODULES[name].tree.body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            assert ast.unparse(node) in LAZY_LOADING
        elif isinstance(node, ast.If):
            functions = [each for each in node.orelse if isinstance(each, ast.FunctionDef)]
            assert [each.name for each in functions] in ([], ["__getattr__"])
            assert "attach_exports(__name__, " in ast.unparse(node.orelse[0])
            assert len(node.orelse) == 1 + len(functions)
        else:
            assert ast.unparse(node).startswith(("__all__ = ", "offer_tracing(")) or isinstance(
                node, ast.Expr
            )


@pytest.mark.parametrize("name", LAZY_PACKAGES)
def test_a_lazy_package_exports_exactly_what_type_checkers_see(name: str) -> None:
    imported = lazy_imports(MODULES[name])
    assert sorted(imported) == sorted(declared_exports(MODULES[name]) or ())
    assert dir(importlib.import_module(name)) == sorted(imported)


@pytest.mark.parametrize("name", LAZY_PACKAGES)
def test_a_lazy_package_loads_each_name_from_where_type_checkers_find_it(name: str) -> None:
    module = MODULES[name]
    assert module.deferred is not None
    calls = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    call = next(each for each in calls if ast.unparse(each.func) == "attach_exports")
    given = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    imports = [node for node in module.deferred.body if isinstance(node, ast.ImportFrom)]
    named = {_source(node): [alias.name for alias in node.names] for node in imports}
    assert list(given.get("submodules", ())) == named.pop(None, [])
    assert {each: list(names) for each, names in given["names"].items()} == named


def _source(node: ast.ImportFrom) -> str | None:
    """The module of an import as `attach_exports` spells it; None for the package itself."""
    return node.module if node.level == 1 else f"{'.' * node.level}{node.module}"


IN_FORKS = """
import os, sys
import anyio, httpx, msgspec, pydantic, trio

for statement in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        exec(statement)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        sys.exit(statement)
"""
"""Runs each statement in an interpreter of its own, in which nothing of the library is loaded yet."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="an interpreter for each of them would take long")
def test_the_modules_that_names_are_loaded_from_are_attributes_of_the_package(all_cases: bool) -> None:
    """As type checkers have it; one module of each package, and weekly another one."""
    statements = [
        f"import {name} as package; assert package.{each} is sys.modules['{name}.{each}']"
        for name in LAZY_PACKAGES
        for each in _first_and_last_module(name)[: 2 if all_cases else 1]
    ]
    assert len(statements) > len(LAZY_PACKAGES) // 2
    run_python("-c", IN_FORKS, *statements)


def _first_and_last_module(package: str) -> list[str]:
    """Two of the modules that a package loads names from, and that no name of it hides."""
    deferred = MODULES[package].deferred
    assert deferred is not None
    imports = [node for node in ast.walk(deferred) if isinstance(node, ast.ImportFrom)]
    sources = {(node.module or "").partition(".")[0] for node in imports if node.level == 1}
    names = sorted(sources - {"", *(alias.name for node in imports for alias in node.names)})
    return list(dict.fromkeys([*names[:1], *names[-1:]]))


def test_the_package_is_imported_from_a_zip_archive(tmp_path: Path) -> None:
    """And wherever its data files were left out."""
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in SOURCE.rglob("*.py"):
            packed.write(path, path.relative_to(SOURCE.parent))
    program = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "import nighthawk_async as nh\n"
        f"assert nh.__file__.startswith({str(archive)!r})\n"
        "nh.NighthawkError, nh.deadline, nh.actors.Mailbox, nh.models.TextDelta, nh.errors.ModelError"
    )
    run_python("-c", program)


def test_the_package_is_imported_whatever_the_encoding_of_the_system() -> None:
    run_python("-X", "warn_default_encoding", "-c", "import nighthawk_async as nh; nh.actors, nh.parallel")


def run_python(*arguments: str) -> None:
    """Run a fresh interpreter in which a warning is an error."""
    command = [sys.executable, "-W", "error", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("name", LAZY_PACKAGES)
def test_a_lazy_package_gives_what_the_module_of_each_name_holds(name: str) -> None:
    """No export has the name of its module: it would be the module once that is imported."""
    deferred = MODULES[name].deferred
    assert deferred is not None
    loaded = importlib.import_module(name)
    for node in deferred.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                source = importlib.import_module(f"{'.' * node.level}{node.module or alias.name}", name)
                assert alias.name != node.module
                expected = getattr(source, alias.name) if node.module else source
                assert getattr(loaded, alias.name) is expected


@pytest.mark.parametrize("name", LAZY_PACKAGES)
def test_a_star_import_of_a_lazy_package_takes_every_name(name: str) -> None:
    names: dict[str, object] = {}
    exec(f"from {name} import *", names)
    assert set(declared_exports(MODULES[name]) or ()) == names.keys() - {"__builtins__"}


@pytest.mark.parametrize("name", LAZY_PACKAGES)
def test_a_misspelt_name_is_refused_with_a_suggestion(name: str) -> None:
    exported = (declared_exports(MODULES[name]) or [""])[0]
    program = f"import {name} as package\npackage.{exported}_"
    result = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert result.stderr.splitlines()[-1].startswith("AttributeError: ")
    assert f"Did you mean: '{exported}'?" in result.stderr
    with pytest.raises(ImportError, match=f"cannot import name '{exported}_'"):
        exec(f"from {name} import {exported}_", {})


def test_the_root_says_where_a_name_of_a_room_is() -> None:
    package = importlib.import_module(PACKAGE)
    for name, place in {"TextDelta": "models", "ModelStatusError": "errors", "Reject": "oversight"}.items():
        with pytest.raises(AttributeError, match=f"It is nighthawk_async.{place}.{name}"):
            getattr(package, name)


def test_every_name_loads_in_many_threads_at_once() -> None:
    """In a fresh interpreter, where nothing is loaded yet."""
    program = (
        "import threading\n"
        "import nighthawk_async as nh\n"
        "names = [*nh.__all__, '__version__']\n"
        "start, failed = threading.Barrier(8), []\n"
        "def load(offset):\n"
        "    start.wait()\n"
        "    for name in names[offset:] + names[:offset]:\n"
        "        try:\n"
        "            getattr(nh, name)\n"
        "        except BaseException as error:\n"
        "            failed.append(repr(error))\n"
        "threads = [threading.Thread(target=load, args=(len(names) * n // 8,)) for n in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "raise SystemExit(failed or None)\n"
    )
    result = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_no_name_is_exported_twice() -> None:
    """Everywhere, private modules included. That the lists are sorted is the linter's business (RUF022)."""
    exports: Mapping[str, list[str]] = {
        name: names for name, module in MODULES.items() if (names := declared_exports(module)) is not None
    }
    assert exports
    assert [name for name, names in exports.items() if len(names) != len(set(names))] == []
