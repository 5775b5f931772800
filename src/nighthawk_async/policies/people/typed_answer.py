"""Answers that a person typed as text. Pure."""

import json
from decimal import Decimal

from ...errors import ToolValidationError
from .question import Question

__all__ = ["typed_answer"]


def typed_answer(typed: str, question: Question) -> object:
    """Return the value of a typed text: as pydantic reads texts, or as JSON, or the text itself for `str`.

    Numbers are as exact as they were typed. What fits in no way is handed on, for the error that tells why.

    Args:
        typed: What was typed.
        question: What was asked.
    """
    if question.schema is str:
        return typed
    text = typed.strip()
    try:
        question.validate(text)
    except ToolValidationError:
        try:
            return json.loads(text, parse_float=_exact_number)
        except (ValueError, RecursionError):
            return text
    return text


def _exact_number(digits: str) -> float | Decimal:
    """A floating-point number, unless it would stand for other digits."""
    number, exact = float(digits), Decimal(digits)
    return number if Decimal(repr(number)) == exact else exact
