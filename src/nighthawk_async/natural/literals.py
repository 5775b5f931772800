"""Which statements of a syntax tree are natural blocks. Floor 1.

A block is an expression statement that is a string literal or an f-string starting with the sentinel
(specification 6). Where such a statement may stand is decided by whoever walks the tree.
"""

import ast
from typing import TypeAlias

from .program import SENTINEL

__all__ = ["NaturalLiteral", "literal_parts", "natural_literal"]

NaturalLiteral: TypeAlias = ast.Constant | ast.JoinedStr


def natural_literal(statement: ast.stmt) -> NaturalLiteral | None:
    """Return the literal of a natural block, or None when a statement is none.

    Bytes and template strings are no string literals here; concatenated literals are what Python makes of
    them.

    Args:
        statement: Any statement.
    """
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant | ast.JoinedStr):
        return None
    opening = _opening(statement.value)
    return statement.value if isinstance(opening, str) and opening.startswith(SENTINEL) else None


def literal_parts(literal: NaturalLiteral) -> tuple[str, ...]:
    """Return what the author wrote of a literal: for an f-string, the texts between the interpolations.

    Args:
        literal: The literal of a natural block.
    """
    parts = literal.values if isinstance(literal, ast.JoinedStr) else [literal]
    values = (part.value for part in parts if isinstance(part, ast.Constant))
    return tuple(value for value in values if isinstance(value, str))


def _opening(literal: NaturalLiteral) -> object:
    """Return the constant that a literal begins with, or None when it begins with an interpolation."""
    first = literal.values[0] if isinstance(literal, ast.JoinedStr) and literal.values else literal
    return first.value if isinstance(first, ast.Constant) else None
