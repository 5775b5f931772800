"""Callables of Python that need no permission, and the calls they make in turn.

Free are callables that compute with values. They may call special methods of the values, as `x + y` does,
because these belong to the values. Other methods that they call, such as `file.write` by `print`, and
arguments that they call, such as `key`, are checked like calls in the code. A builtin that is not listed is
not free.
"""

import builtins
import collections
import datetime
import functools
import itertools
import operator
import sys
import types
from collections.abc import Iterator, Mapping
from typing import cast

from ...kernel.cells import OUTPUT
from .callables import called_function, module_of, own_attributes
from .equivalents import REMAKING_DATES, REPLACING, called_method

DATA_MODULES = frozenset({"builtins", "collections", "datetime", "decimal", "fractions"})
_NOT_OF_DATA = (types.FunctionType, types.CodeType)
_WRAPPERS = (collections.UserDict, collections.UserList, collections.UserString, collections.ChainMap)
"""Classes that call methods of the objects inside them by name."""

_FUNCTIONS = """
abs aiter all anext any ascii bin callable chr delattr dir divmod format getattr globals hasattr
hash hex id isinstance issubclass iter len locals max min next oct ord pow print repr round setattr
sorted sum vars
"""
_FREE_FUNCTIONS = frozenset(_FUNCTIONS.split())
_TYPES = """
bool bytearray bytes classmethod complex dict enumerate filter float frozenset int list map
memoryview object property range reversed set slice staticmethod str super tuple type zip
"""
_FREE_TYPES = frozenset(_TYPES.split())

_INSPECTING = (
    *(isinstance, issubclass, callable, getattr, hasattr, delattr, id, repr, ascii, str, format, type, print),
    *(hash, dir, vars, setattr),
)
"""Builtins that neither keep nor call their arguments; `print` calls its `file`."""

_CALLING = (
    *(map, filter, iter, collections.defaultdict, functools.reduce),
    *(itertools.starmap, itertools.accumulate, itertools.groupby),
    *(itertools.takewhile, itertools.dropwhile, itertools.filterfalse, operator.call, setattr, *REPLACING),
)
"""Callables that call one of their positional arguments.

`sorted` and the like only call a keyword argument `key`, which is checked as an argument.
"""

_SLOT_TYPES = (types.WrapperDescriptorType, types.MethodWrapperType, types.BuiltinFunctionType)
_SETTING = "__set__"
_DESCRIPTOR_SLOTS = frozenset({"__get__", _SETTING, "__delete__"})
_CALLING_SLOTS = frozenset({"__call__", "__init__", "__new__", "__setattr__"}) | _DESCRIPTOR_SLOTS
"""Python's own special methods that call an argument, or store it where it is called."""
_METHOD_TYPES = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MethodWrapperType,
)
_HEAP_TYPE = 1 << 9
"""The flag of classes made at run time, for example by `class`."""

_PLAIN_TYPES = frozenset(
    {str, int, float, bool, type(None), bytes, list, tuple, dict, set, frozenset, types.ModuleType}
)
_ASKED_BY_NAME = frozenset(
    {"as_integer_ratio", "dst", "fromutc", "items", "keys", "tzname", "utcoffset", "strftime", "isoformat"}
)
"""Methods without underscores that free builtins call on their arguments: `dict` calls `keys`."""


def is_data_callable(function: object) -> bool:
    """Whether a callable only makes values of Python's own data types, or computes with them.

    Exception types count too, and methods of the output of the step's code. `eval`, `open` and the like do
    not, and neither do callables that merely claim to be of one of Python's modules.
    """
    function = called_function(function)
    if isinstance(function, types.MethodType) and function.__self__ is OUTPUT:
        return True
    if isinstance(function, type):
        if getattr(builtins, function.__name__, None) is function and not issubclass(function, BaseException):
            return function.__name__ in _FREE_TYPES
        if function in _NOT_OF_DATA or function in _WRAPPERS:
            return False
        return _is_data_type(function) or issubclass(function, BaseException)
    if isinstance(function, types.FunctionType):
        name = function.__globals__.get("__name__")
        is_of_wrapper = function.__qualname__.partition(".")[0] in {kind.__name__ for kind in _WRAPPERS}
        return name in DATA_MODULES and not is_of_wrapper and _variables(name) is function.__globals__
    if isinstance(function, _METHOD_TYPES):
        return _is_data_type(function.__objclass__)
    if isinstance(function, types.BuiltinFunctionType):
        return _is_data_function(function)
    return False


def _is_data_function(function: types.BuiltinFunctionType) -> bool:
    owner = function.__self__
    if isinstance(owner, type):  # a class method: `fromkeys` makes an object of this class
        return _is_data_type(owner)
    if owner is not None and not isinstance(owner, types.ModuleType):
        kind = type(owner)
        if isinstance(owner, datetime.date) and function.__name__ in REMAKING_DATES:
            return _is_data_type(kind)  # they make an object of the same class
        return _is_data_type(next((each for each in kind.__mro__ if function.__name__ in vars(each)), kind))
    name = own_attributes(owner).get("__name__")
    if name not in DATA_MODULES or _variables(name).get(function.__name__) is not function:
        return False
    return name != "builtins" or function.__name__ in _FREE_FUNCTIONS


def only_inspects(function: object) -> bool:
    """Whether a builtin neither keeps nor calls its arguments."""
    return any(function is each for each in _INSPECTING)


def calls_its_arguments(function: object) -> bool:
    """Whether a callable of Python's own calls an argument, as `map` and `type.__call__` do."""
    called = called_function(function)
    if any(called is each for each in _CALLING):
        return True
    if (called_method(function) or "").startswith("__"):
        return True
    return isinstance(called, _SLOT_TYPES) and called.__name__ in _CALLING_SLOTS


def called_by_name(
    function: object, args: tuple[object, ...], kwargs: Mapping[str, object], output: object
) -> Iterator[object]:
    """Yield the methods without underscores that a free builtin calls on its arguments.

    Args:
        function: The builtin.
        args: The positional arguments.
        kwargs: The keyword arguments.
        output: The program's own output stream, which `print` may write to.
    """
    if called_function(function) is print:
        file = kwargs.get("file")
        file = sys.stdout if file is None or file is OUTPUT else file
        if file is not output:
            names = ("write", "flush") if kwargs.get("flush") else ("write",)
            yield from (getattr(file, name, None) for name in names)
        return
    owner = getattr(function, "__self__", None)
    if getattr(function, "__name__", None) in _DESCRIPTOR_SLOTS:  # those of a property call its functions
        yield from (each for each in (owner, *args[:1]) if not callable(each))
    for each in (*args, *kwargs.values(), owner):
        if type(each) not in _PLAIN_TYPES and (own := own_attributes(each)):
            yield from (own[name] for name in _ASKED_BY_NAME if name in own)


def assigned_by(function: object, args: tuple[object, ...]) -> tuple[object, str, object] | None:
    """Return the object, attribute and value of an assignment by `setattr`, `__setattr__` or `__set__`."""
    called = called_function(function)
    if isinstance(called, types.MethodWrapperType):
        args = (called.__self__, *args)
    is_slot = isinstance(called, types.WrapperDescriptorType | types.MethodWrapperType)
    name = called.__name__ if is_slot else None
    if len(args) != 3:
        return None
    if name == _SETTING and isinstance(attribute := getattr(args[0], "__name__", None), str):
        return args[1], attribute, args[2]
    if (called is setattr or name == "__setattr__") and isinstance(args[1], str):
        return args[0], args[1], args[2]
    return None


def removed_by(function: object, args: tuple[object, ...]) -> tuple[object, ...]:
    """Return the object and attribute that `__delattr__` or `__delete__` removes; otherwise nothing."""
    if isinstance(function, types.MethodWrapperType):
        args = (function.__self__, *args)
    if not isinstance(function, types.WrapperDescriptorType | types.MethodWrapperType) or len(args) != 2:
        return ()
    if function.__name__ == "__delete__":
        return args[1], getattr(args[0], "__name__", "")
    return args if function.__name__ == "__delattr__" else ()


def _is_data_type(kind: type) -> bool:
    """Whether a class is one of Python's own data types; `__module__` alone is not trusted."""
    module = cast("object", getattr(kind, "__module__", None))
    if module not in DATA_MODULES or kind in _WRAPPERS:
        return False
    is_written_in_c = not kind.__flags__ & _HEAP_TYPE
    return is_written_in_c or _variables(module).get(kind.__name__) is kind


def _variables(module: object) -> Mapping[str, object]:
    return own_attributes(module_of(module))
