"""Python expressions and statements over a step's names.

The names resolve as in Python: step locals, then step globals, then builtins. Code runs like a module
whose variables are the step locals, so functions, classes, lambdas, comprehensions and `global` statements
see and bind the same names as the enclosing code. Names that are not step locals are looked up in the
builtins of the code, a dictionary that looks in the step globals first (guarded by
`tests/specification/test_8_3_expressions.py`).

The code of a step's model is recognised by its file name.
"""

import ast
import builtins
import dis
import functools
import re
import types
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, cast

from .step_context import StepContext

EXPRESSION = "<expression>"
_OF_STEP = re.compile(r"<(?:expression|statements(?: \d+)?)>")


def statements_filename(number: int | None = None) -> str:
    """The file name of statements, numbered in the order of their execution."""
    return "<statements>" if number is None else f"<statements {number}>"


def runs_step_code(kind: type) -> bool:
    """Whether instances of a class run code that the model wrote: methods, properties, a metaclass."""
    return _declares_step_code(kind) or _declares_step_code(type(kind))


def _declares_step_code(kind: type) -> bool:
    return any(
        any(map(_is_of_step, tuple(vars(each).values())))
        for each in kind.__mro__
        if each.__flags__ & _HEAP_TYPE
    )


_HEAP_TYPE = 1 << 9
"""The flag of classes that are made at run time, by `class` for example."""


def _is_of_step(declared: object) -> bool:
    return any(
        isinstance(each, types.FunctionType) and is_step_function(each) for each in functions_in(declared)
    )


def is_step_function(function: types.FunctionType) -> bool:
    """Whether the model wrote a function."""
    return _OF_STEP.fullmatch(function.__code__.co_filename) is not None


def functions_in(declared: object) -> tuple[object, ...]:
    """The functions in a declaration of a class; an unknown kind of declaration is returned itself."""
    if isinstance(declared, classmethod | staticmethod):
        return (cast("staticmethod[Any, Any]", declared).__func__,)
    if isinstance(declared, property):
        return (declared.fget, declared.fset, declared.fdel)
    if isinstance(declared, functools.cached_property | functools.partial | functools.partialmethod):
        return (cast("Any", declared).func,)
    return (declared,)


_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_BUILTINS = "__builtins__"
_LISTED_NAMES = 40


class _Builtins(dict[str, object]):
    """Builtins of evaluated code: CPython looks here for names that are not globals.

    It looks up `__import__` without calling `__getitem__`. A class body looks here for every name outside it,
    because its lookup of globals ignores `__missing__`.
    """

    __slots__ = ("_context",)

    def __init__(self, context: StepContext) -> None:
        super().__init__(__import__=builtins.__import__)
        self._context = context

    @property
    def context(self) -> StepContext:
        """The state of the step."""
        return self._context

    def __getitem__(self, name: str) -> object:
        step_globals = self._context.step_globals
        if name in step_globals:
            return step_globals[name]
        return vars(builtins)[name] if name in vars(builtins) else super().__getitem__(name)


class _NamedBuiltins(_Builtins):
    """Builtins for a step that sees only what its block names.

    `__import__` stays, because functions written in C import through the builtins of the calling code. Code
    of the step cannot use that name (`permissions.internals`). A class body reads `__name__`.
    """

    __slots__ = ()

    def __getitem__(self, name: str) -> object:
        context = self._context
        if name in context.referenced_globals or name == "__name__":
            return context.step_globals[name]
        if name == "__import__" or name in (context.visible_builtins or ()):
            return vars(builtins)[name]
        if name in context.write_names:  # it has no value yet
            raise KeyError(name)
        raise name_not_visible(name, context)


def context_of_code(frame: types.FrameType) -> StepContext | None:
    """The state of the step whose model wrote the code of a frame; None for other code.

    Args:
        frame: The frame.
    """
    names: object = frame.f_builtins  # those that the code began with, also after an `await`
    return names.context if isinstance(names, _Builtins) else None


class StepNamespace:
    """The names of one step, as code evaluated in it sees them.

    Args:
        context: The state of the step.
    """

    __slots__ = ("_builtins", "_context")

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._builtins = (_Builtins if context.visible_builtins is None else _NamedBuiltins)(context)

    def run(self, code: types.CodeType) -> object:
        """Evaluate an expression or execute statements.

        Returns:
            The value of an expression; None for statements; a coroutine for code with a top-level `await`.
        """
        names = self._context.step_locals
        names[_BUILTINS] = self._builtins  # as `active`, which takes longer than most code
        try:
            # A step exists to evaluate what the model wrote; sandboxing is not a goal (specification 2).
            return eval(code, names)
        finally:
            names.pop(_BUILTINS, None)

    @contextmanager
    def active(self) -> Generator[None, None, None]:
        """Put the builtins of the step into its globals, as `eval` and `exec` do, for a `with` statement."""
        names = self._context.step_locals
        names[_BUILTINS] = self._builtins
        try:
            yield
        finally:
            names.pop(_BUILTINS, None)


def name_not_visible(name: str, context: StepContext, *, why: str = "") -> NameError:
    """The error for a name that the block does not name; it lists the visible ones.

    Args:
        name: The name.
        context: The state of a step that sees only what its block names.
        why: A prefix of the message.
    """
    names = {*context.step_locals, *context.referenced_globals, *(context.visible_builtins or ())}
    visible = sorted(each for each in names if not each.startswith("__"))
    listed = ", ".join(visible[:_LISTED_NAMES]) or "none"
    if len(visible) > _LISTED_NAMES:
        listed += f" and {len(visible) - _LISTED_NAMES} more"
    return NameError(f"{why}name {name!r} is not visible in this block; visible: {listed}", name=name)


@lru_cache(maxsize=1024)
def compile_expression(expression: str) -> types.CodeType:
    """Compile an expression; results are cached.

    Raises:
        SyntaxError: The text is not one expression.
    """
    return _compile(expression.strip(), filename=EXPRESSION, mode="eval")


def compile_statements(statements: str, *, filename: str) -> types.CodeType:
    """Compile a block of statements.

    Raises:
        SyntaxError: The text is not Python.
    """
    return _compile(statements, filename=filename, mode="exec")


def are_statements(text: str) -> bool:
    """Whether a text that is no expression is Python statements."""
    try:
        compile_statements(text, filename=EXPRESSION)
    except SyntaxError:
        return False
    return True


def calls_something(expression: str) -> bool:
    """Whether the text of an expression contains a call or an `await`; False if it is not an expression."""
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return any(isinstance(node, ast.Call | ast.Await) for node in ast.walk(tree))


def mentioned_names(code: types.CodeType) -> frozenset[str]:
    """Every name that the code, or a function in it, may look up or bind outside its own locals."""
    names = set(code.co_names)
    for inner in _inner_codes(code):
        names |= mentioned_names(inner)
    return frozenset(names)


def bound_names(code: types.CodeType) -> frozenset[str]:
    """The names that module-level code, or a `global` statement inside it, may bind or delete."""
    names = {
        str(instruction.argval)
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("STORE_NAME", "DELETE_NAME")
    }
    return frozenset(names | declared_global(code))


def declared_global(code: types.CodeType) -> set[str]:
    """The names that `global` statements in code declare, and that it binds or deletes."""
    names = {
        str(instruction.argval)
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")
    }
    return names.union(*(declared_global(inner) for inner in _inner_codes(code)))


def _inner_codes(code: types.CodeType) -> list[types.CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def parse_code(text: str, *, filename: str, mode: str) -> ast.AST:
    """Parse code that may have a top-level `await`.

    Raises:
        SyntaxError: The text is not Python.
    """
    flags = ast.PyCF_ONLY_AST | _FLAGS
    return cast("ast.AST", compile(text, filename, mode, flags=flags, dont_inherit=True))


def compile_tree(tree: ast.AST, *, filename: str, mode: str) -> types.CodeType:
    """Compile a parsed tree that was changed; missing locations are filled in.

    Raises:
        SyntaxError: Python does not allow it.
    """
    whole = cast("Any", ast.fix_missing_locations(tree))
    return compile(whole, filename, mode, flags=_FLAGS, dont_inherit=True)


def with_constant(code: types.CodeType, placeholder: str, value: object) -> types.CodeType:
    """Return code in which an object takes the place of a constant, in the functions in it too.

    Args:
        code: The code.
        placeholder: The constant.
        value: The object.
    """
    constants = [
        with_constant(each, placeholder, value)
        if isinstance(each, types.CodeType)
        else value
        if each == placeholder
        else each
        for each in code.co_consts
    ]
    return code.replace(co_consts=tuple(constants))


def _compile(text: str, *, filename: str, mode: str) -> types.CodeType:
    try:
        return compile(text, filename, mode, flags=_FLAGS, dont_inherit=True)
    except (MemoryError, RecursionError) as error:  # raised by CPython for deep nesting
        raise SyntaxError("the code is nested too deeply") from error
    except ValueError as error:  # null bytes, lone surrogates
        raise SyntaxError(str(error)) from error
