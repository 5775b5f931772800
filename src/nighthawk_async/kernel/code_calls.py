"""Bounds on calls of functions written in C by a model's code, which nothing ends once they have begun.

Iterators without an end, and long ranges, get checks between their values. Results that are known to be too
large are refused. `time.sleep` lets the event loop run.
"""

import functools
import itertools
import math
import operator
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, MethodDescriptorType
from typing import TYPE_CHECKING, Any, TypeAlias

from ..lazy_exports import LazyModule

if TYPE_CHECKING:
    from . import code_sizes, pausing
else:  # most code calls nothing of this
    code_sizes = LazyModule("nighthawk_async.kernel.code_sizes")
    pausing = LazyModule("nighthawk_async.kernel.pausing")

_Rule: TypeAlias = Callable[..., Any]


def bounded(function: Any) -> Any:
    """Return a function, or one that makes its calls with bounds.

    Args:
        function: The function of a call.
    """
    kind = _type_of(function)
    if kind is type:
        rule = _RULES.get(function)
    elif kind is BuiltinFunctionType or kind is MethodDescriptorType:
        rule = _METHODS.get(function.__name__) or _RULES.get(function)
    else:
        return function
    if rule is None:
        return function

    def call(*args: object, **kwargs: object) -> object:
        if any(map(_is_of_names, args)) or any(map(_is_of_names, kwargs.values())):
            args = tuple(map(_with_names, args))
            kwargs = {name: _with_names(value) for name, value in kwargs.items()}
        return rule(function, *args, **kwargs)

    return call


_OF_NAMES = (eval, exec, globals, locals, vars, dir)
"""Functions that see the names of the frame that calls them."""


def _is_of_names(value: object) -> bool:
    return type(value) is BuiltinFunctionType and value in _OF_NAMES


def _with_names(value: Any) -> Any:
    """Return a function that sees the names of the code, where it is called from a frame of this library."""
    frame: Any = sys._getframe(2) if _is_of_names(value) else None  # pyright: ignore[reportPrivateUsage]
    while frame is not None and not hasattr(frame.f_builtins, "context"):
        frame = frame.f_back
    if frame is None:
        return value
    names, own = frame.f_globals, frame.f_locals
    if value is eval or value is exec:

        def run(source: Any, globals: Any = None, locals: Any = None) -> object:
            if globals is not None:
                return value(source, globals, locals)
            return value(source, names, own if locals is None else locals)

        return run
    found: object = names if value is globals else sorted(own) if value is dir else own

    def look(*of: object) -> object:
        return value(*of) if of else found

    return look


def _type_of(value: object) -> type[object]:
    return type(value)


def _stream(function: _Rule, /, *args: object, **kwargs: object) -> object:
    return function(*map(pausing.CHECKS.stream, args), **kwargs)


def _spread(function: _Rule, /, *args: object, **kwargs: object) -> object:
    return function(*map(pausing.CHECKS.spread, args), **kwargs)


def _ticking(function: _Rule, /, *args: object, **kwargs: object) -> object:
    spread: Any = _spread(function, *args, **kwargs)
    return pausing.CHECKS.each(spread)


def _iterator(function: _Rule, /, *args: object) -> object:
    return _ticking(function, *args) if len(args) > 1 else _stream(function, *args)


def _sum(function: _Rule, /, *args: Any, **kwargs: Any) -> object:
    start: object = kwargs.get("start", args[1] if len(args) > 1 else 0)
    if args:
        code_sizes.check_sum(args[0], start)
    return _stream(function, *args, **kwargs)


def _joined(function: _Rule, /, *args: Any, **kwargs: Any) -> object:
    """Join the texts of a list, or of other values."""
    texts: Any = args[-1] if args else None
    if type(texts) in (list, tuple) and all(isinstance(each, str | bytes) for each in texts):
        code_sizes.check_length(sum(map(len, texts)))
    return _spread(function, *args, **kwargs)


def _replaced(function: Any, /, *args: Any, **kwargs: Any) -> object:
    """Replace parts of a text."""
    texts = args if type(function) is MethodDescriptorType else (function.__self__, *args)
    if len(texts) == 3 and all(isinstance(each, str | bytes) for each in texts):
        text, old, new = texts
        code_sizes.check_length((len(text) // max(1, len(old)) + 1) * len(new))
    return function(*args, **kwargs)


def _sized(function: _Rule, /, *args: object, **kwargs: object) -> object:
    """Call what makes as many characters as a number says."""
    for each in args:
        if isinstance(each, int):
            code_sizes.check_length(each)
    return _spread(function, *args, **kwargs)


def _power(function: _Rule, /, *args: Any, **kwargs: Any) -> object:
    if len(args) == 2 and not kwargs:
        pausing.CHECKS.exponent(*args)
    elif len(args) + len(kwargs) == 3:
        exponent = args[1] if len(args) > 1 else kwargs.get("exp")
        code_sizes.check_modulus(exponent, args[2] if len(args) > 2 else kwargs.get("mod"))
    return function(*args, **kwargs)


def _product(function: _Rule, /, *args: Any) -> object:
    if len(args) == 2:
        pausing.CHECKS.factor(*args)
    return function(*args)


def _shift(function: _Rule, /, *args: Any) -> object:
    if len(args) == 2:
        pausing.CHECKS.shift(*args)
    return function(*args)


def _factorial(function: _Rule, /, *args: Any) -> object:
    if args and isinstance(args[0], int):
        code_sizes.check_bits(args[0] * args[0].bit_length())
    return function(*args)


def _choices(function: _Rule, /, *args: Any) -> object:
    if len(args) == 2 and all(isinstance(each, int) for each in args):
        of, chosen = args
        fewer = min(chosen, of - chosen) if function is math.comb else chosen
        code_sizes.check_bits(fewer * of.bit_length())
    return function(*args)


def _sleep(_: _Rule, /, seconds: float) -> None:
    pausing.sleep(seconds)


_OPERATORS: Any = operator
_POWERS: tuple[Any, ...] = (pow, _OPERATORS.pow)
_PRODUCTS: tuple[Any, ...] = (_OPERATORS.mul, _OPERATORS.imul)
_SHIFTS: tuple[Any, ...] = (_OPERATORS.lshift, _OPERATORS.ilshift)

_RULES: Mapping[Any, _Rule] = {
    **dict.fromkeys((list, tuple, set, frozenset, deque, sorted), _spread),
    **dict.fromkeys((min, max, any, all, enumerate, zip, map, filter), _stream),
    **dict.fromkeys((functools.reduce, math.fsum, math.prod, itertools.chain, itertools.islice), _stream),
    **dict.fromkeys((itertools.accumulate, itertools.starmap), _stream),
    sum: _sum,
    **dict.fromkeys((itertools.count, itertools.cycle, itertools.repeat, itertools.product), _ticking),
    **dict.fromkeys((itertools.permutations, itertools.combinations), _ticking),
    itertools.combinations_with_replacement: _ticking,
    iter: _iterator,
    **dict.fromkeys((bytes, bytearray), _sized),
    **dict.fromkeys(_POWERS, _power),
    **dict.fromkeys(_PRODUCTS, _product),
    **dict.fromkeys(_SHIFTS, _shift),
    math.factorial: _factorial,
    **dict.fromkeys((math.comb, math.perm), _choices),
    time.sleep: _sleep,
}

_METHODS: Mapping[str, _Rule] = {
    "join": _joined,
    "replace": _replaced,
    **dict.fromkeys(("extend", "update", "union", "intersection", "difference"), _spread),
    **dict.fromkeys(("issubset", "issuperset", "isdisjoint", "fromkeys", "from_iterable"), _spread),
    **dict.fromkeys(("ljust", "rjust", "center", "zfill"), _sized),
}
"""The rules of methods, by their names."""
