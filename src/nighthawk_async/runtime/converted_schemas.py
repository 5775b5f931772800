"""Core schemas of values that the validators of their types have made already.

A validator that converts must not see its own result: it would convert it again, or refuse it. So the schema
of a converted value leaves out what ran before pydantic's own validation, JSON and encodings included, and
takes the result of any other function as it is. Functions that only check, because they give back what they
are given, keep their place: what they refuse was changed after it was made.

Guarded by `tests/specification/test_7_converted_once.py` and `tests/unit/runtime/test_converted_schemas.py`.
"""

import dis
import functools
import inspect
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any, Protocol, cast

from pydantic import EncodedBytes, EncodedStr

from .core_schemas import Change, with_inner


class Judge(Protocol):
    """Decides what the validations of a converted value are evidence for."""

    def checking(self, function: Callable[..., object], *, is_check: bool) -> Callable[..., object]:
        """Make a function that runs a user's where its verdict counts, and gives back the value.

        Args:
            function: The user's function.
            is_check: Whether it certainly gives back what it is given.
        """
        ...

    def lenient(self, value: object, handler: Callable[[object], object]) -> object:
        """Return a value that a user's function has made, and ignore a validation that says nothing of it."""
        ...


_SUFFIX = ":converted"
_OWN_PACKAGES = ("pydantic", "pydantic_core", "annotated_types", __name__.partition(".")[0])
_OWN_CONVERTERS = ("pydantic.experimental",)  # transformations of the user, in closures of pydantic
_SUSPENDING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_STORING_FIRST = "STORE_FAST_LOAD_FAST"
_LOADING = frozenset(
    {"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", _STORING_FIRST}
    | {"LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"}
)
"""Instructions of CPython 3.11 to 3.14 that leave a variable on the stack, the last that they name."""


def converted_schema(schema: dict[str, Any], change: Change, judge: Judge) -> dict[str, Any]:
    """The schema of a value that a core schema has converted.

    Args:
        schema: The core schema.
        change: The same for the schemas inside.
        judge: Decides which failures count.
    """
    match schema["type"]:
        case "definition-ref":
            return schema | {"schema_ref": schema["schema_ref"] + _SUFFIX}
        case "json":
            inner = change(schema["schema"]) if "schema" in schema else {"type": "any"}
        case "chain":
            inner = change(schema["steps"][-1])
        case "tagged-union" if callable(schema["discriminator"]):  # it may know nothing but data
            inner = {"type": "union", "choices": [change(each) for each in schema["choices"].values()]}
        case "function-before" if _is_of_user(schema):
            inner = change(schema["schema"])
        case "function-plain" if _is_of_user(schema):
            inner = {"type": "any"}
        case "function-wrap" if _is_of_user(schema):
            inner = _lenient(change(schema["schema"]), judge)
        case "function-after" if _is_of_user(schema):
            inner = _after(schema, change(schema["schema"]), judge)
        case _:
            changed = with_inner(schema, change)
            return changed | {"ref": schema["ref"] + _SUFFIX} if "ref" in schema else changed
    return {"type": "chain", "steps": [inner], "ref": schema["ref"] + _SUFFIX} if "ref" in schema else inner


def converted_ref(ref: str) -> str:
    """The reference to the schema of converted values."""
    return ref + _SUFFIX


def _after(schema: dict[str, Any], inner: dict[str, Any], judge: Judge) -> dict[str, Any]:
    function: dict[str, Any] = schema["function"]
    is_check = gives_back(function["function"])
    checking = function | {"function": judge.checking(function["function"], is_check=is_check)}
    checked = {name: each for name, each in schema.items() if name != "ref"}
    checked |= {"schema": inner, "function": checking}
    return checked if is_check else _lenient(checked, judge)


def _lenient(inner: dict[str, Any], judge: Judge) -> dict[str, Any]:
    return {
        "type": "function-wrap",
        "function": {"type": "no-info", "function": judge.lenient},
        "schema": inner,
    }


def _is_of_user(schema: dict[str, Any]) -> bool:
    """Whether a function schema has a function of the user, or one of pydantic that converts for the user."""
    function: Any = schema["function"]["function"]
    while isinstance(function, functools.partial):
        function = cast("Any", function).func
    if isinstance(getattr(function, "__self__", None), EncodedBytes | EncodedStr):
        return True
    module: object = getattr(function, "__module__", None)
    if not isinstance(module, str):
        module = type(function).__module__
    return module.partition(".")[0] not in _OWN_PACKAGES or module.startswith(_OWN_CONVERTERS)


def gives_back(function: Any) -> bool:
    """Whether a function certainly returns the value that it is given, whenever it returns.

    Args:
        function: A function that is called with the value, perhaps as a bound method.
    """
    position = 0
    while not isinstance(function, FunctionType):
        if isinstance(function, MethodType):
            function, position = function.__func__, 1
        elif isinstance(function, functools.partial) and not cast("Any", function).args:
            function = cast("Any", function).func
        else:
            return False
    code = function.__code__
    return code.co_argcount > position and _returns_only(code, code.co_varnames[position])


@functools.lru_cache(maxsize=1024)
def _returns_only(code: CodeType, name: str) -> bool:
    """Whether code certainly returns one variable, never set again; no for instructions that are unknown."""
    if code.co_flags & _SUSPENDING or name in code.co_cellvars:
        return False
    returns, loaded = 0, None
    for each in dis.get_instructions(code):
        named: object = each.argval
        *others, last = cast("tuple[object, ...]", named) or (None,) if isinstance(named, tuple) else (named,)
        if each.opname in _LOADING:
            if name in others and each.opname == _STORING_FIRST:
                return False
        elif "_FAST" in each.opname and name in (*others, last):
            return False  # sets or deletes it
        elif "RETURN" in each.opname:
            if each.opname != "RETURN_VALUE" or each.is_jump_target or loaded != name:
                return False
            returns += 1
        loaded = last if each.opname in _LOADING else None
    return returns > 0
