"""Under which names loaded modules export a function: `os.getpid` is `posix.getpid`. Floor 3."""

import sys
import types
from typing import cast

__all__ = ["exported_names"]


def exported_names(function: object) -> list[str]:
    """The names, with modules, under which a function, class or method can be imported.

    Only modules that export it, or the class around it, by its own name are found.

    Args:
        function: What is looked for; nothing is found for what has no name of its own.
    """
    if not isinstance(function, type | types.FunctionType | types.BuiltinFunctionType):
        return []
    head, dot, method = function.__qualname__.partition(".")
    exported = function
    if dot:
        exported = _attributes(sys.modules.get(function.__module__)).get(head)
    if exported is None:
        return []
    modules = tuple(sys.modules.items())  # other threads may import meanwhile
    return [
        f"{name}.{head}{dot}{method}" for name, module in modules if _attributes(module).get(head) is exported
    ]


def _attributes(module: object) -> dict[str, object]:
    """The variables of a module, without loading one that is loaded when it is used."""
    if not isinstance(module, types.ModuleType):
        return {}
    return cast("dict[str, object]", object.__getattribute__(module, "__dict__"))
