"""Python expressions and statements over a step's names. Floor 3.

The names resolve as in Python: step locals, then step globals, then builtins. Functions, lambdas and
comprehensions inside an expression look their names up in what CPython calls the globals of the frame, so
those are a dictionary that falls back to the same two layers (guarded by
`tests/specification/test_8_3_expressions.py`).
"""

import ast
import builtins
import types
from collections.abc import Iterator, Mapping
from functools import lru_cache

from .step_context import StepContext

__all__ = ["StepNamespace", "compile_expression", "compile_statements", "mentioned_names"]

_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class _Scope(dict[str, object]):
    """Globals of evaluated code: empty but for `__builtins__`, and every miss goes to the step's names."""

    __slots__ = ("_context",)

    def __init__(self, context: StepContext) -> None:
        super().__init__(__builtins__=builtins, __name__=context.step_globals.get("__name__", "__main__"))
        self._context = context

    def __missing__(self, name: str) -> object:
        context = self._context
        if name in context.step_locals:
            return context.step_locals[name]
        return context.step_globals[name]


class _Locals(Mapping[str, object]):
    """Locals of evaluated code: reads fall back to the step globals, writes go to the step locals."""

    __slots__ = ("_context",)

    def __init__(self, context: StepContext) -> None:
        self._context = context

    def __getitem__(self, name: str) -> object:
        context = self._context
        if name in context.step_locals:
            return context.step_locals[name]
        return context.step_globals[name]

    def __setitem__(self, name: str, value: object) -> None:
        self._context.step_locals[name] = value

    def __delitem__(self, name: str) -> None:
        del self._context.step_locals[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._context.step_locals)

    def __len__(self) -> int:
        return len(self._context.step_locals)


class StepNamespace:
    """The names of one step, as code evaluated in it sees them."""

    __slots__ = ("_context", "_locals", "_scope")

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._scope = _Scope(context)
        self._locals = _Locals(context)

    def run(self, code: types.CodeType) -> object:
        """Evaluate an expression or execute statements.

        Returns:
            The value of an expression; None for statements; a coroutine for code with a top-level `await`.
        """
        try:
            # Evaluating what the model wrote is what a step is for; sandboxing is no goal (specification 2).
            return eval(code, self._scope, self._locals)
        finally:
            self.adopt_globals()

    def adopt_globals(self) -> None:
        """Move what a `global` statement of evaluated code has bound to the step locals."""
        for name in [name for name in self._scope if name not in ("__builtins__", "__name__")]:
            self._context.step_locals[name] = self._scope.pop(name)


@lru_cache(maxsize=1024)
def compile_expression(expression: str) -> types.CodeType:
    """Compile an expression; the same text is compiled once.

    Raises:
        SyntaxError: The text is not one expression.
    """
    return compile(expression.strip(), "<expression>", "eval", flags=_FLAGS, dont_inherit=True)


def compile_statements(statements: str, *, filename: str) -> types.CodeType:
    """Compile a block of statements.

    Raises:
        SyntaxError: The text is not Python.
    """
    return compile(statements, filename, "exec", flags=_FLAGS, dont_inherit=True)


def mentioned_names(code: types.CodeType) -> frozenset[str]:
    """Every name that the code, or a function inside it, may look up or bind outside its own locals."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= mentioned_names(constant)
    return frozenset(names)
