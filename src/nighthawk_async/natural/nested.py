"""Functions and classes inside a natural function that hold natural blocks of their own.

Their blocks run when they are natural functions too, which only their decorators can tell, and those are
values. This module says by which names they can be looked up.
"""

import ast
from collections.abc import Iterator

from msgspec import Struct

from .literals import natural_literal
from .scope import FunctionNode, function_scope
from .tree import child_nodes, own_statements

__all__ = ["NestedBlock", "nested_blocks"]


class NestedBlock(Struct, frozen=True, kw_only=True):
    """A function or class with blocks of its own.

    Args:
        name: Its name.
        line: The line of its first block.
        is_class: Whether it is a class, which nothing can make natural.
        decorators: The dotted names of what decorates it, and of what is called with it as an argument; None
            for what is not looked up by a name from outside of the function.
    """

    name: str
    line: int
    is_class: bool
    decorators: tuple[str | None, ...]


def nested_blocks(node: FunctionNode) -> tuple[NestedBlock, ...]:
    """Find the functions and classes inside a function that have blocks, at any depth.

    Args:
        node: The definition of the function.
    """
    return tuple(_below(node, node, frozenset(function_scope(node).local_names)))


def _below(
    parent: FunctionNode | ast.ClassDef, outermost: FunctionNode, local_names: frozenset[str]
) -> Iterator[NestedBlock]:
    for statement in own_statements(parent.body):
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        is_class = isinstance(statement, ast.ClassDef)
        lines = [each.lineno for each in own_statements(statement.body) if natural_literal(each)]
        if lines:
            yield NestedBlock(
                name=statement.name,
                line=lines[0],
                is_class=is_class,
                decorators=tuple(_decorators(statement, outermost, local_names)),
            )
        inner = frozenset[str]() if is_class else function_scope(statement).local_names
        yield from _below(statement, outermost, local_names | inner)


def _decorators(
    statement: FunctionNode | ast.ClassDef, outermost: FunctionNode, local_names: frozenset[str]
) -> Iterator[str | None]:
    for decorator in statement.decorator_list:
        yield _dotted_name(decorator, local_names)
    pending: list[ast.AST] = [outermost]
    while pending:
        node = pending.pop()
        pending += child_nodes(node)
        if isinstance(node, ast.Call):
            given = (*node.args, *(keyword.value for keyword in node.keywords))
            if any(isinstance(each, ast.Name) and each.id == statement.name for each in given):
                yield _dotted_name(node.func, local_names)


def _dotted_name(expression: ast.expr, local_names: frozenset[str]) -> str | None:
    """The dotted name of what an expression looks up, or calls; None for a local variable's and for none."""
    while isinstance(expression, ast.Call):
        expression = expression.func
    names: list[str] = []
    while isinstance(expression, ast.Attribute):
        names.append(expression.attr)
        expression = expression.value
    if not isinstance(expression, ast.Name) or expression.id in local_names:
        return None
    return ".".join((expression.id, *reversed(names)))
