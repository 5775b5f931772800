"""Under which names loaded modules export a function: `os.getpid` is `posix.getpid`.

Packages that load what they export on first use (PEP 562), this one among them, export it before that too.
"""

import sys
import types
from importlib.util import find_spec
from typing import cast

__all__ = ["exported_names"]

_OWN_PACKAGE = __name__.partition(".")[0]


def exported_names(function: object) -> list[str]:
    """The names, with modules, under which a function, class or method can be imported.

    Only modules that export it, or the class around it, by its own name are found.

    Args:
        function: What is looked for; nothing is found for what has no name of its own.
    """
    if not isinstance(function, type | types.FunctionType | types.BuiltinFunctionType):
        return []
    head, dot, method = function.__qualname__.partition(".")
    home = str(getattr(function, "__module__", None))  # a class may be made without one
    exported = _attributes(sys.modules.get(home)).get(head) if dot else function
    if exported is None:
        return []
    if home.partition(".")[0] == _OWN_PACKAGE:
        _load_public_modules()
    modules = tuple(sys.modules.items())  # other threads may import meanwhile
    return [f"{name}.{head}{dot}{method}" for name, module in modules if _export(module, head) is exported]


def _export(module: object, name: str) -> object:
    """Return the object that a module has by a name; an export is loaded now."""
    variables = _attributes(module)
    if name in variables or name not in _exported_on_use(variables):
        return variables.get(name)
    try:
        return getattr(module, name)
    except (AttributeError, ImportError):  # what it needs is not installed
        return None


def _load_public_modules() -> None:
    """Load the modules that this package exports: they export what its private ones define."""
    package = sys.modules[_OWN_PACKAGE]
    variables = _attributes(package)
    for name in _exported_on_use(variables):
        if name not in variables and find_spec(f"{_OWN_PACKAGE}.{name}") is not None:
            getattr(package, name)


def _exported_on_use(variables: dict[str, object]) -> list[str] | tuple[str, ...]:
    """Return the names in `__all__` that a module may load on first use; none for other modules."""
    exported = variables.get("__all__") if "__getattr__" in variables else None
    return cast("list[str] | tuple[str, ...]", exported) if isinstance(exported, list | tuple) else ()


def _attributes(module: object) -> dict[str, object]:
    """The variables of a module, without loading one that is loaded when it is used."""
    if not isinstance(module, types.ModuleType):
        return {}
    return cast("dict[str, object]", object.__getattribute__(module, "__dict__"))
