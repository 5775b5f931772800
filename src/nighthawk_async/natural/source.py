"""From a function to its node in the syntax tree of its file, and from there to a new code object.

A file is read through `linecache`, so that zip imports, notebooks and doctests work, and parsed once. The
trees are shared: a change to a function makes new nodes.

A rewritten definition is compiled inside a skeleton of its enclosing scopes, so that Python itself mangles
private names, finds `__class__` for `super()`, gives nested functions their qualified names, and makes
exactly the same free variables as before. The code object is then taken out; the skeleton never runs.
"""

import __future__

import ast
import inspect
import linecache
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import TypeAlias

from msgspec import Struct

from ..errors import NaturalParseError
from .scope import FunctionNode
from .tree import CLOSURE_NAMES

_MAXIMUM_FILES = 32

_SIMPLE_STATEMENTS = (
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.Expr,
    ast.Import,
    ast.ImportFrom,
    ast.Return,
)
"""The frequent statements that hold no others: most of any file."""

ScopeNode: TypeAlias = FunctionNode | ast.ClassDef


class FunctionSource(Struct, frozen=True, kw_only=True):
    """The source of a function.

    Args:
        node: The definition.
        ancestors: The functions and classes that enclose the definition, outermost first.
    """

    node: FunctionNode
    ancestors: tuple[ScopeNode, ...]

    @property
    def class_name(self) -> str | None:
        """The name of the innermost enclosing class; private names are mangled with it."""
        classes = [ancestor.name for ancestor in self.ancestors if isinstance(ancestor, ast.ClassDef)]
        return classes[-1] if classes else None

    @property
    def qualified_name(self) -> str:
        """The qualified name of the function that follows from the nesting."""
        parts = [
            f"{scope.name}." if isinstance(scope, ast.ClassDef) else f"{scope.name}.<locals>."
            for scope in self.ancestors
        ]
        return "".join(parts) + self.node.name


class _ParsedFile(Struct, frozen=True, kw_only=True):
    """One parsed file, with its functions by name and first line."""

    lines: list[str]
    functions: Mapping[tuple[str, int], FunctionSource]


_parsed_files: OrderedDict[str, _ParsedFile] = OrderedDict()


def find_function(function: FunctionType) -> FunctionSource:
    """Find the definition of a function in its source file.

    The caller holds this package's lock and has silenced the compiler's warnings.

    Args:
        function: A plain function.

    Raises:
        NaturalParseError: The source is not available, cannot be parsed, or does not hold the function.
    """
    code = function.__code__
    lines = _read_lines(function)
    if not lines:
        message = f"the source of {function.__qualname__}() is not available; define it in a file"
        raise NaturalParseError(message, filename=code.co_filename, line=code.co_firstlineno)
    found = _parsed_file(code.co_filename, lines).functions.get((code.co_name, code.co_firstlineno))
    if found is None:
        message = f"{function.__qualname__}() is not defined here; did the file change after its import?"
        raise NaturalParseError(message, filename=code.co_filename, line=code.co_firstlineno)
    return found


def _read_lines(function: FunctionType) -> list[str]:
    filename = function.__code__.co_filename
    linecache.checkcache(filename)
    lines = linecache.getlines(filename, function.__globals__)
    if lines:
        return lines
    try:  # an interactive interpreter can know the source of a function although its file name is no file
        return list(inspect.findsource(function)[0])
    except (OSError, TypeError):
        return []


def _parsed_file(filename: str, lines: list[str]) -> _ParsedFile:
    """Parse a file, unless its lines have not changed since the last time."""
    parsed = _parsed_files.get(filename)
    if parsed is None or parsed.lines != lines:
        parsed = _ParsedFile(lines=lines, functions=_index(_parse(filename, lines)))
        _parsed_files[filename] = parsed
    _parsed_files.move_to_end(filename)
    if len(_parsed_files) > _MAXIMUM_FILES:
        _parsed_files.popitem(last=False)
    return parsed


def _parse(filename: str, lines: list[str]) -> ast.Module:
    try:
        return ast.parse("".join(lines), filename=filename)
    except (SyntaxError, ValueError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        message = f"the source cannot be parsed ({error}); did the file change after its import?"
        raise NaturalParseError(message, filename=filename, line=line) from error


def _index(tree: ast.Module) -> dict[tuple[str, int], FunctionSource]:
    """List every function of a tree by its name and its first line, which is that of its first decorator."""
    functions: dict[tuple[str, int], FunctionSource] = {}
    pending: list[tuple[ast.AST, tuple[ScopeNode, ...]]] = [(tree, ())]
    while pending:
        parent, ancestors = pending.pop()
        for child in _statements_below(parent):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                first_line = child.decorator_list[0].lineno if child.decorator_list else child.lineno
                functions[child.name, first_line] = FunctionSource(node=child, ancestors=ancestors)
                pending.append((child, (*ancestors, child)))
            elif isinstance(child, ast.ClassDef):
                pending.append((child, (*ancestors, child)))
            elif not isinstance(child, _SIMPLE_STATEMENTS):
                pending.append((child, ancestors))
    return functions


def _statements_below(node: ast.AST) -> Iterator[ast.AST]:
    """Yield statements, handlers and match cases directly below a node; expressions define no functions."""
    fields = vars(node)
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        children: list[ast.AST] | ast.AST | None = fields.get(name)
        if isinstance(children, list):
            yield from children


_FACTORY = "__nighthawk_factory__"
_FUTURE_FLAGS = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
_KIND_FLAGS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def skeleton_scopes(source: FunctionSource, code: CodeType) -> tuple[ScopeNode, ...]:
    """Return the scopes that the skeleton imitates, outermost first.

    They are the enclosing scopes, unless a `global` declaration took the definition out of them; then only
    the class that private names are mangled with matters.

    Args:
        source: The source of the original.
        code: The code of the original.
    """
    if source.qualified_name == code.co_qualname:
        return source.ancestors
    return tuple(scope for scope in source.ancestors if isinstance(scope, ast.ClassDef))[-1:]


def skeleton_names(scopes: tuple[ScopeNode, ...], node: FunctionNode) -> frozenset[str]:
    """Return the names that the functions of the skeleton bind when they define the next scope.

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
    """Make the scopes that enclose a definition; return their tree and the scope for the definition."""
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
    """Write the scopes that enclose a definition, with `pass` in its place.

    The innermost function of the skeleton has the free variables as parameters. The definition inside the
    factory is declared global: it was no free variable, and its qualified name starts with itself.
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
    """Whether a code object has the arguments, the kind and the variables of the original."""
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
