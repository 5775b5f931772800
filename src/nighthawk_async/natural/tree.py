"""Walking and rebuilding statements.

Syntax trees of files are shared between functions, so nodes are never changed: a changed statement is a new
node that shares its unchanged parts.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast

__all__ = [
    "child_nodes",
    "is_docstring",
    "map_bodies",
    "name_references",
    "own_statements",
    "replaced",
    "with_location",
]

Node = TypeVar("Node", bound=ast.AST)

_BODIES = ("body", "orelse", "finalbody")
_ARMS = ("handlers", "cases")


def child_nodes(node: ast.AST) -> list[ast.AST]:
    """Return the nodes directly below a node, in the order of the source.

    `ast.iter_child_nodes` says the same; half of the time that a decoration took went into it.

    Args:
        node: Any node.
    """
    children: list[ast.AST] = []
    fields = vars(node)
    for name in node._fields:
        value = fields.get(name)
        if isinstance(value, ast.AST):
            children.append(value)
        elif isinstance(value, list):
            children += [item for item in cast("list[object]", value) if isinstance(item, ast.AST)]
    return children


def replaced(node: Node, **changes: object) -> Node:
    """Return a copy of a node with some of its fields changed.

    Args:
        node: Any node.
        changes: The new values by field name.
    """
    fields: dict[str, Any] = {**vars(node), **changes}
    return type(node)(**fields)


def map_bodies(statement: ast.stmt, change: Callable[[list[ast.stmt], str], list[ast.stmt]]) -> ast.stmt:
    """Return a compound statement whose inner bodies are changed; any other statement is returned as it is.

    Args:
        statement: Any statement.
        change: Takes an inner body and the name of the field it was found in (that of the `except` handlers
            and the `case` arms is `handlers` and `cases`), returns the new body.
    """
    changes: dict[str, object] = {}
    for name in statement._fields:  # in the order of the source
        value = getattr(statement, name)
        if name in _BODIES and value:
            changes[name] = change(value, name)
        elif name in _ARMS and value:
            changes[name] = [replaced(arm, body=change(arm.body, name)) for arm in value]
    return replaced(statement, **changes) if changes else statement


def own_statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield every statement of a body at any depth, but none inside the functions and classes it defines.

    Args:
        body: The statements of one scope.
    """
    for statement in body:
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for name in statement._fields:
            if name in _BODIES:
                yield from own_statements(getattr(statement, name))
            elif name in _ARMS:
                for arm in getattr(statement, name):
                    yield from own_statements(arm.body)


def with_location(nodes: list[ast.stmt], origin: ast.AST) -> list[ast.stmt]:
    """Give fresh statements, and everything in them, the location of a node of the user's source.

    Args:
        nodes: Statements that nobody else holds.
        origin: The node whose location they get.
    """
    location = {
        name: getattr(origin, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")
    }
    pending: list[ast.AST] = [*nodes]
    while pending:
        node = pending.pop()
        if "lineno" in node._attributes:
            vars(node).update(location)
        pending += child_nodes(node)
    return nodes


def name_references(names: Iterable[str], origin: ast.stmt) -> list[ast.stmt]:
    """Make statements that mention names for the compiler alone: they cost nothing at run time.

    Python makes cells for the variables that a nested function's code mentions; the text of a block is not
    code.

    Args:
        names: Identifiers.
        origin: The statement whose location the new ones get.
    """
    mentioned = ", ".join(sorted(set(names)))
    if not mentioned:
        return []
    return with_location(ast.parse(f"if False: ({mentioned})").body, origin)


def is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement would be the docstring of a body that it begins."""
    value = cast("object", getattr(statement, "value", None))
    return (
        isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str)
    )
