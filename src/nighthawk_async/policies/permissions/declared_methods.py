"""Declared methods that run when an object or class is called: `__call__`, `__init__` and `__new__`.

They are looked up as Python does in a call: on the type, without calling descriptors or `__getattr__`.

A function has all the names under which loaded modules export it: `os.getpid` is `posix.getpid`. Exports that
a package loads on first use (PEP 562), as this one does, count before they are loaded.
"""

import functools
import sys
import types
from collections.abc import Callable, Collection
from importlib.util import find_spec
from typing import Any, cast

from .callables import function_title, layers_of, without_context

_OWN_PACKAGE = __name__.partition(".")[0]


def exported_names(function: object) -> list[str]:
    """Return the names, with modules, under which a function, class or method can be imported.

    Only modules that export it, or its class, by its own name are found.

    Args:
        function: The function, class or method; an object without a name of its own has no exported names.
    """
    if not isinstance(function, type | types.FunctionType | types.BuiltinFunctionType):
        return []
    head, dot, method = function.__qualname__.partition(".")
    module = str(getattr(function, "__module__", None))  # a class may be made without one
    exported = _attributes(sys.modules.get(module)).get(head) if dot else function
    if exported is None:
        return []
    if module.partition(".")[0] == _OWN_PACKAGE:
        _load_public_modules()
    modules = tuple(sys.modules.items())  # other threads may import meanwhile
    return [f"{name}.{head}{dot}{method}" for name, module in modules if _export(module, head) is exported]


def _export(module: object, name: str) -> object:
    """Return the object of a name in a module; an export that is not loaded yet is loaded."""
    variables = _attributes(module)
    if name in variables or name not in _exported_on_use(variables):
        return variables.get(name)
    try:
        return getattr(module, name)
    except (
        Exception
    ):  # a package that it needs is not installed, or the name is deprecated and warnings are errors
        return None


def _load_public_modules() -> None:
    """Load the public modules of this package, which export names of its private ones."""
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
    """Return the variables of a module, without loading a lazy module."""
    # By its type: libraries of cffi are found as modules, say that they are ones, and have no variables.
    if not issubclass(type(module), types.ModuleType):
        return {}
    return cast("dict[str, object]", object.__getattribute__(module, "__dict__"))


_NAMES = ("__call__", "__init__", "__new__")

_ROUTINE_TYPES = (
    *(types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType),
    *(types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType),
    type(functools.cache(len)),
)


def is_callable_object(function: object) -> bool:
    """Whether a call runs the `__call__` of its type: it is neither a class nor a function of any kind."""
    return not isinstance(function, (type, *_ROUTINE_TYPES))


def declared_call(function: object) -> Callable[..., object] | None:
    """Return the function that a call of an object runs, bound as by Python; None for unknown parameters."""
    declared = _declared(type(function), "__call__")
    if isinstance(declared, types.FunctionType):
        return types.MethodType(declared, function)
    inner = _unbound(declared)
    if not isinstance(inner, types.FunctionType):
        return None
    return types.MethodType(inner, type(function)) if isinstance(declared, classmethod) else inner


def declared_by(function: object) -> tuple[object, ...]:
    """Return the functions that run when an object or class is called, and those that they wrap."""
    return tuple(_declared_functions(function)[0])


def borrowed_by(function: object) -> tuple[object, ...]:
    """Return the functions of `declared_by` that are not methods of the classes that declare them.

    They have names of their own, `class Text(str): __call__ = send_mail`, or are methods of other classes.
    """
    declared, owners = _declared_functions(function)
    return tuple(each for each in declared if not _is_method_of(each, owners))


def smuggled_by(function: object) -> tuple[object, ...]:
    """Return the functions of `borrowed_by` for a class that no module exports: the model may have made it.

    Methods of the class by other names, `__call__ = run`, are its own.
    """
    declared, owners = _declared_functions(function)
    smuggled = [each for each in declared if not _is_method_of(each, owners, names=())]
    if not smuggled or exported_names(function if isinstance(function, type) else type(function)):
        return ()
    return tuple(smuggled)


def title_of(function: object) -> str:
    """Return the name of a callable for messages and requests, with the functions that it borrows."""
    borrowed = dict.fromkeys(map(function_title, borrowed_by(function)))
    title = function_title(function)
    return f"{title} ({', '.join(borrowed)})" if borrowed else title


def _declared_functions(function: object) -> tuple[list[object], set[str]]:
    """Return the functions that run when an object is called, and the names of their classes."""
    found, owners = dict[int, object](), set[str]()
    left = [function]
    while left:
        for layer in layers_of(left.pop()):
            inner = [each for each in _run_by(layer) if id(each) not in found]
            if inner:
                owners.update(_qualified(kind) for kind in _kinds_of(layer))
            for each in inner:
                found.update((id(part), part) for part in layers_of(each))
                left.append(each)
    return list(found.values()), owners


def _kinds_of(function: object) -> tuple[type, ...]:
    kinds = type(function).__mro__
    return (*kinds, *cast("type[object]", function).__mro__) if isinstance(function, type) else kinds


def _is_method_of(function: object, owners: set[str], names: Collection[str] = _NAMES) -> bool:
    """Whether its name is that of a method of one of these classes, or of a method of no known class.

    Args:
        function: The function.
        owners: The names of the classes.
        names: The names that the method may have; empty for any. Without a class it needs one of the default
            names in any case.
    """
    name = getattr(function, "__name__", None)
    if names and name not in names:
        return False
    owner = _qualified(function).rpartition(".")[0]
    return owner in owners if owner else name in _NAMES


def _qualified(function: object) -> str:
    return without_context(str(getattr(function, "__qualname__", "")))


def _run_by(function: object) -> list[object]:
    if isinstance(function, _ROUTINE_TYPES):
        return []
    declared = [_declared(type(function), "__call__")]
    if isinstance(function, type):
        declared += (_declared(function, name) for name in ("__init__", "__new__"))
    found = map(_unbound, declared)
    return [each for each in found if callable(each) and not _is_of_python(each)]


def _is_of_python(function: object) -> bool:
    """Whether it is a method of Python that only makes values: `object.__init__`, `type.__call__`."""
    return isinstance(function, types.WrapperDescriptorType) or (
        isinstance(function, types.BuiltinFunctionType) and function.__name__ == "__new__"
    )


def _declared(kind: type, name: str) -> object:
    """Return the declaration of a name by the first class that has it."""
    return next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)


def _unbound(declared: object) -> object:
    """Return the function in a static method or class method; anything else unchanged."""
    is_method = isinstance(declared, classmethod | staticmethod)
    return cast("object", cast("classmethod[Any, Any, Any]", declared).__func__) if is_method else declared
