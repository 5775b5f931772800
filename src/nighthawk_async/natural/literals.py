"""Natural blocks among the statements of a syntax tree.

A block is an expression statement that is a string literal or an f-string starting with the sentinel
(specification 6). Where such a statement may stand is decided by whoever walks the tree.
"""

import ast
import re
from typing import TypeAlias

from .program import SENTINEL

__all__ = ["NaturalLiteral", "interpolated_binding", "literal_parts", "natural_literal"]

NaturalLiteral: TypeAlias = ast.Constant | ast.JoinedStr

_VALUE = "\ufdd0"
"""Stands for an interpolated value; a noncharacter, which no source text means."""

_BINDING_OF_VALUE = re.compile(rf"(?<!\\)<(?::[^<>\n]*{_VALUE}[^<>\n]*|[\w.]*{_VALUE}[\w.{_VALUE}]*)>")


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


def interpolated_binding(literal: NaturalLiteral) -> str | None:
    """Return the first binding of an f-string whose name is a value, as it is written; None for none.

    Args:
        literal: The literal of a natural block.
    """
    if not isinstance(literal, ast.JoinedStr):
        return None
    values = [part for part in literal.values if not isinstance(part, ast.Constant)]
    text = "".join(str(part.value) if isinstance(part, ast.Constant) else _VALUE for part in literal.values)
    match = _BINDING_OF_VALUE.search(text)
    if match is None:
        return None
    written = match[0]
    for part in values[text[: match.start()].count(_VALUE) :][: written.count(_VALUE)]:
        written = written.replace(_VALUE, ast.unparse(ast.JoinedStr(values=[part]))[2:-1], 1)
    return written


def _opening(literal: NaturalLiteral) -> object:
    """Return the constant that a literal begins with, or None when it begins with an interpolation."""
    first = literal.values[0] if isinstance(literal, ast.JoinedStr) and literal.values else literal
    return first.value if isinstance(first, ast.Constant) else None
