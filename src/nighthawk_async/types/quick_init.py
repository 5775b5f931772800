"""Frozen dataclasses that are made many times in each step, with an `__init__` in a third of the time.

The one that `dataclass` writes sets each field with `object.__setattr__`, which looks its name up in all
classes. The setter of a slot needs no looking up.
"""

from dataclasses import MISSING, fields
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type[Any])


def quick_init(cls: Class) -> Class:
    """Give a frozen, keyword-only dataclass with slots an `__init__` of the same signature and effect.

    Args:
        cls: The class. Each of its fields is an argument.
    """
    given: Any = cls.__init__
    known: dict[str, Any] = {}
    lines = [f"def __init__(self, *, {', '.join(each.name for each in fields(cls))}):"]
    for each in fields(cls):
        name = each.name
        known[f"set_{name}"] = vars(cls)[name].__set__
        if each.default_factory is not MISSING:
            known[f"make_{name}"], known["left_out"] = each.default_factory, given.__kwdefaults__[name]
            lines.append(f"    if {name} is left_out: {name} = make_{name}()")
        lines.append(f"    set_{name}(self, {name})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    exec("\n".join(lines), known)  # as `dataclass` does it
    init = known["__init__"]
    for name in ("__kwdefaults__", "__annotations__", "__qualname__", "__module__"):
        setattr(init, name, getattr(given, name))
    cls.__init__ = init
    return cls
