"""Public modules say exactly what they export."""

import ast
import importlib
from collections.abc import Mapping
from types import ModuleType

import pytest

from .source_tree import PACKAGE, SOURCE, Module, parse_package

PUBLIC_ROOMS = ("resilience", "hooks", "human", "oversight", "testing", "asgi", "evals", "actors", "parallel")
"""The rooms whose exports are public, beside the package itself."""

MODULES = parse_package(SOURCE, PACKAGE)
PUBLIC_MODULES = [
    name for name in (PACKAGE, *(f"{PACKAGE}.{room}" for room in PUBLIC_ROOMS)) if name in MODULES
]


def declared_exports(module: Module) -> list[str] | None:
    """The names in a module's `__all__`, in order; None when it has none.

    Raises:
        AssertionError: It is not a plain list of names.
    """
    for node in module.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            assert isinstance(node, ast.Assign)
            names: object = ast.literal_eval(node.value)
            assert isinstance(names, list), f"{module.name}: __all__ is a plain list"
            return [str(name) for name in names]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return None


def unexported_names(module: Module, loaded: ModuleType) -> set[str]:
    """Public names a module defines, or a package takes from its modules, that `__all__` leaves out."""
    own: set[str] = set()
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.ImportFrom) and node.level and module.is_package:
            own |= {alias.asname or alias.name for alias in node.names}
    exported = set(declared_exports(module) or ())
    return {
        name
        for name in own - exported
        if not name.startswith("_") and not isinstance(getattr(loaded, name, None), ModuleType)
    }


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


def test_no_name_is_exported_twice() -> None:
    """Everywhere, private modules included. That the lists are sorted is the linter's business (RUF022)."""
    exports: Mapping[str, list[str]] = {
        name: names for name, module in MODULES.items() if (names := declared_exports(module)) is not None
    }
    assert exports
    assert [name for name, names in exports.items() if len(names) != len(set(names))] == []
