"""Lines of code of a version."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

__all__ = ["lines_of"]

_SENTINEL = "natural\n"
_NAMED = re.compile(r"(?<=<)[A-Za-z_]\w*|\b[A-Z]\w+")


@cache
def lines_of(function: Callable[..., Any]) -> int:
    """Count the lines of a function and of everything in its module that it uses, blocks included.

    Empty lines, comments, docstrings and imports do not count.

    Args:
        function: The function.
    """
    function = inspect.unwrap(function)
    module = inspect.getmodule(function)
    assert module is not None
    source = inspect.getsource(module)
    definitions = dict(_definitions(ast.parse(source)))
    used: set[str] = set()
    new = {function.__name__}
    while new:
        used |= new
        new = {name for each in new for name in _names(definitions[each]) if name in definitions} - used
    lines = source.splitlines()
    return sum(
        bool(lines[number - 1].strip()) and not lines[number - 1].lstrip().startswith("#")
        for name in used
        for number in _numbers(definitions[name])
    )


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node
            case _:
                pass


def _names(node: ast.AST) -> Iterator[str]:
    """The names in code, and those in blocks."""
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name):
                yield name
            case ast.Constant(value=str(text)) if text.startswith(_SENTINEL):
                yield from _NAMED.findall(text)
            case _:
                pass


def _numbers(node: ast.stmt) -> set[int]:
    """The numbers of the lines of a definition, without those of its docstrings."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(each.lineno for each in decorators)])
    numbers = set(range(first, (node.end_lineno or first) + 1))
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            match each.body[0]:
                case ast.Expr(value=ast.Constant(value=str(text))) if not text.startswith(_SENTINEL):
                    numbers -= set(range(each.body[0].lineno, (each.body[0].end_lineno or 0) + 1))
                case _:
                    pass
    return numbers
