"""Loading on first use: what a package exports, and modules that few calls and annotations need.

The exports of a package are listed in its code, not in a data file beside it, so that they are found in a zip
archive and in a packed application too. Type checkers, linters and editors, which only read, find the same
names as imports under `TYPE_CHECKING` and in `__all__` (`tests/architecture/test_exports.py`).
"""

# Not used here: `dataclasses` inspects this module even while another thread is loading it.
import sys
import typing  # noqa: F401  # pyright: ignore[reportUnusedImport]
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType


def attach_exports(
    package: str, *, names: Mapping[str, Iterable[str]], submodules: Iterable[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package that loads its exports on first use.

    The submodules that names are taken from are attributes of the package, though not exported. So is a name
    that `__all__` leaves out: the type of a result, or an error that its family stands for. It is imported
    under `TYPE_CHECKING` as itself (`from .module import Name as Name`), and `__dir__` does not list it.

    Args:
        package: Its `__name__`.
        names: The names by module, as in `from .module import names`. A module whose name begins
            with two dots is in the parent package, as in `from ..module import names`.
        submodules: The modules that are exported themselves. No other module has the name of an export, which
            Python would set to the module when that is imported.
    """
    modules = {name: module for module, exports in names.items() for name in exports}
    exported = sorted([*submodules, *modules])
    own = {module.partition(".")[0] for module in names if not module.startswith(".")}
    sources = own.difference(exported)
    parts = sources.union(submodules)

    def load_attribute(name: str) -> object:
        if name in parts:
            return import_module(f"{package}.{name}")
        if name in modules:
            module = modules[name]
            source = import_module(module if module.startswith(".") else f".{module}", package)
            found = getattr(source, name)
            vars(import_module(package))[name] = found  # so that Python finds it by itself from now on
            return found
        from .suggestions import did_you_mean  # here, so that the import of the package loads little

        hint = _right_place(name, package, submodules) or did_you_mean(name, [*exported, *sources])
        raise AttributeError(f"module {package!r} has no attribute {name!r}.{hint}")

    return load_attribute, lambda: sorted(sys.modules[package].__all__)


def _right_place(name: str, package: str, submodules: Iterable[str]) -> str:
    """Return a sentence naming the submodule that exports a name; empty when none does."""
    if name.startswith("_"):  # asked for by tools that look at modules
        return ""
    modules = (import_module(f"{package}.{each}") for each in submodules)
    found = next((each.__name__ for each in modules if name in each.__all__), None)
    return "" if found is None else f" It is {found}.{name}."


class LazyModule(ModuleType):
    """A proxy for a module, which is imported on first attribute access.

    It leaves `sys.modules` alone, so that threads may use it at the same time.
    """

    _is_loaded = False

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):  # asked for by tools that look at modules, such as pytest
            raise AttributeError(f"module {self.__name__!r} is loaded on first use of a public name")
        module = sys.modules.get(self.__name__) if self._is_loaded else None
        if module is None:  # or another thread is loading it
            module = import_module(self.__name__)
            self._is_loaded = True
        return getattr(module, name)
