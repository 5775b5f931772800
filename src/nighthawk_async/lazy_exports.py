"""Loading on first use: what a package exports, and modules that few calls and annotations need.

What a package exports stands in its code, not in a data file beside it, so that it is found in a zip archive
and in a packed application too. `__init__.pyi` says the same to type checkers.
"""

# Not used here: `dataclasses` looks at this module as it is, also while another thread is loading it.
import typing  # noqa: F401  # pyright: ignore[reportUnusedImport]
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType

import lazy_loader


def attach_exports(
    package: str, *, names: Mapping[str, Iterable[str]], submodules: Iterable[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a package that loads its exports on first use.

    The submodules that names are taken from are attributes of the package, though not exported.

    Args:
        package: Its `__name__`.
        names: By module, as in `from .module import names`, what it exports.
        submodules: The modules that it exports themselves.
    """
    load, directory, exported = lazy_loader.attach(package, submodules, names)
    sources = {module.partition(".")[0] for module in names}.difference(exported)

    def load_attribute(name: str) -> object:
        return import_module(f"{package}.{name}") if name in sources else load(name)

    return load_attribute, directory, exported


class LazyModule(ModuleType):
    """Stands for a module, which is imported when it is first asked for something.

    Other than `lazy_loader.load` it leaves `sys.modules` alone, so that threads may use it at the same time.
    """

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self.__name__), name)
