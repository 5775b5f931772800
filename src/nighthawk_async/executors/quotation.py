"""Quoting a model in an error."""

__all__ = ["quote"]

_MAX_CHARACTERS = 500


def quote(text: str) -> str:
    """Quote a model, at most 500 characters."""
    said = text.strip() or "nothing"
    return said if len(said) <= _MAX_CHARACTERS else said[:_MAX_CHARACTERS] + "…"
