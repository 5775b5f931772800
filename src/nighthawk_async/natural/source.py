"""From a function to its node in the syntax tree of its file.

A file is read through `linecache`, so that zip imports, notebooks and doctests work, and parsed once. The
trees are shared: whoever changes a function makes new nodes.
"""

import ast
import inspect
import linecache
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import TypeAlias, cast

from msgspec import Struct

from ..errors import NaturalParseError
from .scope import FunctionNode

__all__ = ["FunctionSource", "find_function"]

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
        ancestors: The functions and classes around the definition, outermost first.
    """

    node: FunctionNode
    ancestors: tuple[ScopeNode, ...]

    @property
    def class_name(self) -> str | None:
        """The name of the innermost class around the definition; private names are mangled with it."""
        classes = [ancestor.name for ancestor in self.ancestors if isinstance(ancestor, ast.ClassDef)]
        return classes[-1] if classes else None

    @property
    def qualified_name(self) -> str:
        """The qualified name that the nesting gives the function."""
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

    The caller holds the room's lock and has silenced the compiler's warnings.

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
    """Parse a file, unless its lines are those parsed last time."""
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
        children: object = fields.get(name)
        if isinstance(children, list):
            yield from cast("list[ast.AST]", children)
