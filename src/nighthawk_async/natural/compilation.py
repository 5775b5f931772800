"""From a rewritten definition to a code object that fits the closure of the original.

The definition is compiled inside a skeleton of the scopes around it, so that Python itself mangles private
names, finds `__class__` for `super()`, gives nested functions their qualified names, and makes free variables
of exactly what was a free variable before. The code object is then taken out; the skeleton never runs.
"""

import __future__

import ast
import inspect
from collections.abc import Iterator
from types import CodeType

from ..errors import NaturalParseError
from .generated import CLOSURE_NAMES
from .scope import FunctionNode
from .source import FunctionSource, ScopeNode

__all__ = ["compile_expression", "compile_function", "future_flags", "skeleton_names", "skeleton_scopes"]

_FACTORY = "__nighthawk_factory__"
_FUTURE_FLAGS = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
_KIND_FLAGS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def skeleton_scopes(source: FunctionSource, code: CodeType) -> tuple[ScopeNode, ...]:
    """Return the scopes that the skeleton imitates, outermost first.

    They are the scopes around the definition, unless a `global` declaration took a definition out of them;
    then only the class that private names are mangled with matters.

    Args:
        source: Where the original is defined.
        code: The code of the original.
    """
    if source.qualified_name == code.co_qualname:
        return source.ancestors
    return tuple(scope for scope in source.ancestors if isinstance(scope, ast.ClassDef))[-1:]


def skeleton_names(scopes: tuple[ScopeNode, ...], node: FunctionNode) -> frozenset[str]:
    """Return the names that the functions of the skeleton bind by defining the next scope.

    Args:
        scopes: The scopes of the skeleton.
        node: The definition inside it.
    """
    inner = (*scopes[1:], node)
    return frozenset(
        child.name for scope, child in zip(scopes, inner, strict=False) if not isinstance(scope, ast.ClassDef)
    )


def compile_function(node: FunctionNode, *, scopes: tuple[ScopeNode, ...], original: CodeType) -> CodeType:
    """Compile a rewritten definition.

    Args:
        node: The rewritten definition.
        scopes: The scopes of the skeleton.
        original: The code of the original.

    Raises:
        NaturalParseError: The definition does not fit the original, because the file has changed.
    """
    skeleton, innermost = _skeleton(scopes, node.name, original.co_freevars)
    innermost.body = [*innermost.body[:-1], node]
    try:
        code = compile(
            skeleton, original.co_filename, "exec", flags=future_flags(original), dont_inherit=True
        )
    except SyntaxError as error:
        raise _nested_too_deep(original, error) or _mismatch(original) from error
    for name in (_FACTORY, *(scope.name for scope in scopes), node.name):
        code = next(
            constant
            for constant in code.co_consts
            if isinstance(constant, CodeType) and constant.co_name == name
        )
    if not _fits(code, original):
        raise _mismatch(original)
    return code.replace(co_qualname=original.co_qualname)


def compile_expression(expression: ast.expr, *, original: CodeType) -> CodeType:
    """Compile an expression of a function's source.

    Args:
        expression: The expression.
        original: The code of the function.
    """
    flags = future_flags(original)
    return compile(
        ast.Expression(body=expression), original.co_filename, "eval", flags=flags, dont_inherit=True
    )


def future_flags(code: CodeType) -> int:
    """Return the compiler flags of the `from __future__` imports that a code object was compiled with.

    Args:
        code: Any code object.
    """
    return code.co_flags & _FUTURE_FLAGS


def _skeleton(
    scopes: tuple[ScopeNode, ...], function_name: str, free_names: tuple[str, ...]
) -> tuple[ast.Module, ast.FunctionDef | ast.ClassDef]:
    """Make the scopes around a definition; return their tree and the scope that is to hold it."""
    tree = ast.parse("\n".join(_skeleton_lines(scopes, function_name, free_names)))
    innermost = tree.body[0]
    for _ in scopes:
        assert isinstance(innermost, ast.FunctionDef | ast.ClassDef)
        innermost = innermost.body[-1]
    assert isinstance(innermost, ast.FunctionDef | ast.ClassDef)
    return tree, innermost


def _skeleton_lines(
    scopes: tuple[ScopeNode, ...], function_name: str, free_names: tuple[str, ...]
) -> Iterator[str]:
    """Write the scopes around a definition, with `pass` in its place.

    The innermost function of the skeleton has the free variables as parameters. What the factory defines is
    declared global: it was no free variable, and its qualified name starts with itself.
    """
    parameters = ", ".join((*filter(str.isidentifier, free_names), *CLOSURE_NAMES))
    depths = [depth for depth, scope in enumerate(scopes) if not isinstance(scope, ast.ClassDef)]
    holder = depths[-1] if depths else None
    outermost = scopes[0].name if scopes else function_name
    yield f"def {_FACTORY}({parameters if holder is None else ''}):"
    if holder is not None or outermost not in free_names:
        yield f" global {outermost}"
    for depth, scope in enumerate(scopes):
        kind = "class" if isinstance(scope, ast.ClassDef) else "def"
        yield f"{' ' * (depth + 1)}{kind} {scope.name}({parameters if depth == holder else ''}):"
    yield f"{' ' * (len(scopes) + 1)}pass"


def _fits(code: CodeType, original: CodeType) -> bool:
    """Whether a code object takes the arguments of the original, is of its kind, and finds its variables."""
    return (
        _signature(code) == _signature(original)
        and code.co_flags & _KIND_FLAGS == original.co_flags & _KIND_FLAGS
        and set(code.co_freevars) <= {*original.co_freevars, *CLOSURE_NAMES}
    )


def _signature(code: CodeType) -> tuple[object, ...]:
    variadic = [bool(code.co_flags & flag) for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)]
    count = code.co_argcount + code.co_kwonlyargcount + sum(variadic)
    return (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        *variadic,
        *code.co_varnames[:count],
    )


def _nested_too_deep(original: CodeType, error: SyntaxError) -> NaturalParseError | None:
    if "nested blocks" not in (error.msg or ""):
        return None
    message = (
        f"{original.co_qualname}(): {error.msg}; of the 20 that Python allows, a natural function takes one, "
        "and a natural block another one"
    )
    return NaturalParseError(message, filename=original.co_filename, line=original.co_firstlineno)


def _mismatch(original: CodeType) -> NaturalParseError:
    message = (
        f"the source of {original.co_qualname}() does not fit its code; did the file change after its import?"
    )
    return NaturalParseError(message, filename=original.co_filename, line=original.co_firstlineno)
