"""Quoting a model in an error. Floor 4."""

__all__ = ["quote"]

_MAX_CHARACTERS = 500


def quote(text: str) -> str:
    """What a model said, at most 500 characters of it."""
    said = text.strip() or "nothing"
    return said if len(said) <= _MAX_CHARACTERS else said[:_MAX_CHARACTERS] + "…"
