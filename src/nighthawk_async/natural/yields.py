"""The `yield` expressions of a generator's own code. Floor 1."""

import ast
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from .scope import children_in_scope
from .tree import replaced

__all__ = ["Yield", "map_yields"]

Yield: TypeAlias = ast.Yield | ast.YieldFrom

Chain: TypeAlias = tuple[ast.AST, "Chain | None"]
"""A node, and those around it, innermost first."""


def map_yields(statement: ast.stmt, change: Callable[[Yield], ast.expr]) -> ast.stmt:
    """Return a statement whose `yield` expressions are changed, except for those of functions it defines.

    Args:
        statement: Any statement.
        change: Takes such an expression, with those inside it changed already, and returns another one.
    """
    concerned = _around_yields(statement)

    def mapped(value: Any) -> Any:
        if isinstance(value, list):
            return [mapped(item) for item in cast("list[object]", value)]
        if id(value) not in concerned:  # expressions may be too deep to go through all of them like this
            return value
        new = replaced(value, **{name: mapped(getattr(value, name)) for name in value._fields})
        return change(new) if isinstance(new, Yield) else new

    return mapped(statement)


def _around_yields(statement: ast.stmt) -> set[int]:
    """The identities of the `yield` expressions and of the nodes around them."""
    concerned: set[int] = set()
    pending: list[Chain] = [(statement, None)]
    while pending:
        chain = pending.pop()
        pending += [(child, chain) for child in children_in_scope(chain[0])]
        around: Chain | None = chain if isinstance(chain[0], Yield) else None
        while around is not None and id(around[0]) not in concerned:
            concerned.add(id(around[0]))
            around = around[1]
    return concerned
